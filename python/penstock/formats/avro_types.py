"""The types of Avro schemas, and conversions between Avro's values and values of these types."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import BasicTypeInfo
from penstock.common.time import Instant
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.values.records import plain_values
from penstock.formats.avro_library import avro_library
from penstock.formats.json_values import field_values, named_row
from penstock.formats.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from penstock.common.types import Row

_SIMPLE: Final[dict[str, Callable[[], TypeInformation]]] = {
    "boolean": Types.BOOLEAN,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "string": Types.STRING,
    "enum": Types.STRING,
}

_LOGICAL: Final[dict[str, Callable[[], TypeInformation]]] = {
    "date": Types.SQL_DATE,
    "time-millis": Types.SQL_TIME,
    "time-micros": Types.SQL_TIME,
    "timestamp-millis": Types.SQL_TIMESTAMP,
    "timestamp-micros": Types.SQL_TIMESTAMP,
    "local-timestamp-millis": Types.SQL_TIMESTAMP,
    "local-timestamp-micros": Types.SQL_TIMESTAMP,
    "decimal": Types.BIG_DEC,
    "uuid": Types.PICKLED_BYTE_ARRAY,
}

#: The smallest and the largest value of a type.
_RANGES: Final = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}

_UTC_TIMES: Final = ("timestamp-millis", "timestamp-micros")


class AvroTypes:
    """The types of a parsed schema and its parts.

    A record is a row, an array a list; times are in UTC, without a zone; a union of more than
    ``null`` and one other type, and a recursive record, is any Python value.
    """

    def __init__(self, parsed: Any, *, has_zones: bool = False) -> None:
        """Create the types of a schema that ``fastavro.parse_schema`` returned.

        Args:
            parsed: The schema.
            has_zones: Whether instants are datetimes with the zone UTC, or without a zone.
        """
        self.parsed = parsed
        self._has_zones = has_zones
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()
        self.type_info = self._type_of(parsed)

    def _type_of(self, schema: Any) -> TypeInformation:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            return self._type_of(others[0]) if len(others) == 1 else Types.PICKLED_BYTE_ARRAY()
        if isinstance(schema, str):
            schema = {"type": schema}
        name = schema.get("logicalType", "")
        if self._has_zones and name in _UTC_TIMES:
            return Types.TIMESTAMP_LTZ()
        logical = _LOGICAL.get(name)
        if logical is not None:
            return logical()
        kind = schema["type"]
        if kind == "record":
            return self._record(schema)
        if kind == "array":
            element = self._type_of(schema["items"])
            is_basic = isinstance(element, BasicTypeInfo)
            return Types.BASIC_ARRAY(element) if is_basic else Types.OBJECT_ARRAY(element)
        if kind == "map":
            return Types.MAP(Types.STRING(), self._type_of(schema["values"]))
        if kind in ("bytes", "fixed"):
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        simple = _SIMPLE.get(kind)
        return Types.PICKLED_BYTE_ARRAY() if simple is None else simple()

    def _record(self, schema: dict[str, Any]) -> TypeInformation:
        name = schema["name"]
        if name in self._open:
            return Types.PICKLED_BYTE_ARRAY()
        self._open.add(name)
        fields = schema["fields"]
        found = Types.ROW_NAMED(
            [field["name"] for field in fields],
            [self._type_of(field["type"]) for field in fields],
        )
        self._open.discard(name)
        return found

    def _resolved(self, schema: Any) -> Any:
        if isinstance(schema, dict) and "name" in schema:
            self._named[schema["name"]] = schema
        return self._named.get(schema, schema) if isinstance(schema, str) else schema

    def reader(self) -> Callable[[Any], Any]:
        """Return the conversion of fastavro's values to those of the type."""
        return self._reader(self.parsed, {})

    def _reader(self, schema: Any, made: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self._union_reader(schema, made)
        if not isinstance(schema, dict):
            return _as_it_is
        if schema.get("logicalType") in _UTC_TIMES:
            return lambda value: value.replace(tzinfo=None)
        kind = schema["type"]
        if kind == "record":
            return self._row_reader(schema, made)
        if kind in ("array", "map"):
            of = self._reader(schema["items" if kind == "array" else "values"], made)
            if of is _as_it_is:
                return of
            if kind == "array":
                return lambda values: [of(value) for value in values]
            return lambda values: {key: of(value) for key, value in values.items()}
        return _as_it_is

    def _union_reader(
        self, schema: list[Any], made: dict[str, Callable[[Any], Any]]
    ) -> Callable[[Any], Any]:
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            return _as_it_is
        of = self._reader(others[0], made)
        return of if of is _as_it_is else lambda value: None if value is None else of(value)

    def _row_reader(
        self, schema: dict[str, Any], made: dict[str, Callable[[Any], Any]]
    ) -> Callable[[Any], Any]:
        name = schema["name"]
        if name in made:
            return lambda value: made[name](value)
        names = [field["name"] for field in schema["fields"]]
        made[name] = _as_it_is
        fields = [self._reader(field["type"], made) for field in schema["fields"]]
        changed = [(i, read) for i, read in enumerate(fields) if read is not _as_it_is]

        def read(value: dict[str, Any]) -> Row:
            # The dictionary has the order of the writer's schema, which may differ.
            values = list(map(value.__getitem__, names))
            for position, convert in changed:
                values[position] = convert(values[position])
            return named_row(names, values)

        made[name] = read
        return read

    def writable(self, value: Any) -> Any:
        """Return a value of the type in fastavro's form.

        Raises:
            Misfit: A row's fields differ from the record's.
        """
        return self._writable(self.parsed, value)

    def unwritten(self, value: Any) -> Misfit | None:
        """Return the field that cannot be written, and the reason; a slow search."""
        return self._unwritten(self.parsed, value)

    def unread(self, stream: BinaryIO) -> list[str]:
        """Return the path of the field that cannot be read; a slow search."""
        path: list[str] = []
        with suppress(Exception):  # fastavro has raised the same error for the whole record
            self._read_on(self.parsed, stream, path)
        return path

    def _unwritten(self, schema: Any, value: Any) -> Misfit | None:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            if value is None or len(others) != 1:
                return self._not_of(schema, value)
            return self._unwritten(others[0], value)
        kind = schema["type"] if isinstance(schema, dict) else schema
        parts: Iterable[tuple[Any, Any, Any]]
        if kind == "record":
            try:
                pairs = _fields_of(schema, value)
            except Misfit as misfit:
                return misfit
            given = [field["name"] for field, _ in pairs]
            for field in schema["fields"]:
                name = field["name"]
                is_missing = name not in given and "default" not in field
                if is_missing and self._not_of(field["type"], None) is not None:
                    return Misfit("it is missing", name)
            parts = ((field["name"], field["type"], each) for field, each in pairs)
        elif kind == "array" and isinstance(value, (list, tuple)):
            parts = ((index, schema["items"], each) for index, each in enumerate(value))
        elif kind == "map" and isinstance(value, dict):
            parts = ((key, schema["values"], each) for key, each in value.items())
        else:
            return self._not_of(schema, value)
        for name, of, each in parts:
            found = self._unwritten(of, each)
            if found is not None:
                return found.within(str(name))
        return None

    def _not_of(self, schema: Any, value: Any) -> Misfit | None:
        try:
            written = {"value": self._writable(schema, value)}
            avro_library("AvroSchema").schemaless_writer(io.BytesIO(), self._alone(schema), written)
        except Misfit as misfit:
            return misfit
        except Exception as error:  # fastavro raises the errors of the value's operations
            return Misfit(f"{value!r:.100} is not a valid {_shown(schema)}: {error}")
        return None

    def _read_on(self, schema: Any, stream: BinaryIO, path: list[str]) -> None:
        """Read a value; if this fails, leave the path of the field in ``path``."""
        schema = self._resolved(schema)
        if not isinstance(schema, dict) or schema["type"] != "record":
            avro_library("AvroSchema").schemaless_reader(stream, self._alone(schema))
            return
        for field in schema["fields"]:
            path.append(field["name"])
            self._read_on(field["type"], stream, path)
            path.pop()

    def _alone(self, schema: Any) -> Any:
        """Return a record of a single value, with the schema's names as fastavro stores them."""
        whole = self.parsed if isinstance(self.parsed, dict) else {}
        return {
            **whole,
            "type": "record",
            "name": "penstock.Alone",
            "fields": [{"name": "value", "type": schema}],
        }

    def _writable(self, schema: Any, value: Any) -> Any:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            single = value is not None and len(others) == 1
            return self._writable(others[0], value) if single else value
        if not isinstance(schema, dict):
            least_and_most = _RANGES.get(schema)
            if least_and_most is not None and value is not None:
                # fastavro truncates fractions, and writes values that other readers reject.
                _check_whole(value, schema, *least_and_most)
            return value
        if value is None:
            return value
        if schema.get("logicalType") in _UTC_TIMES and isinstance(value, datetime.datetime):
            return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        if schema.get("logicalType") in _UTC_TIMES and isinstance(value, Instant):
            return _instant_as_long(value, schema["logicalType"])
        kind = schema["type"]
        if kind == "record":
            return self._writable_record(schema, value)
        if kind == "array":
            if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
                raise Misfit(f"{value!r:.100} is not an array")
            return [self._writable(schema["items"], each) for each in value]
        if kind == "map" and isinstance(value, dict):
            return {key: self._writable(schema["values"], each) for key, each in value.items()}
        return value

    def _writable_record(self, schema: dict[str, Any], value: Any) -> dict[str, Any]:
        written = {}
        for field, each in _fields_of(schema, value):
            try:
                written[field["name"]] = self._writable(field["type"], each)
            except Misfit as misfit:
                raise misfit.within(field["name"]) from None
        return written


def _fields_of(schema: dict[str, Any], value: Any) -> list[tuple[dict[str, Any], Any]]:
    """Return the fields of a record with their values; for a dictionary, those it has.

    Raises:
        Misfit: A row's fields differ from the record's.
    """
    fields = schema["fields"]
    if isinstance(value, dict):
        there = [field for field in fields if field["name"] in value]
        values = plain_values([value[field["name"]] for field in there])
        return list(zip(there, values, strict=True))
    return list(zip(fields, field_values(value, [field["name"] for field in fields]), strict=True))


def _instant_as_long(value: Instant, kind: str) -> int:
    """Return the number of an instant, a type unknown to fastavro.

    Raises:
        Misfit: The type is too coarse for the instant.
    """
    nanos_each = 1_000_000 if kind == "timestamp-millis" else 1_000
    parts, rest = divmod(value.nanos, nanos_each)
    if rest:
        raise Misfit(f"{value!r} is not a valid {kind}: it would lose a part of a second")
    return value.seconds * (1_000_000_000 // nanos_each) + parts


def _check_whole(value: Any, kind: str, least: int, most: int) -> None:
    if isinstance(value, float) or (isinstance(value, int) and not least <= value <= most):
        raise Misfit(f"{value!r} is not a valid {kind}")


def _shown(schema: Any) -> str:
    if isinstance(schema, list):
        return " or ".join(map(_shown, schema))
    if not isinstance(schema, dict):
        return str(schema)
    kind = str(schema.get("logicalType", schema["type"]))
    detail = {"enum": "symbols", "fixed": "size", "decimal": "precision"}.get(kind, "")
    return f"{kind} of {detail} {schema[detail]}" if detail in schema else kind


def _as_it_is(value: Any) -> Any:
    return value
