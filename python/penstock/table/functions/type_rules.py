"""Result types: common types, arithmetic, digits of DECIMAL, and casts.

The rules are those of Flink's ``LogicalTypeMerging`` and of Calcite's ``SqlTypeFactory``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.plan.schema import without_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.types import DataType

MAX_PRECISION: Final = 38
MAX_LENGTH: Final = 0x7FFFFFFF
#: The minimal scale of a DECIMAL whose digits do not fit.
_MIN_SCALE: Final = 6

_INTEGERS: Final = (types.TinyIntType, types.SmallIntType, types.IntType, types.BigIntType)
_DIGITS: Final = {
    types.TinyIntType: 3,
    types.SmallIntType: 5,
    types.IntType: 10,
    types.BigIntType: 19,
}
BOUNDS: Final = {
    types.TinyIntType: 1 << 7,
    types.SmallIntType: 1 << 15,
    types.IntType: 1 << 31,
    types.BigIntType: 1 << 63,
}


def is_integer(data_type: DataType) -> bool:
    """Return whether a type is an integer type."""
    return isinstance(data_type, types.IntegralType)


def is_float(data_type: DataType) -> bool:
    """Return whether a type is FLOAT or DOUBLE."""
    return isinstance(data_type, types.FloatType | types.DoubleType)


def is_numeric(data_type: DataType) -> bool:
    """Return whether a type is numeric."""
    return isinstance(data_type, types.NumericType)


def is_text(data_type: DataType) -> bool:
    """Return whether a type is CHAR or VARCHAR."""
    return isinstance(data_type, types.CharType | types.VarCharType)


def is_bytes(data_type: DataType) -> bool:
    """Return whether a type is BINARY or VARBINARY."""
    return isinstance(data_type, types.BinaryType | types.VarBinaryType)


def is_timestamp(data_type: DataType) -> bool:
    """Return whether a type is TIMESTAMP or TIMESTAMP_LTZ."""
    return isinstance(data_type, types.TimestampType | types.LocalZonedTimestampType)


def is_temporal(data_type: DataType) -> bool:
    """Return whether a type is a date, a time or a timestamp."""
    return is_timestamp(data_type) or isinstance(data_type, types.DateType | types.TimeType)


def is_day_interval(data_type: DataType) -> bool:
    """Return whether a type is an interval of days to seconds."""
    return isinstance(data_type, types.DayTimeIntervalType)


def is_month_interval(data_type: DataType) -> bool:
    """Return whether a type is an interval of years and months."""
    return isinstance(data_type, types.YearMonthIntervalType)


def string(nullable: bool = True) -> DataType:
    """Return STRING."""
    return types.VarCharType(MAX_LENGTH, nullable)


def as_decimal(data_type: DataType) -> types.DecimalType:
    """Return the DECIMAL that can represent every value of an exact numeric type."""
    if isinstance(data_type, types.DecimalType):
        return data_type
    return types.DecimalType(_DIGITS[type(data_type)], 0, data_type.is_nullable)  # type: ignore[index]


def adjusted(precision: int, scale: int, nullable: bool) -> types.DecimalType:
    """Return the DECIMAL of a result; fraction digits are dropped if it has more than 38 digits."""
    if precision <= MAX_PRECISION:
        return types.DecimalType(precision, scale, nullable)
    kept = max(MAX_PRECISION - (precision - scale), min(scale, _MIN_SCALE))
    return types.DecimalType(MAX_PRECISION, min(kept, MAX_PRECISION), nullable)


def arithmetic_type(operator: str, left: DataType, right: DataType) -> DataType | None:
    """Return the type of ``+ - * / %`` of two numbers; None for other types."""
    nullable = left.is_nullable or right.is_nullable
    if not is_numeric(left) or not is_numeric(right):
        return None
    if is_float(left) or is_float(right):
        return _float_type(left, right).with_nullability(nullable)
    if is_integer(left) and is_integer(right):
        if operator == "%":
            return right.with_nullability(nullable)
        wider = max(left, right, key=lambda t: _DIGITS[type(t)])  # type: ignore[index]
        return wider.with_nullability(nullable)
    one, other = as_decimal(left), as_decimal(right)
    p1, s1, p2, s2 = one.precision, one.scale, other.precision, other.scale
    if operator in ("+", "-"):
        scale = max(s1, s2)
        return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale, nullable)
    if operator == "*":
        return adjusted(p1 + p2 + 1, s1 + s2, nullable)
    if operator == "/":
        scale = max(_MIN_SCALE, s1 + p2 + 1)
        return adjusted(p1 - s1 + s2 + scale, scale, nullable)
    scale = max(s1, s2)
    return adjusted(min(p1 - s1, p2 - s2) + scale, scale, nullable)


def _float_type(left: DataType, right: DataType) -> DataType:
    if is_float(left) and is_float(right):
        return left  # Calcite assigns both the same precision, so the first one wins
    inexact, exact = (left, right) if is_float(left) else (right, left)
    return types.DoubleType() if isinstance(exact, types.DecimalType) else inexact


def round_type(data_type: types.DecimalType, digits: int) -> types.DecimalType:
    """Return the type of a DECIMAL rounded to a number of digits."""
    precision, scale = data_type.precision, data_type.scale
    nullable = data_type.is_nullable
    if digits >= scale:
        return types.DecimalType(precision, scale, nullable)
    if digits < 0:
        return types.DecimalType(min(MAX_PRECISION, 1 + precision - scale), 0, nullable)
    return types.DecimalType(1 + precision - scale + digits, digits, nullable)


def sum_type(data_type: DataType) -> DataType:
    """Return the type of SUM."""
    if isinstance(data_type, types.DecimalType):
        return types.DecimalType(MAX_PRECISION, data_type.scale)
    return data_type.nullable()


def avg_type(data_type: DataType) -> DataType:
    """Return the type of AVG."""
    if isinstance(data_type, types.DecimalType):
        return types.DecimalType(MAX_PRECISION, max(_MIN_SCALE, data_type.scale))
    return data_type.nullable()


def common_type(found: Sequence[DataType]) -> DataType | None:
    """Return the common type of types; None without one."""
    nullable = any(t.is_nullable or isinstance(t, types.NullType) for t in found)
    kinds = [without_time(t) for t in found if not isinstance(t, types.NullType)]
    if not kinds:
        return types.NullType()
    result: DataType | None = kinds[0]
    for kind in kinds[1:]:
        result = None if result is None else _common(result, kind)
    return None if result is None else result.with_nullability(nullable)


def _common(left: DataType, right: DataType) -> DataType | None:
    if left.not_null() == right.not_null():
        return left
    for same in (_common_number, _common_text, _common_time, _common_parts):
        found = same(left, right)
        if found is not None:
            return found
    return None


def _common_number(left: DataType, right: DataType) -> DataType | None:
    if not is_numeric(left) or not is_numeric(right):
        return None
    if is_float(left) and is_float(right):
        return types.DoubleType()
    if is_float(left) or is_float(right):
        return _float_type(left, right)
    if is_integer(left) and is_integer(right):
        return max(left, right, key=lambda t: _DIGITS[type(t)])  # type: ignore[index]
    one, other = as_decimal(left), as_decimal(right)
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return types.DecimalType(min(MAX_PRECISION, whole + scale), scale)


def _common_text(left: Any, right: Any) -> DataType | None:
    if is_text(left) and is_text(right):
        # CHARs of different lengths become a VARCHAR, so that no value is padded.
        return types.VarCharType(max(left.length, right.length))
    if is_bytes(left) and is_bytes(right):
        return types.VarBinaryType(max(left.length, right.length))
    return None


def _common_time(left: Any, right: Any) -> DataType | None:
    if is_timestamp(left) and is_timestamp(right):
        precision = max(left.precision, right.precision)
        both_plain = isinstance(left, types.TimestampType) and isinstance(
            right, types.TimestampType
        )
        cls = types.TimestampType if both_plain else types.LocalZonedTimestampType
        return cls(precision)
    if is_timestamp(left) and isinstance(right, types.DateType):
        return left  # type: ignore[no-any-return]
    if isinstance(left, types.DateType) and is_timestamp(right):
        return right  # type: ignore[no-any-return]
    if isinstance(left, types.TimeType) and isinstance(right, types.TimeType):
        return types.TimeType(max(left.precision, right.precision))
    if is_day_interval(left) and is_day_interval(right):
        return types.DayTimeIntervalType(types.DayTimeIntervalType.DayTimeResolution.DAY_TO_SECOND)
    if is_month_interval(left) and is_month_interval(right):
        return types.YearMonthIntervalType()
    return None


def _common_parts(left: DataType, right: DataType) -> DataType | None:
    if type(left) is not type(right):
        return None
    if isinstance(left, types.MultisetType | types.ArrayType):
        assert isinstance(right, types.ArrayType)
        element = common_type([left.element_type, right.element_type])
        return None if element is None else type(left)(element)
    if isinstance(left, types.MapType):
        assert isinstance(right, types.MapType)
        key = common_type([left.key_type, right.key_type])
        value = common_type([left.value_type, right.value_type])
        return None if key is None or value is None else types.MapType(key, value)
    if isinstance(left, types.RowType):
        assert isinstance(right, types.RowType)
        if len(left) != len(right):
            return None
        fields = []
        for one, other in zip(left, right, strict=True):
            kind = common_type([one.data_type, other.data_type])
            if kind is None:
                return None
            fields.append(types.RowField(one.name, kind))
        return types.RowType(fields)
    return None


def are_mixed(kinds: Sequence[DataType]) -> bool:
    """Return whether types are dates and timestamps, which only some functions mix."""
    dates = sum(isinstance(kind, types.DateType) for kind in kinds)
    return dates > 0 and any(map(is_timestamp, kinds))


def can_compare(left: DataType, right: DataType, *, is_ordered: bool = False) -> bool:
    """Return whether values of two types can be compared without an explicit cast.

    Args:
        left: One type.
        right: The other type.
        is_ordered: Whether the values must have an order, as for ``<``.
    """
    if isinstance(left, types.NullType) or isinstance(right, types.NullType):
        return True
    common = common_type([left, right])
    if common is None or are_mixed([left, right]):
        return False
    return not is_ordered or not isinstance(common, types.ArrayType | types.MapType | types.RowType)


def can_cast(source: DataType, target: DataType) -> bool:
    """Return whether CAST is defined."""
    if isinstance(source, types.NullType):
        return True
    if is_text(target):
        return True
    if is_text(source):
        return not isinstance(
            target,
            types.ArrayType
            | types.MapType
            | types.RowType
            | types.YearMonthIntervalType
            | types.DayTimeIntervalType,
        )
    if is_numeric(source):
        if isinstance(target, types.BooleanType | types.NumericType):
            return True
        return is_integer(source) and (is_day_interval(target) or is_month_interval(target))
    if isinstance(source, types.BooleanType):
        return isinstance(target, types.BooleanType | types.NumericType)
    if is_bytes(source):
        return is_bytes(target)
    if is_temporal(source):
        return _can_cast_time(source, target)
    if is_day_interval(source) or is_month_interval(source):
        return type(source) is type(target) or is_integer(target)
    return _can_cast_parts(source, target)


def _can_cast_time(source: DataType, target: DataType) -> bool:
    if isinstance(source, types.DateType):
        return isinstance(target, types.DateType) or is_timestamp(target)
    if isinstance(source, types.TimeType):
        return isinstance(target, types.TimeType) or is_timestamp(target)
    return is_temporal(target)


def _can_cast_parts(source: DataType, target: DataType) -> bool:
    if isinstance(source, types.RowType) and isinstance(target, types.RowType):
        pairs = zip(source, target, strict=False)
        return len(source) == len(target) and all(
            can_cast(one.data_type, other.data_type) for one, other in pairs
        )
    if type(source) is not type(target):
        return False
    if isinstance(source, types.MapType):
        assert isinstance(target, types.MapType)
        return can_cast(source.key_type, target.key_type) and can_cast(
            source.value_type, target.value_type
        )
    if isinstance(source, types.ArrayType):
        assert isinstance(target, types.ArrayType)
        return can_cast(source.element_type, target.element_type)
    return type(source) is type(target)


_SHORT_NAMES: Final = re.compile(r"(?<!`)\b(STRING|BYTES|TIMESTAMP_LTZ\((\d)\))(?!`)")


def serializable(data_type: DataType) -> str:
    """Return a type as text without Flink's abbreviations: VARCHAR(2147483647)."""

    def long_name(found: re.Match[str]) -> str:
        if found[2] is not None:
            return f"TIMESTAMP({found[2]}) WITH LOCAL TIME ZONE"
        return f"{'VARCHAR' if found[1] == 'STRING' else 'VARBINARY'}({MAX_LENGTH})"

    return _SHORT_NAMES.sub(long_name, str(data_type))
