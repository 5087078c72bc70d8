"""Rows as Avro records: the schema that Flink derives from a table, and conversions of values."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.exceptions import ValidationException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


#: Flink's name and namespace of a table's record.
_NAME: Final = "record"
_NAMESPACE: Final = "org.apache.flink.avro.generated"

_SIMPLE: Final[dict[type[types.DataType], str]] = {
    types.BooleanType: "boolean",
    types.TinyIntType: "int",
    types.SmallIntType: "int",
    types.IntType: "int",
    types.BigIntType: "long",
    types.FloatType: "float",
    types.DoubleType: "double",
    types.CharType: "string",
    types.VarCharType: "string",
    types.BinaryType: "bytes",
    types.VarBinaryType: "bytes",
}


def is_legacy(options: Mapping[str, str]) -> bool:
    """Return whether TIMESTAMP is an instant by the options of files; see `AvroMapping`."""
    return options.get("timestamp_mapping.legacy", "true").lower() != "false"


class AvroMapping:
    """The Avro schema of a row type, and the conversions of rows.

    Args:
        row_type: The type of the rows.
        is_legacy: Whether TIMESTAMP is an instant in Avro, Flink's default, and
            TIMESTAMP_LTZ is refused; otherwise TIMESTAMP is a local time.

    Raises:
        ValidationException: Avro has no type for a column.
    """

    def __init__(self, row_type: types.RowType, *, is_legacy: bool = True) -> None:
        self._is_legacy = is_legacy
        self._row_type = row_type
        self.schema = self._record(row_type, _NAME, is_top=True)
        self._names = row_type.field_names()
        self._to = [_optional(self._writer(kind)) for kind in row_type.field_types()]
        self._of = [_optional(self._reader(kind)) for kind in row_type.field_types()]

    @property
    def schema_text(self) -> str:
        """The schema in JSON."""
        return json.dumps(self.schema)

    def record(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return the record of a row."""
        return {
            name: convert(value)
            for name, convert, value in zip(self._names, self._to, row, strict=True)
        }

    def row(self, record: dict[str, Any]) -> list[Any]:
        """Return the row of a record; NULL for missing fields."""
        return [
            convert(record.get(name)) for name, convert in zip(self._names, self._of, strict=True)
        ]

    # Schemas ----------------------------------------------------------------------------------

    def _record(self, row_type: types.RowType, name: str, *, is_top: bool = False) -> Any:
        fields = []
        for field in row_type:
            made: dict[str, Any] = {
                "name": field.name,
                "type": self._type(field.data_type, f"{name}_{field.name}"),
            }
            if field.data_type.is_nullable:
                made["default"] = None
            fields.append(made)
        record: dict[str, Any] = {"type": "record", "name": name, "fields": fields}
        if is_top:
            record["namespace"] = _NAMESPACE
        return record

    def _type(self, kind: types.DataType, name: str) -> Any:
        found = self._plain_type(kind, name)
        return ["null", found] if kind.is_nullable else found

    def _plain_type(self, kind: types.DataType, name: str) -> Any:
        simple = _SIMPLE.get(type(kind))
        if simple is not None:
            return simple
        match kind:
            case types.DecimalType():
                return {
                    "type": "bytes",
                    "logicalType": "decimal",
                    "precision": kind.precision,
                    "scale": kind.scale,
                }
            case types.DateType():
                return {"type": "int", "logicalType": "date"}
            case types.TimeType() if kind.precision <= 3:
                return {"type": "int", "logicalType": "time-millis"}
            case types.TimestampType() if kind.precision <= self._finest:
                prefix = "" if self._is_legacy else "local-"
                return {"type": "long", "logicalType": f"{prefix}timestamp-{_unit(kind)}"}
            case types.LocalZonedTimestampType() if not self._is_legacy and kind.precision <= 6:
                return {"type": "long", "logicalType": f"timestamp-{_unit(kind)}"}
            case types.MultisetType():
                self._check_key(kind.element_type, kind)
                return {"type": "map", "values": "int"}
            case types.ArrayType():
                return {"type": "array", "items": self._type(kind.element_type, name)}
            case types.MapType():
                self._check_key(kind.key_type, kind)
                return {"type": "map", "values": self._type(kind.value_type, name)}
            case types.RowType():
                return self._record(kind, name)
        hint = ""
        if isinstance(kind, types.LocalZonedTimestampType) and self._is_legacy:
            hint = ": set 'avro.timestamp_mapping.legacy' = 'false'"
        raise ValidationException(f"Avro does not support the type {kind.summary()}{hint}")

    @property
    def _finest(self) -> int:
        """The highest precision of TIMESTAMP."""
        return 3 if self._is_legacy else 6

    @staticmethod
    def _check_key(key: types.DataType, kind: types.DataType) -> None:
        if not isinstance(key, (types.CharType, types.VarCharType)):
            raise ValidationException(
                f"Avro does not support the type {kind.summary()}: keys of its maps are texts"
            )

    # Values -----------------------------------------------------------------------------------

    def _writer(self, kind: types.DataType) -> Callable[[Any], Any] | None:
        match kind:
            case types.TimestampType() if self._is_legacy:
                return _as_utc
            case types.ArrayType():
                return _each(self._writer(kind.element_type))
            case types.MultisetType():
                return None
            case types.MapType():
                return _each_value(self._writer(kind.value_type))
            case types.RowType():
                names = kind.field_names()
                fields = [_optional(self._writer(part)) for part in kind.field_types()]
                return lambda row: {
                    name: convert(value)
                    for name, convert, value in zip(names, fields, row, strict=True)
                }
        return None

    def _reader(self, kind: types.DataType) -> Callable[[Any], Any] | None:
        match kind:
            case types.TimestampType():
                return _without_zone
            case types.ArrayType():
                return _each(self._reader(kind.element_type))
            case types.MultisetType():
                return None
            case types.MapType():
                return _each_value(self._reader(kind.value_type))
            case types.RowType():
                names = kind.field_names()
                fields = [_optional(self._reader(part)) for part in kind.field_types()]
                return lambda record: tuple(
                    convert(record.get(name)) for name, convert in zip(names, fields, strict=True)
                )
        return None


def _unit(kind: Any) -> str:
    return "millis" if kind.precision <= 3 else "micros"


def _optional(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _each(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if convert is None:
        return None
    one = _optional(convert)
    return lambda values: [one(value) for value in values]


def _each_value(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if convert is None:
        return None
    one = _optional(convert)
    return lambda values: {key: one(value) for key, value in values.items()}


def _as_utc(value: datetime.datetime) -> datetime.datetime:
    return value.replace(tzinfo=datetime.UTC)


def _without_zone(value: datetime.datetime) -> datetime.datetime:
    return value.replace(tzinfo=None)
