"""Arithmetic, parts and rounding of dates, times, timestamps and intervals."""

from __future__ import annotations

import calendar
import datetime
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.logic import cast_to, compared
from penstock.table.functions.registry import (
    call as builtin,
)
from penstock.table.functions.registry import (
    column_values,
    define,
    rowwise,
)
from penstock.table.plan.expressions import Call, Expression
from penstock.table.plan.schema import materialized, without_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.types import DataType

BIGINT = types.BigIntType()
INT = types.IntType()
EPOCH = datetime.datetime(1970, 1, 1)
MILLISECOND = datetime.timedelta(milliseconds=1)
_DAY = datetime.timedelta(days=1)


# Arithmetic ---------------------------------------------------------------------------------------


def time_arithmetic(operator: str, left: Expression, right: Expression) -> Expression | None:
    """Bind ``+ - * /`` of times and intervals; return None for other types."""
    one, other = left.type, right.type
    nullable = one.is_nullable or other.is_nullable
    if operator == "+" and _is_interval(one) and rules.is_temporal(other):
        left, right, one, other = right, left, other, one
    if operator in ("+", "-") and rules.is_temporal(one) and _is_interval(other):
        kind = materialized(one).with_nullability(nullable)
        name = "TIME +" if operator == "+" else "TIME -"
        return Call(kind, name, (left, right))
    if operator in ("+", "-") and type(one) is type(other) and _is_interval(one):
        return Call(one.with_nullability(nullable), f"INTERVAL {operator}", (left, right))
    if operator == "*" and rules.is_numeric(one) and _is_interval(other):
        left, right, one, other = right, left, other, one
    if operator in ("*", "/") and _is_interval(one) and rules.is_numeric(other):
        return Call(one.with_nullability(nullable), f"INTERVAL {operator}", (left, right))
    if operator == "-" and rules.is_temporal(one) and rules.is_temporal(other):
        return _difference_bind([left, right], ("DAY", "SECOND"))
    return None


def _difference_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    """Bind (left - right) first [TO last]."""
    one, other = (argument.type for argument in arguments)
    if not all(rules.is_temporal(kind) for kind in (one, other)) or (
        isinstance(one, types.TimeType) != isinstance(other, types.TimeType)
    ):
        raise ValidationException(
            f"Cannot apply '-' to arguments of type '<{one}> - <{other}>': a unit follows the "
            "difference of two times"
        )
    nullable = one.is_nullable or other.is_nullable
    name = "_TO_".join(options)
    months = types.YearMonthIntervalType.YearMonthResolution.__members__
    days = types.DayTimeIntervalType.DayTimeResolution.__members__
    kind: DataType
    if name in months:
        kind = types.YearMonthIntervalType(months[name], nullable=nullable)
    elif name in days:
        kind = types.DayTimeIntervalType(days[name], nullable=nullable)
    else:
        raise ValidationException(f"No interval has the units {' TO '.join(options)}")
    return Call(kind, "TIME DIFFERENCE", tuple(arguments), options)


def _is_interval(kind: DataType) -> bool:
    return rules.is_day_interval(kind) or rules.is_month_interval(kind)


#: The seconds since 1970 at the ends of the years of Python's datetime.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _moved(sign: int) -> Any:
    by_row = rowwise(lambda value, by: _move(value, by, sign))

    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        value, by = arguments
        if pa.types.is_timestamp(value.type) and pa.types.is_duration(by.type):
            made = (pc.add if sign > 0 else pc.subtract)(value, by)
            if _has_python_years(made):
                return made
        return by_row(arguments, rows, call)

    return kernel


def _has_python_years(made: Any) -> bool:
    """Return whether the years of timestamps are from 1 to 9999."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.min_max(made).values() if isinstance(made, pa.Array) else (made,)
    per_s = _PER_SECOND[made.type.unit]
    return all(
        end.value is None or _FIRST_SECOND <= end.value // per_s <= _LAST_SECOND for end in ends
    )


def _move(value: Any, by: Any, times: int) -> Any:
    try:
        if isinstance(by, int):
            return add_months(value, times * by)
        if isinstance(value, datetime.time):
            whole = datetime.datetime.combine(EPOCH.date(), value) + times * by
            return whole.time()
        return value + times * by
    except (OverflowError, ValueError):
        raise TableException(
            f"the sum of {value} and an interval is outside of the years 1 to 9999: filter out "
            "such rows first"
        ) from None


def add_months(value: Any, months: int) -> Any:
    """Add months to a date or timestamp; the day is limited to the last one of the month."""
    if isinstance(value, datetime.time):
        return value
    total = value.year * 12 + value.month - 1 + months
    year, month = total // 12, total % 12 + 1
    day = min(value.day, calendar.monthrange(year, month)[1])
    return value.replace(year=year, month=month, day=day)


def _difference(left: Any, right: Any, first: str, last: str = "") -> datetime.timedelta | int:
    del last
    if first in _STEPS:
        return _months_between(as_datetime(right), as_datetime(left))
    return as_datetime(left) - as_datetime(right)


def as_datetime(value: Any) -> datetime.datetime:
    """Convert a date, a time (of 1970-01-01) or a timestamp to a naive datetime."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, datetime.time):
        return datetime.datetime.combine(EPOCH.date(), value)
    return datetime.datetime.combine(value, datetime.time())


def _divided(value: Any, by: Any) -> Any:
    if not int(by):
        raise TableException("/ by zero in the division of an interval")
    if isinstance(value, datetime.timedelta):
        return _quotient(value // MILLISECOND, int(by)) * MILLISECOND
    return _quotient(value, int(by))


define("TIME +", "any any", INT, _moved(1))
define("TIME -", "any any", INT, _moved(-1))
define("TIME DIFFERENCE", "any any", INT, rowwise(_difference, options=True), bind=_difference_bind)
define("INTERVAL +", "any any", INT, rowwise(lambda a, b: a + b))
define("INTERVAL -", "any any", INT, rowwise(lambda a, b: a - b))
define("INTERVAL *", "any any", INT, rowwise(lambda a, b: a * int(b)))
define("INTERVAL /", "any any", INT, rowwise(_divided))


# Parts --------------------------------------------------------------------------------------------


def _part(value: Any, unit: str) -> int:
    if isinstance(value, datetime.timedelta):
        return _part_of_interval(value, unit)
    if isinstance(value, int):
        return {"YEAR": abs(value) // 12, "MONTH": abs(value) % 12}[unit] * (-1 if value < 0 else 1)
    moment = as_datetime(value)
    match unit:
        case "YEAR" | "MONTH" | "DAY" | "HOUR" | "MINUTE" | "SECOND":
            return int(getattr(moment, unit.lower()))
        case "MILLISECOND":
            return moment.microsecond // 1000
        case "MICROSECOND":
            return moment.microsecond
        case "NANOSECOND":
            return moment.microsecond * 1000
        case "QUARTER":
            return (moment.month + 2) // 3
        case "WEEK":
            return moment.isocalendar()[1]
        case "DOY":
            return moment.timetuple().tm_yday
        case "DOW":
            return moment.isoweekday() % 7 + 1
        case "ISODOW":
            return moment.isoweekday()
        case "ISOYEAR":
            return moment.isocalendar()[0]
        case "DECADE":
            return moment.year // 10
        case "CENTURY":
            return (moment.year + 99) // 100
        case "MILLENNIUM":
            return (moment.year + 999) // 1000
        case "EPOCH":
            return (moment - EPOCH) // datetime.timedelta(seconds=1)
    raise ValueError(f"EXTRACT has no {unit} of {value}")


def _part_of_interval(value: datetime.timedelta, unit: str) -> int:
    total = value // MILLISECOND
    sign, total = (-1, -total) if total < 0 else (1, total)
    parts = {
        "DAY": total // 86_400_000, "HOUR": total // 3_600_000 % 24, "MINUTE": total // 60_000 % 60,
        "SECOND": total // 1000 % 60, "MILLISECOND": total % 1000, "EPOCH": total // 1000,
    }  # fmt: skip
    return sign * parts[unit]


_PLAIN_PARTS = {
    name: name.lower() for name in ("YEAR", "MONTH", "DAY", "QUARTER", "HOUR", "MINUTE", "SECOND")
}


#: Since then, the UTC offsets of all time zones are whole minutes.
_WHOLE_MINUTES = 94_694_400
#: The least number of rows for each unit of a range to make that unit worth a conversion.
_ROWS_PER_TIME = 64
_PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def distinct_times(column: Any, unit_s: int) -> tuple[Any, Any]:
    """Truncate timestamps to a unit, or to seconds if a zone then had an offset that needs them.

    Args:
        column: The timestamps.
        unit_s: The unit in seconds.

    Returns:
        The truncated times, mostly each once, and for each timestamp the position of its own.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from penstock.formats.numpy_values import numpy_values

    per_s = _PER_S[column.type.unit]
    bounds = pc.min_max(column.view(pa.int64()))
    if not bounds["min"].is_valid:
        return column.slice(0, 1), pa.array(np.zeros(len(column), np.int64))
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if column.type.tz is not None and least < _WHOLE_MINUTES * per_s:
        unit_s = 1
    unit = unit_s * per_s
    values = column.view(pa.int64())
    if values.null_count:
        values = values.fill_null(pa.scalar(least, pa.int64()))
    places = numpy_values(values) // unit
    first, number = least // unit, most // unit - least // unit + 1
    if number * _ROWS_PER_TIME <= len(places):
        found, indices = np.arange(first, first + number), pa.array(places - first)
    else:
        encoded = pa.array(places).dictionary_encode()
        found, indices = numpy_values(encoded.dictionary), encoded.indices
    if column.null_count:
        indices = pc.if_else(column.is_valid(), indices, pa.scalar(None, indices.type))
    return pa.array(found * unit).view(column.type), indices


def _extract(arguments: list[Any], rows: int, call: Call, evaluator: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    from penstock.table.types.arrow_types import arrow_array

    (unit,) = call.options
    value = arguments[0]
    kind = value.type
    is_zoned = isinstance(call.arguments[0].type, types.LocalZonedTimestampType)
    has_part = pa.types.is_timestamp(kind) or (
        pa.types.is_date(kind) and unit in ("YEAR", "MONTH", "DAY", "QUARTER")
    )
    if unit in _PLAIN_PARTS and has_part and not is_zoned:
        return getattr(pc, _PLAIN_PARTS[unit])(value).cast(pa.int64())
    if unit in _PLAIN_PARTS and has_part and isinstance(value, pa.Array):
        # Each distinct minute is converted to the session's zone once.
        distinct, places = distinct_times(value, 1 if unit == "SECOND" else 60)
        if len(distinct) < rows:
            return _extract([distinct], len(distinct), call, evaluator).take(places)
    values = column_values(value, rows)
    if is_zoned and unit != "EPOCH":
        zone = evaluator.session.zone
        values = [None if v is None else v.astimezone(zone) for v in values]
    return arrow_array([None if v is None else _part(v, unit) for v in values], call.type)


_extract.needs_session = True  # type: ignore[attr-defined]


def _extract_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    value = arguments[0]
    if not options:
        raise ValidationException("EXTRACT takes a unit and FROM")
    if not rules.is_temporal(value.type) and not _is_interval(value.type):
        raise ValidationException(f"EXTRACT takes a time or an interval, got <{value.type}>")
    nullable = value.type.is_nullable
    return Call(BIGINT.with_nullability(nullable), "EXTRACT", (value,), options[:1])


define("EXTRACT", "any", BIGINT, _extract, bind=_extract_bind)


def _part_function(unit: str) -> Callable[..., Expression]:
    def bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
        return _extract_bind(arguments, (unit,))

    return bind


for _name, _unit in {
    "YEAR": "YEAR", "QUARTER": "QUARTER", "MONTH": "MONTH", "WEEK": "WEEK", "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY", "DAYOFWEEK": "DOW", "HOUR": "HOUR", "MINUTE": "MINUTE",
    "SECOND": "SECOND",
}.items():  # fmt: skip
    define(_name, "time", BIGINT, bind=_part_function(_unit))


# Rounding -----------------------------------------------------------------------------------------


def _floor(value: Any, unit: str) -> Any:
    if isinstance(value, datetime.time):
        return _floor(datetime.datetime.combine(EPOCH.date(), value), unit).time()
    is_date = not isinstance(value, datetime.datetime)
    moment = datetime.datetime.combine(value, datetime.time()) if is_date else value
    zeros: Any = {"hour": 0, "minute": 0, "second": 0, "microsecond": 0}
    match unit:
        case "MILLENNIUM" | "CENTURY" | "DECADE":
            size = {"MILLENNIUM": 1000, "CENTURY": 100, "DECADE": 10}[unit]
            year = (
                moment.year // size * size
                if unit == "DECADE"
                else ((moment.year - 1) // size * size + 1)
            )
            moment = moment.replace(year=year, month=1, day=1, **zeros)
        case "YEAR":
            moment = moment.replace(month=1, day=1, **zeros)
        case "QUARTER":
            moment = moment.replace(month=(moment.month - 1) // 3 * 3 + 1, day=1, **zeros)
        case "MONTH":
            moment = moment.replace(day=1, **zeros)
        case "WEEK":
            moment = moment.replace(**zeros) - datetime.timedelta(days=moment.isoweekday() % 7)
        case "DAY":
            moment = moment.replace(**zeros)
        case "HOUR":
            moment = moment.replace(minute=0, second=0, microsecond=0)
        case "MINUTE":
            moment = moment.replace(second=0, microsecond=0)
        case "SECOND":
            moment = moment.replace(microsecond=0)
        case "MILLISECOND":
            moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        case _:
            raise ValueError(f"FLOOR has no unit {unit}")
    return moment.date() if is_date else moment


_STEPS = {
    "MILLENNIUM": 12000, "CENTURY": 1200, "DECADE": 120, "YEAR": 12, "QUARTER": 3, "MONTH": 1,
}  # fmt: skip
_LENGTHS = {
    "WEEK": 7 * _DAY, "DAY": _DAY, "HOUR": datetime.timedelta(hours=1),
    "MINUTE": datetime.timedelta(minutes=1), "SECOND": datetime.timedelta(seconds=1),
    "MILLISECOND": MILLISECOND,
}  # fmt: skip
_SHORT_UNITS = ("HOUR", "MINUTE", "SECOND", "MILLISECOND")


def _ceil(value: Any, unit: str) -> Any:
    floor = _floor(value, unit)
    if floor == value:
        return floor
    return _move(floor, _STEPS.get(unit) or _LENGTHS[unit], 1)


def _rounding_kernel(function: Callable[[Any, str], Any]) -> Any:
    def kernel(arguments: list[Any], rows: int, call: Call, evaluator: Any) -> Any:
        from penstock.table.types.arrow_types import arrow_array

        (unit,) = call.options
        values = column_values(arguments[0], rows)
        if isinstance(call.type, types.LocalZonedTimestampType):
            zone = evaluator.session.zone

            def rounded(instant: datetime.datetime) -> datetime.datetime:
                local = instant.astimezone(zone).replace(tzinfo=None)
                result: datetime.datetime = function(local, unit)
                # A local time may occur twice, so short units move the instant.
                if unit in _SHORT_UNITS:
                    return instant + (result - local)
                return result.replace(tzinfo=zone)

            values = [None if v is None else rounded(v) for v in values]
        else:
            values = [None if v is None else function(v, unit) for v in values]
        return arrow_array(values, call.type)

    kernel.needs_session = True  # type: ignore[attr-defined]
    return kernel


def _same(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
    return materialized(arguments[0].type)


define("FLOOR TO", "time", _same, _rounding_kernel(_floor))
define("CEIL TO", "time", _same, _rounding_kernel(_ceil))


# TIMESTAMPADD, TIMESTAMPDIFF ----------------------------------------------------------------------


def _add_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    (unit,) = options
    number, value = arguments
    if not rules.is_temporal(value.type):
        raise ValidationException(f"TIMESTAMPADD takes a time, got <{value.type}>")
    nullable = number.type.is_nullable or value.type.is_nullable
    kind: Any = value.type
    if isinstance(kind, types.DateType) and unit in ("HOUR", "MINUTE", "SECOND", "MILLISECOND"):
        kind = types.TimestampType(0 if unit != "MILLISECOND" else 3)
        value = cast_to(value, kind)
    result = without_time(kind).with_nullability(nullable)
    return Call(result, "TIMESTAMPADD", (number, value), options)


def _add(number: int, value: Any, unit: str) -> Any:
    return _move(value, _STEPS.get(unit) or _LENGTHS[unit], number)


define("TIMESTAMPADD", "int time", INT, rowwise(_add, options=True), bind=_add_bind)


def _diff(start: Any, end: Any, unit: str) -> int:
    first, last = as_datetime(start), as_datetime(end)
    if unit in _STEPS:
        return _quotient(_months_between(first, last), _STEPS[unit])
    return _quotient((last - first) // datetime.timedelta(microseconds=1),
                     _LENGTHS[unit] // datetime.timedelta(microseconds=1))  # fmt: skip


def _quotient(value: int, by: int) -> int:
    """Divide as Java does, toward zero."""
    found = abs(value) // abs(by)
    return found if (value < 0) == (by < 0) else -found


def _months_between(first: datetime.datetime, last: datetime.datetime) -> int:
    if last < first:
        return -_months_between(last, first)
    months = (last.year - first.year) * 12 + last.month - first.month
    # Calcite subtracts a month if the rest of the later date is smaller.
    if add_months(first, months) > last:
        months -= 1
    return months


def _diff_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    nullable = any(a.type.is_nullable for a in arguments)
    for argument in arguments:
        if not rules.is_temporal(argument.type):
            raise ValidationException(f"TIMESTAMPDIFF takes times, got <{argument.type}>")
    zoned = [isinstance(a.type, types.LocalZonedTimestampType) for a in arguments]
    if any(zoned) and not all(zoned):
        raise ValidationException(
            "TIMESTAMPDIFF takes two values of TIMESTAMP_LTZ, or none: use CAST"
        )
    return Call(INT.with_nullability(nullable), "TIMESTAMPDIFF", tuple(arguments), options)


define("TIMESTAMPDIFF", "any any", INT, rowwise(_diff, options=True), bind=_diff_bind)


def _overlaps_bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    """Bind (start, end) OVERLAPS (start, end), where an end may be an interval."""
    if len(arguments) == 2:
        rows = [_row_parts(a) for a in arguments]
        arguments = [*rows[0], *rows[1]]
    one, two, three, four = arguments
    two = _end_of(one, two)
    four = _end_of(three, four)
    pairs = [(one, two), (three, four)]
    (first, last), (other_first, other_last) = pairs
    first_start, first_end = _ordered(first, last)
    second_start, second_end = _ordered(other_first, other_last)
    return builtin(
        "AND",
        builtin(">=", *compared(first_end, second_start, ">=")),
        builtin(">=", *compared(second_end, first_start, ">=")),
    )


def _ordered(one: Expression, other: Expression) -> tuple[Expression, Expression]:
    return builtin("LEAST", one, other), builtin("GREATEST", one, other)


def _row_parts(argument: Expression) -> list[Expression]:
    if isinstance(argument, Call) and argument.function == "ROW" and len(argument.arguments) == 2:
        return list(argument.arguments)
    raise ValidationException("OVERLAPS takes two pairs of times")


def _end_of(start: Expression, end: Expression) -> Expression:
    return builtin("+", start, end) if _is_interval(end.type) else end


define("OVERLAPS", "any any any? any?", types.BooleanType(), bind=_overlaps_bind)
