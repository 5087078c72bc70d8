"""Rows of the program: type inference, and checks of values against declared types."""

from __future__ import annotations

import array
import datetime
import decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.common.types import Row
from penstock.table import types
from penstock.table.formats.scalar_text import INTEGER_BITS
from penstock.table.types import DataTypes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_INFERRED: Final[dict[type, types.DataType]] = {
    bool: DataTypes.BOOLEAN(),
    int: DataTypes.BIGINT(),
    float: DataTypes.DOUBLE(),
    str: DataTypes.STRING(),
    bytearray: DataTypes.BYTES(),
    decimal.Decimal: DataTypes.DECIMAL(38, 18),
    datetime.date: DataTypes.DATE(),
    datetime.time: DataTypes.TIME(),
    datetime.datetime: DataTypes.TIMESTAMP_LTZ(6),
    datetime.timedelta: DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND()),
}
_ARRAYS: Final = {
    "b": DataTypes.TINYINT(),
    "h": DataTypes.SMALLINT(),
    "i": DataTypes.INT(),
    "l": DataTypes.BIGINT(),
    "q": DataTypes.BIGINT(),
    "f": DataTypes.FLOAT(),
    "d": DataTypes.DOUBLE(),
}

_ACCEPTED: Final[dict[type[types.DataType], tuple[type, ...]]] = {
    types.BooleanType: (bool,),
    types.TinyIntType: (int,),
    types.SmallIntType: (int,),
    types.IntType: (int,),
    types.BigIntType: (int,),
    types.FloatType: (float,),
    types.DoubleType: (float,),
    types.DecimalType: (decimal.Decimal,),
    types.CharType: (str,),
    types.VarCharType: (str,),
    types.BinaryType: (bytearray,),
    types.VarBinaryType: (bytearray,),
    types.DateType: (datetime.date, datetime.datetime),
    types.TimeType: (datetime.time,),
    types.TimestampType: (datetime.datetime,),
    types.LocalZonedTimestampType: (datetime.datetime,),
    types.DayTimeIntervalType: (datetime.timedelta,),
    types.ArrayType: (list, tuple, array.array),
    types.MapType: (dict,),
    types.MultisetType: (dict, list),
}


# Inference ----------------------------------------------------------------------------------------


def infer_row_type(elements: Sequence[Any], names: Sequence[str] | None) -> types.RowType:
    """Infer the type of rows from their values.

    Args:
        elements: The rows: tuples, lists, Rows, dictionaries or objects.
        names: The names of the columns; ``_1``, ``_2`` and so on if there are too few.

    Raises:
        ValueError: There are no rows, or a column has only None.
        TypeError: SQL has no type for a value, or two values of a column have different types.
    """
    if not elements:
        raise ValueError("Cannot infer the types of a table from no elements: give a schema")
    merged: types.DataType = _row_type(elements[0], names)
    for element in elements[1:]:
        merged = _merged(merged, _row_type(element, names), "")
    assert isinstance(merged, types.RowType)
    unknown = [field.name for field in merged if _has_null(field.data_type)]
    if unknown:
        raise ValueError(
            f"The type of column {unknown[0]!r} cannot be inferred: all of its values are None or "
            "empty; give a schema"
        )
    return merged


def infer_type(value: Any) -> types.DataType:
    """Infer the type of a value.

    Raises:
        TypeError: SQL has no such type.
    """
    found = _INFERRED.get(type(value))
    if value is None:
        return types.NullType()
    if found is not None:
        return found
    match value:
        case dict():
            for key, item in value.items():
                if key is not None and item is not None:
                    return types.MapType(infer_type(key).not_null(), infer_type(item))
            return types.MapType(types.NullType(), types.NullType())
        case list():
            known = [infer_type(item) for item in value if item is not None]
            element: types.DataType = types.NullType()
            for kind in known:
                element = _merged(element, kind, "an array")
            return types.ArrayType(element)
        case array.array():
            if value.typecode in _ARRAYS:
                return types.ArrayType(_ARRAYS[value.typecode].not_null())
        case bytes():
            raise TypeError("Bytes have no inferred type: use a bytearray, or give a schema")
        case Row() | tuple():
            return _row_type(value, None)
    if hasattr(value, "__dict__") and not callable(value):
        return _row_type(value, None)
    raise TypeError(f"There is no SQL type for {value!r} of type {type(value).__name__}")


def _row_type(row: Any, names: Sequence[str] | None) -> types.RowType:
    pairs: list[tuple[str, Any]]
    if isinstance(row, dict):
        pairs = sorted(row.items())
    elif isinstance(row, (Row, tuple, list)):
        own = getattr(row, "_fields", None)
        if own is not None:
            pairs = list(zip(own, tuple(row), strict=True))
        else:
            given = list(names or ())
            given += [f"_{i}" for i in range(len(given) + 1, len(row) + 1)]
            pairs = list(zip(given, row, strict=False))
    elif hasattr(row, "__dict__"):
        pairs = sorted(vars(row).items())
    else:
        raise TypeError(
            f"Cannot infer the columns of {row!r} of type {type(row).__name__}: give a tuple, a "
            "Row or a dictionary for each row"
        )
    return types.RowType([types.RowField(name, infer_type(value)) for name, value in pairs])


def _merged(one: types.DataType, other: types.DataType, where: str) -> types.DataType:
    if isinstance(one, types.NullType):
        return other
    if isinstance(other, types.NullType) or one == other:
        return one
    if type(one) is not type(other):
        shown = f" in {where}" if where else ""
        raise TypeError(f"Values of the types {one} and {other} cannot be in one column{shown}")
    match one, other:
        case types.RowType(), types.RowType():
            known = {field.name: field.data_type for field in other}
            fields = [
                types.RowField(f.name, _merged(f.data_type, known.pop(f.name, f.data_type), f.name))
                for f in one
            ]
            fields += [types.RowField(name, kind) for name, kind in known.items()]
            return types.RowType(fields)
        case types.ArrayType(), types.ArrayType():
            return types.ArrayType(_merged(one.element_type, other.element_type, where))
        case types.MapType(), types.MapType():
            key = _merged(one.key_type, other.key_type, where)
            return types.MapType(key, _merged(one.value_type, other.value_type, where))
    return one


def _has_null(kind: types.DataType) -> bool:
    match kind:
        case types.RowType():
            return any(_has_null(field.data_type) for field in kind)
        case types.ArrayType():
            return _has_null(kind.element_type)
        case types.MapType():
            return _has_null(kind.key_type) or _has_null(kind.value_type)
    return isinstance(kind, types.NullType)


# Checks -------------------------------------------------------------------------------------------


def verifier(data_type: types.DataType, name: str) -> Callable[[Any], None]:
    """Return the function that checks whether a value has a type, as PyFlink does.

    The function raises TypeError for a value of another type, and ValueError for one that is out
    of range, too long or None.
    """
    check = _value_check(data_type, name)

    def verify(value: Any) -> None:
        if value is None:
            if not data_type.is_nullable:
                raise ValueError(f"{name}: the type {data_type} does not take None")
            return
        check(value)

    return verify


def _value_check(data_type: types.DataType, name: str) -> Callable[[Any], None]:
    if isinstance(data_type, types.RowType):
        return _row_check(data_type, name)
    accepted = _ACCEPTED.get(type(data_type))
    parts: list[Callable[[Any], None]] = []
    if isinstance(data_type, types.ArrayType) and not isinstance(data_type, types.MultisetType):
        parts = [verifier(data_type.element_type, f"element in array {name}")]
    elif isinstance(data_type, types.MapType):
        key = verifier(data_type.key_type, f"key of map {name}")
        value_check = verifier(data_type.value_type, f"value of map {name}")
        parts = [key, value_check]

    def check(value: Any) -> None:
        if accepted is not None and type(value) not in accepted:
            raise TypeError(
                f"{name}: {data_type} does not take {value!r} of type {type(value).__name__}"
            )
        _check_size(value, data_type, name)
        if len(parts) == 1:
            for item in value:
                parts[0](item)
        elif parts:
            for key, item in value.items():
                parts[0](key)
                parts[1](item)

    return check


def _check_size(value: Any, data_type: types.DataType, name: str) -> None:
    match data_type:
        case types.CharType() | types.BinaryType():
            if len(value) != data_type.length:
                raise ValueError(f"{name}: {value!r} is not of the length of {data_type}")
        case types.VarCharType() | types.VarBinaryType():
            if len(value) > data_type.length:
                raise ValueError(f"{name}: {value!r:.100} is longer than {data_type}")
        case types.IntegralType():
            bound = 1 << (INTEGER_BITS[type(data_type)] - 1)
            if not -bound <= value < bound:
                raise ValueError(f"{name}: {value} is out of the range of {data_type}")


def _row_check(data_type: types.RowType, name: str) -> Callable[[Any], None]:
    checks = [(f.name, verifier(f.data_type, f"field {f.name} in {name}")) for f in data_type]

    def check(value: Any) -> None:
        if isinstance(value, dict):
            for field, verify in checks:
                verify(value.get(field))
        elif isinstance(value, Row) and hasattr(value, "_fields"):
            for field, verify in checks:
                verify(value[field])
        elif isinstance(value, (Row, tuple, list)):
            if len(value) != len(checks):
                raise ValueError(
                    f"{name}: {value!r} has {len(value)} fields, {data_type} has {len(checks)}"
                )
            for item, (_, verify) in zip(value, checks, strict=True):
                verify(item)
        elif hasattr(value, "__dict__"):
            for field, verify in checks:
                verify(vars(value).get(field))
        else:
            raise TypeError(
                f"{name}: {data_type} does not take {value!r} of type {type(value).__name__}"
            )

    return check
