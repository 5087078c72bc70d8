"""Conversions between data types and Arrow types, and between Python values and Arrow arrays.

| SQL | Arrow |
|---|---|
| BOOLEAN, TINYINT ... BIGINT, FLOAT, DOUBLE | bool, int8 ... int64, float32, float64 |
| DECIMAL(p, s) | decimal128(p, s) |
| CHAR, VARCHAR; BINARY, VARBINARY | utf8; binary |
| DATE | date32 |
| TIME(p) | time32[ms] up to p = 3, else time64[us] or time64[ns] |
| TIMESTAMP(p), TIMESTAMP_LTZ(p) | timestamp of ms, us or ns; with the zone UTC for LTZ |
| INTERVAL of days to seconds; of years and months | duration[ms]; int32, of months |
| ARRAY, MAP, ROW | list, map, struct |
| MULTISET<t> | map<t, int32> |
| RAW | binary, of a pickled value |
"""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.common.types import Row
from penstock.common.values.records import plain_values
from penstock.serialization.code_pickle import dumps
from penstock.serialization.imports import unpickled
from penstock.table import types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

__all__ = [
    "arrow_array",
    "arrow_schema",
    "arrow_type",
    "data_type_of_arrow",
    "field_value",
    "fitting_decimal",
    "python_values",
]

_SIMPLE: Final[dict[type[types.DataType], str]] = {
    types.NullType: "null",
    types.BooleanType: "bool_",
    types.TinyIntType: "int8",
    types.SmallIntType: "int16",
    types.IntType: "int32",
    types.BigIntType: "int64",
    types.FloatType: "float32",
    types.DoubleType: "float64",
    types.CharType: "utf8",
    types.VarCharType: "utf8",
    types.BinaryType: "binary",
    types.VarBinaryType: "binary",
    types.RawType: "binary",
    types.DateType: "date32",
    types.YearMonthIntervalType: "int32",
}


def arrow_type(data_type: types.DataType) -> pa.DataType:
    """Return the Arrow type of a column of a data type.

    Raises:
        TypeError: Arrow has no such type.
    """
    import pyarrow as pa

    simple = _SIMPLE.get(type(data_type))
    if simple is not None:
        return getattr(pa, simple)()
    match data_type:
        case types.DecimalType():
            return pa.decimal128(data_type.precision, data_type.scale)
        case types.TimeType():
            unit = _unit(data_type.precision)
            return pa.time32(unit) if unit == "ms" else pa.time64(unit)
        case types.TimestampType():
            return pa.timestamp(_unit(data_type.precision))
        case types.LocalZonedTimestampType():
            return pa.timestamp(_unit(data_type.precision), "UTC")
        case types.DayTimeIntervalType():
            return pa.duration("ms")
        case types.MultisetType():
            return pa.map_(arrow_type(data_type.element_type), pa.int32())
        case types.ArrayType():
            return pa.list_(arrow_type(data_type.element_type))
        case types.MapType():
            return pa.map_(arrow_type(data_type.key_type), arrow_type(data_type.value_type))
        case types.RowType():
            return pa.struct([pa.field(f.name, arrow_type(f.data_type)) for f in data_type])
    raise TypeError(f"The type {data_type} has no columnar form")


def arrow_schema(row_type: types.RowType) -> pa.Schema:
    """Return the Arrow schema of a table with a row type."""
    import pyarrow as pa

    return pa.schema([pa.field(f.name, arrow_type(f.data_type)) for f in row_type])


def _unit(precision: int) -> str:
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


_PRECISION_OF_UNIT: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def data_type_of_arrow(arrow: pa.DataType, nullable: bool = True) -> types.DataType:
    """Return the SQL type of an Arrow column, for example of a frame or a Parquet file.

    Raises:
        TypeError: SQL has no such type.
    """
    import pyarrow as pa

    kinds = pa.types
    for data_class, name in _SIMPLE.items():
        if (
            data_class in (types.YearMonthIntervalType, types.RawType)
            or arrow != getattr(pa, name)()
        ):
            continue
        if issubclass(data_class, (types.CharType, types.VarCharType)):
            return types.DataTypes.STRING(nullable)
        if issubclass(data_class, (types.BinaryType, types.VarBinaryType)):
            return types.DataTypes.BYTES(nullable)
        return data_class(nullable)
    if kinds.is_large_string(arrow) or kinds.is_string_view(arrow):
        return types.DataTypes.STRING(nullable)
    if kinds.is_large_binary(arrow) or kinds.is_binary_view(arrow):
        return types.DataTypes.BYTES(nullable)
    if kinds.is_fixed_size_binary(arrow):
        return types.BinaryType(arrow.byte_width, nullable)
    if kinds.is_dictionary(arrow):
        return data_type_of_arrow(arrow.value_type, nullable)
    if kinds.is_decimal(arrow):
        return types.DecimalType(arrow.precision, arrow.scale, nullable)
    if kinds.is_unsigned_integer(arrow) and arrow.bit_width < 64:
        wider = {8: types.SmallIntType, 16: types.IntType, 32: types.BigIntType}
        return wider[arrow.bit_width](nullable)
    if kinds.is_date(arrow):
        return types.DateType(nullable)
    if kinds.is_time(arrow):
        return types.TimeType(_PRECISION_OF_UNIT[arrow.unit], nullable)
    if kinds.is_timestamp(arrow):
        precision = _PRECISION_OF_UNIT[arrow.unit]
        if arrow.tz is None:
            return types.TimestampType(precision, nullable)
        return types.LocalZonedTimestampType(precision, nullable)
    if kinds.is_duration(arrow):
        return types.DayTimeIntervalType(nullable=nullable)
    if kinds.is_list(arrow) or kinds.is_large_list(arrow):
        return types.ArrayType(data_type_of_arrow(arrow.value_type), nullable)
    if kinds.is_map(arrow):
        key = data_type_of_arrow(arrow.key_type, nullable=False)
        return types.MapType(key, data_type_of_arrow(arrow.item_type), nullable)
    if kinds.is_struct(arrow):
        fields = [
            types.RowField(field.name, data_type_of_arrow(field.type, field.nullable))
            for field in arrow
        ]
        return types.RowType(fields, nullable)
    raise TypeError(f"There is no SQL type for Arrow's {arrow}")


# -- Python values to Arrow


def arrow_array(values: Sequence[Any], data_type: types.DataType) -> pa.Array:
    """Convert Python values to a column.

    Rows may be ``Row``, tuples, lists or dictionaries.  Decimals are rounded to the type's scale;
    those with too many digits are NULL, as in Flink.

    Raises:
        TypeError: A value has another type.
        ValueError: A value does not fit.
    """
    import pyarrow as pa

    target = arrow_type(data_type)
    match data_type:
        case types.RowType():
            mask = pa.array([value is None for value in values], pa.bool_())
            columns = [
                arrow_array([field_value(value, i, f.name) for value in values], f.data_type)
                for i, f in enumerate(data_type)
            ]
            return pa.StructArray.from_arrays(columns, fields=list(target), mask=mask)
        case types.MultisetType():
            return _map_array(values, data_type.element_type, types.IntType(), target)
        case types.ArrayType():
            items = [item for value in values if value is not None for item in value]
            offsets = _offsets(values)
            return pa.ListArray.from_arrays(
                offsets, arrow_array(items, data_type.element_type), type=target
            )
        case types.MapType():
            return _map_array(values, data_type.key_type, data_type.value_type, target)
    convert = _TO_ARROW.get(type(data_type))
    if convert is not None:
        values = [None if value is None else convert(value, data_type) for value in values]
    try:
        return pa.array(values, target)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        if isinstance(data_type, types.IntegralType) and any(
            v is True or v is False for v in values
        ):
            # As in PyFlink, a bool of a Python function is a number.
            numbers = [int(value) if isinstance(value, bool) else value for value in values]
            return arrow_array(numbers, data_type)
        kind = TypeError if isinstance(error, pa.ArrowTypeError) else ValueError
        raise kind(f"A value does not fit the type {data_type}: {error}") from error


def field_value(row: Any, position: int, name: str) -> Any:
    """Return a field of a Row, tuple, list, dictionary or object; None for None.

    Members of enums, which records of a class may have, become their values.
    """
    if row is None:
        return None
    if isinstance(row, Row) and hasattr(row, "_fields"):
        return row[name]
    if isinstance(row, Row) or type(row) in (tuple, list):
        return row[position]
    if isinstance(row, dict):
        found = row.get(name)
    elif isinstance(row, (tuple, list)):
        found = row[position]
    else:
        found = getattr(row, name)
    return plain_values([found])[0]


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Return the offsets of lists in their elements; a NULL offset starts a NULL list."""
    import pyarrow as pa

    offsets: list[int | None] = []
    at = 0
    for value in values:
        offsets.append(None if value is None else at)
        at += 0 if value is None else len(value)
    return pa.array([*offsets, at], pa.int32())


def _map_array(
    values: Sequence[Any],
    key_type: types.DataType,
    value_type: types.DataType,
    target: pa.DataType,
) -> pa.Array:
    import pyarrow as pa

    entries = [item for value in values if value is not None for item in value.items()]
    keys = arrow_array([key for key, _ in entries], key_type)
    items = arrow_array([item for _, item in entries], value_type)
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=target)


def fitting_decimal(value: Any, data_type: Any) -> decimal.Decimal | None:
    """Round a number half up to the scale of a DECIMAL; return None if it has too many digits."""
    number = decimal.Decimal(value)
    if number and number.adjusted() + 1 > data_type.precision - data_type.scale:
        return None
    with decimal.localcontext(prec=100):
        number = number.quantize(
            decimal.Decimal(1).scaleb(-data_type.scale), rounding=decimal.ROUND_HALF_UP
        )
    return None if len(number.as_tuple().digits) > data_type.precision else number


def _to_timestamp(value: Any, _data_type: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def _to_instant(value: Any, _data_type: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    seconds, nanoseconds = value.seconds, value.nanos
    return epoch + datetime.timedelta(seconds=seconds, microseconds=nanoseconds // 1000)


_TO_ARROW: Final[dict[type[types.DataType], Callable[[Any, Any], Any]]] = {
    types.DecimalType: fitting_decimal,
    types.TimestampType: _to_timestamp,
    types.LocalZonedTimestampType: _to_instant,
    types.BinaryType: lambda value, _: bytes(value),
    types.VarBinaryType: lambda value, _: bytes(value),
    types.RawType: lambda value, _: dumps(value),
}


# -- Arrow to Python values


def python_values(
    array: pa.Array | pa.ChunkedArray,
    data_type: types.DataType,
    *,
    is_collected: bool = False,
    named_rows: bool = False,
) -> list[Any]:
    """Convert a column to Python values.

    Args:
        array: The column.
        data_type: Its type.
        is_collected: Whether ``collect()`` returns them, as PyFlink does: BYTES as bytearrays, and
            FLOAT as the number that its shortest digits denote.
        named_rows: Whether rows inside the values have field names.
    """
    match data_type:
        case types.RowType():
            return _rows(array, data_type, is_collected, named_rows)
        case types.ArrayType() | types.MapType():
            return _collections(array, data_type, is_collected, named_rows)
        case types.BinaryType() | types.VarBinaryType():
            make = bytearray if is_collected else bytes
            return [None if v is None else make(v) for v in array.to_pylist()]
        case types.FloatType() if is_collected:
            array = array.cast("string").cast("double")
        case types.RawType():
            return [None if v is None else unpickled(v) for v in array.to_pylist()]
        case types.TimestampType() | types.LocalZonedTimestampType() | types.TimeType():
            if data_type.precision > 6:
                array = _without_nanoseconds(array)
    values: list[Any] = array.to_pylist()
    return values


def _without_nanoseconds(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    kind = array.type
    target = pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else pa.time64("us")
    return array.cast(target, safe=False)


def _rows(array: Any, data_type: types.RowType, is_collected: bool, named: bool) -> list[Any]:
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    names = data_type.field_names()
    columns = [
        python_values(column, f.data_type, is_collected=is_collected, named_rows=named)
        for column, f in zip(array.flatten(), data_type, strict=True)
    ]
    rows: list[Any] = []
    for i, present in enumerate(array.is_valid().to_pylist()):
        if not present:
            rows.append(None)
            continue
        row = Row(*[column[i] for column in columns])
        if named:
            row.set_field_names(names)
        rows.append(row)
    return rows


def _collections(
    array: Any, data_type: types.DataType, is_collected: bool, named: bool
) -> list[Any]:
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    parts: list[tuple[Any, types.DataType]]
    if isinstance(data_type, types.MapType):
        parts = [(array.keys, data_type.key_type), (array.items, data_type.value_type)]
    elif isinstance(data_type, types.MultisetType):
        parts = [(array.keys, data_type.element_type), (array.items, types.IntType())]
    else:
        assert isinstance(data_type, types.ArrayType)
        parts = [(array.values, data_type.element_type)]
    lists = [
        python_values(part, kind, is_collected=is_collected, named_rows=named)
        for part, kind in parts
    ]
    made: list[Any] = []
    for i, present in enumerate(valid):
        start, end = offsets[i], offsets[i + 1]
        if not present:
            made.append(None)
        elif len(lists) == 1:
            made.append(lists[0][start:end])
        else:
            made.append(dict(zip(lists[0][start:end], lists[1][start:end], strict=True)))
    return made
