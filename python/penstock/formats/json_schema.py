"""The types of JSON schemas, by Flink's rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import BasicTypeInfo
from penstock.common.typeinfo import Types
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

_FORMATS: Final = {
    "date": Types.SQL_DATE,
    "time": Types.SQL_TIME,
    "date-time": Types.SQL_TIMESTAMP,
}

_DEEPEST: Final = 100


def type_of_json_schema(text: str) -> TypeInformation:
    """Return the type of a JSON schema: numbers are decimals, and arrays of several types are rows.

    Raises:
        InvalidProgramError: The text is not a JSON schema, or a part of it has no type.
    """
    try:
        schema = json.loads(text)
    except (ValueError, TypeError) as error:
        raise InvalidProgramError(f"Invalid JSON schema: {error}") from None
    return _SchemaReader(schema).type_of(schema, "<root>")


class _SchemaReader:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._depth = 0

    def type_of(self, schema: Any, where: str) -> TypeInformation:
        """Return the type of a part of the schema."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidProgramError(
                f"the JSON schema refers to itself, or is too deep, at {where}"
            )
        try:
            return self._type_of(schema, where)
        finally:
            self._depth -= 1

    def _type_of(self, schema: Any, where: str) -> TypeInformation:
        if not isinstance(schema, dict):
            raise InvalidProgramError(f"the JSON schema has no type at {where}: {schema!r}")
        if "$ref" in schema:
            return self.type_of(self._referred(schema["$ref"], where), where)
        if "oneOf" in schema:
            return self._alternative(schema["oneOf"], where)
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [each for each in kind if each != "null"]
            if len(kinds) != 1:
                raise InvalidProgramError(f"the JSON schema has several types at {where}: {kind}")
            kind = kinds[0]
        if kind == "object":
            fields = schema.get("properties")
            if not isinstance(fields, dict) or not fields:
                raise InvalidProgramError(f"the JSON schema names no properties at {where}")
            return Types.ROW_NAMED(
                list(fields),
                [self.type_of(each, f"{where}/{name}") for name, each in fields.items()],
            )
        if kind == "array":
            return self._array(schema, where)
        if kind == "string":
            if schema.get("contentEncoding") == "base64":
                return Types.PRIMITIVE_ARRAY(Types.BYTE())
            return _FORMATS.get(str(schema.get("format")), Types.STRING)()
        if kind in ("number", "integer"):
            return Types.BIG_DEC()
        if kind == "boolean":
            return Types.BOOLEAN()
        raise InvalidProgramError(f"the JSON schema has an unsupported type at {where}: {kind!r}")

    def _array(self, schema: dict[str, Any], where: str) -> TypeInformation:
        items = schema.get("items")
        if isinstance(items, list):
            if schema.get("additionalItems", False) is not False:
                raise InvalidProgramError(f"the JSON schema allows further items at {where}")
            return Types.ROW([self.type_of(each, f"{where}/{i}") for i, each in enumerate(items)])
        element = self.type_of(items, f"{where}/items")
        is_basic = isinstance(element, BasicTypeInfo)
        return Types.BASIC_ARRAY(element) if is_basic else Types.OBJECT_ARRAY(element)

    def _alternative(self, alternatives: Any, where: str) -> TypeInformation:
        found = [each for each in alternatives if each.get("type") != "null"]
        if len(found) != 1:
            raise InvalidProgramError(f"the JSON schema has several types at {where}: oneOf")
        return self.type_of(found[0], where)

    def _referred(self, reference: Any, where: str) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise InvalidProgramError(f"the JSON schema refers elsewhere at {where}: {reference!r}")
        found = self._root
        for name in reference[1:].split("/")[1:]:
            if not isinstance(found, dict) or name not in found:
                raise InvalidProgramError(f"the JSON schema has no {reference!r}, used at {where}")
            found = found[name]
        return found
