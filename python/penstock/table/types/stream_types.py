"""Conversions between types of streams and types of tables."""

from __future__ import annotations

import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.common import composite_types as c
from penstock.common.basic_types import BasicType, BasicTypeInfo
from penstock.common.temporal_types import (
    DateTypeInfo,
    LocalTimeTypeInfo,
    LocalZonedTimestampTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from penstock.common.typeinfo import Types
from penstock.common.values.instants import micros_of
from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.types import DataTypes, RowField, RowType

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation
    from penstock.common.types import Row

_BASIC: Final[dict[BasicType, types.DataType]] = {
    BasicType.STRING: DataTypes.STRING(),
    BasicType.BYTE: DataTypes.TINYINT(),
    BasicType.BOOLEAN: DataTypes.BOOLEAN(),
    BasicType.SHORT: DataTypes.SMALLINT(),
    BasicType.INT: DataTypes.INT(),
    BasicType.LONG: DataTypes.BIGINT(),
    BasicType.FLOAT: DataTypes.FLOAT(),
    BasicType.DOUBLE: DataTypes.DOUBLE(),
    BasicType.CHAR: DataTypes.CHAR(1),
    BasicType.BIG_INT: DataTypes.DECIMAL(38, 0),
    BasicType.BIG_DEC: DataTypes.DECIMAL(38, 18),
    BasicType.INSTANT: DataTypes.TIMESTAMP_LTZ(9),
}


def data_type_of(info: TypeInformation | None) -> types.DataType:
    """Return the SQL type of the records of a stream.

    Raises:
        ValidationException: SQL has no such type.
    """
    match info:
        case None | c.PickledBytesTypeInfo():
            return types.RawType()
        case BasicTypeInfo():
            return _BASIC[info.basic_type]
        case c.RowTypeInfo():
            pairs = zip(info.get_field_names(), info.get_field_types(), strict=True)
            return RowType([RowField(name, data_type_of(kind)) for name, kind in pairs])
        case c.TupleTypeInfo():
            kinds = map(data_type_of, info.get_field_types())
            return RowType([RowField(f"f{i}", as_of_record(kind)) for i, kind in enumerate(kinds)])
        case c.PrimitiveArrayTypeInfo():
            element = info.element_type
            if isinstance(element, BasicTypeInfo) and element.basic_type is BasicType.BYTE:
                return DataTypes.BYTES()
            return types.ArrayType(data_type_of(element).not_null())
        case c.BasicArrayTypeInfo() | c.ObjectArrayTypeInfo() | c.ListTypeInfo():
            return types.ArrayType(data_type_of(info.element_type))
        case c.MapTypeInfo():
            return types.MapType(data_type_of(info.key_type), data_type_of(info.value_type))
        case DateTypeInfo():
            return DataTypes.DATE()
        case TimeTypeInfo():
            return DataTypes.TIME(0)
        case LocalZonedTimestampTypeInfo():
            return DataTypes.TIMESTAMP_LTZ(3)
        case TimestampTypeInfo():
            return DataTypes.TIMESTAMP(3)
        case LocalTimeTypeInfo():
            return DataTypes.TIMESTAMP(3)
    raise ValidationException(
        f"A stream of the type {info!r} cannot become a table: give its operator an output_type, "
        "as Types.ROW_NAMED(['a'], [Types.INT()])"
    )


_NEVER_NONE: Final = (
    types.BooleanType,
    types.IntegralType,
    types.FloatType,
    types.DoubleType,
    types.VarBinaryType,
    types.ArrayType,
    types.MapType,
)


def as_of_record(kind: types.DataType) -> types.DataType:
    """Return the type of a whole record or of a field of a tuple.

    These are never None if they are numbers, truth values or collections.
    """
    return kind.not_null() if isinstance(kind, _NEVER_NONE) else kind


_INFOS: Final[dict[type[types.DataType], Any]] = {
    types.BooleanType: Types.BOOLEAN,
    types.TinyIntType: Types.BYTE,
    types.SmallIntType: Types.SHORT,
    types.IntType: Types.INT,
    types.BigIntType: Types.LONG,
    types.FloatType: Types.FLOAT,
    types.DoubleType: Types.DOUBLE,
    types.DecimalType: Types.BIG_DEC,
    types.CharType: Types.STRING,
    types.VarCharType: Types.STRING,
    types.DateType: Types.SQL_DATE,
    types.TimeType: Types.SQL_TIME,
    types.TimestampType: Types.SQL_TIMESTAMP,
    types.LocalZonedTimestampType: Types.INSTANT,
    types.YearMonthIntervalType: Types.INT,
}


def type_info_of(data_type: types.DataType) -> TypeInformation:
    """Return the type of a stream of SQL values; any Python value if there is none."""
    made = _INFOS.get(type(data_type))
    if made is not None:
        info: TypeInformation = made()
        return info
    match data_type:
        case types.BinaryType() | types.VarBinaryType():
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        case types.RowType():
            return Types.ROW_NAMED(
                data_type.field_names(), [type_info_of(kind) for kind in data_type.field_types()]
            )
        case types.MultisetType():
            return Types.MAP(type_info_of(data_type.element_type), Types.INT())
        case types.ArrayType():
            return Types.LIST(type_info_of(data_type.element_type))
        case types.MapType():
            return Types.MAP(type_info_of(data_type.key_type), type_info_of(data_type.value_type))
    return Types.PICKLED_BYTE_ARRAY()


def with_instants(info: TypeInformation) -> Callable[[Any], Any] | None:
    """Return a conversion of a table's datetimes to the Instants of a stream type.

    Operators in the same chain receive a value unchanged, so a declared type alone would not
    convert a datetime.

    Args:
        info: The type of the stream's values.

    Returns:
        The conversion of a value; None if the type has no Instant.
    """
    match info:
        case BasicTypeInfo(basic_type=BasicType.INSTANT):
            return partial(_instant, info)
        case c.ListTypeInfo():
            of_element = with_instants(info.element_type)
            if of_element is None:
                return None
            return lambda value: None if value is None else [of_element(v) for v in value]
        case c.MapTypeInfo():
            kinds = [with_instants(info.key_type), with_instants(info.value_type)]
            if kinds == [None, None]:
                return None
            of_key, of_value = (kind or _unchanged for kind in kinds)
            return lambda value: (
                None if value is None else {of_key(k): of_value(v) for k, v in value.items()}
            )
        case c.RowTypeInfo():
            conversions = [with_instants(kind) for kind in info.get_field_types()]
            places = [(i, kind) for i, kind in enumerate(conversions) if kind is not None]
            return partial(_row_with_instants, places) if places else None
    return None


def _instant(info: BasicTypeInfo, value: Any) -> Any:
    if not isinstance(value, datetime.datetime):
        return value
    return info.from_internal_type(micros_of(value))


def _unchanged(value: Any) -> Any:
    return value


def _row_with_instants(places: list[tuple[int, Callable[[Any], Any]]], row: Row | None) -> Any:
    if row is not None:
        for place, convert in places:
            row[place] = convert(row[place])
    return row
