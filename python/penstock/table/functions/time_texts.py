"""Conversions between times and texts or numbers, by patterns and time zones."""

from __future__ import annotations

import calendar
import datetime
import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.casts import CastFailed, parse_date, parse_timestamp
from penstock.table.functions.registry import (
    call,
    column_values,
    define,
    distinct_arguments,
    nullable_result,
    rowwise,
)
from penstock.table.functions.times import EPOCH, MILLISECOND, as_datetime, distinct_times
from penstock.table.options.time_zones import is_time_zone, legacy_zone, time_zone
from penstock.table.plan.expressions import Call, Expression, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.types import DataType

STRING = rules.string()


_LETTERS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", re.DOTALL)


@lru_cache(maxsize=256)
def _format_parts(pattern: str) -> tuple[tuple[str, str], ...]:
    """Split a ``DateTimeFormatter`` pattern into pairs of ``text`` or a letter, and the part."""
    parts = []
    for found in _LETTERS.finditer(pattern):
        if found[1] is not None:
            parts.append(("text", found[1].replace("''", "'") or "'"))
        elif found[2]:
            parts.append((found[2], found[0]))
        else:
            parts.append(("text", found[0]))
    return tuple(parts)


def format_time(value: datetime.datetime, pattern: str) -> str:
    """Format a time like Java's ``DateTimeFormatter``.

    Raises:
        ValueError: The pattern has an unsupported letter.
    """
    return "".join(
        part if kind == "text" else _formatted(value, kind, len(part))
        for kind, part in _format_parts(pattern)
    )


def _formatted(value: datetime.datetime, letter: str, width: int) -> str:
    numbers = {
        "d": value.day, "H": value.hour, "m": value.minute, "s": value.second,
        "h": (value.hour + 11) % 12 + 1, "k": value.hour or 24, "K": value.hour % 12,
        "D": value.timetuple().tm_yday,
    }  # fmt: skip
    if letter in numbers:
        return str(numbers[letter]).zfill(width)
    match letter:
        case "y" | "u" | "Y":
            return f"{value.year % 100:02}" if width == 2 else str(value.year).zfill(width)
        case "M" | "L":
            if width >= 3:
                return value.strftime("%b" if width == 3 else "%B")
            return str(value.month).zfill(width)
        case "S":
            return f"{value.microsecond:06}000"[:width].ljust(width, "0")
        case "n":
            return str(value.microsecond * 1000).zfill(width)
        case "E":
            return value.strftime("%a" if width <= 3 else "%A")
        case "a":
            return "AM" if value.hour < 12 else "PM"
        case "Q":
            return str((value.month + 2) // 3).zfill(width)
    raise ValueError(f"the letter {letter} of a pattern of times is not supported")


@lru_cache(maxsize=256)
def _parse_pattern(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    expression, letters = "", []
    for kind, part in _format_parts(pattern):
        if kind == "text":
            expression += re.escape(part)
            continue
        letters.append(kind)
        if (kind in ("M", "L") and len(part) >= 3) or kind in ("E", "a"):
            expression += r"([A-Za-z]+)"
        elif kind == "y" and len(part) >= 4:
            expression += r"(\d{1,9})" if len(part) > 4 else r"(\d{4})"
        elif kind == "S":
            expression += rf"(\d{{{len(part)}}})"
        elif len(part) == 1:
            expression += r"(\d+)"
        else:
            expression += rf"(\d{{1,{len(part)}}})"
    return re.compile(expression), tuple(letters)


_MONTH_NAMES = {
    name.lower(): i for names in (calendar.month_abbr, calendar.month_name)
    for i, name in enumerate(names) if name
}  # fmt: skip


def parse_time_text(text: str, pattern: str) -> datetime.datetime | None:
    """Parse a time by a Java pattern; return None if the text does not match."""
    compiled, letters = _parse_pattern(pattern)
    found = compiled.match(text)
    if found is None:
        return None
    parts = {"y": 1970, "M": 1, "d": 1, "H": 0, "m": 0, "s": 0, "f": 0}
    is_pm: bool | None = None
    for letter, part in zip(letters, found.groups(), strict=True):
        if letter in ("y", "u", "Y"):
            parts["y"] = int(part) if len(part) > 2 else 2000 + int(part)
        elif letter in ("M", "L"):
            parts["M"] = int(part) if part.isdigit() else _MONTH_NAMES.get(part.lower(), 0)
        elif letter == "S":
            parts["f"] = int(part.ljust(6, "0")[:6])
        elif letter == "a":
            is_pm = part.upper() == "PM"
        elif letter in ("h", "K"):
            parts["H"] = int(part) % 12
        elif letter in parts:
            parts[letter] = int(part)
    if is_pm:
        parts["H"] += 12
    try:
        return datetime.datetime(
            parts["y"], parts["M"], parts["d"], parts["H"] % 24, parts["m"], parts["s"], parts["f"]
        )
    except (ValueError, OverflowError):
        return None


def _date_format_bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    value, pattern = arguments
    if rules.is_text(value.type):
        # As in Flink, which reads whole seconds only: other texts are NULL.
        given = Literal(types.CharType(19, nullable=False), "yyyy-MM-dd HH:mm:ss")
        value = call("TO_TIMESTAMP", value, given)
    if not rules.is_timestamp(value.type):
        raise ValidationException(f"DATE_FORMAT takes a timestamp, got <{value.type}>")
    return Call(STRING, "DATE_FORMAT", (value, pattern))


def _zoned(function: Callable[..., Any]) -> Any:
    """Return the kernel of a function whose last argument is the session's time zone.

    Equal arguments lead to equal results.
    """

    def kernel(arguments: list[Any], rows: int, call: Call, evaluator: Any) -> Any:
        from penstock.table.types.arrow_types import arrow_array

        zone = evaluator.session.zone
        if not arguments:
            return arrow_array([function(zone)] * rows, call.type)
        distinct = distinct_arguments(arguments)
        if distinct is not None:
            made = kernel(distinct.arguments, distinct.rows, call, evaluator)
            return made.take(distinct.places)
        columns = [column_values(a, rows) for a in arguments]
        results = [
            None if None in row else function(*row, zone) for row in zip(*columns, strict=True)
        ]
        return arrow_array(results, call.type)

    kernel.needs_session = True  # type: ignore[attr-defined]
    return kernel


def _date_format(value: Any, pattern: str, zone: Any) -> str:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(zone)
    return format_time(as_datetime(value), pattern)


_each_date_format = _zoned(_date_format)


def _date_formats(arguments: list[Any], rows: int, call: Call, evaluator: Any) -> Any:
    """Format a column of times; times with the same text are formatted once."""
    import pyarrow as pa

    value, pattern = arguments
    is_column = isinstance(value, pa.Array) and pa.types.is_timestamp(value.type)
    if not is_column or not isinstance(pattern, pa.Scalar) or not pattern.is_valid:
        return _each_date_format(arguments, rows, call, evaluator)
    unit_s = _written_unit_s(pattern.as_py(), is_zoned=value.type.tz is not None)
    if unit_s is None:
        encoded = value.dictionary_encode()
        distinct, places = encoded.dictionary, encoded.indices
    else:
        distinct, places = distinct_times(value, unit_s)
    return _each_date_format([distinct, pattern], len(distinct), call, evaluator).take(places)


def _written_unit_s(pattern: str, *, is_zoned: bool) -> int | None:
    """Return the unit in seconds to which times can be truncated before a pattern writes them.

    Returns:
        None if the pattern writes fractions of seconds.
    """
    letters = {kind for kind, _ in _format_parts(pattern)}
    if letters & {"S", "n"}:
        return None
    if "s" in letters:
        return 1
    return 60 if is_zoned or letters & set("HhkKam") else 86_400


_date_formats.needs_session = True  # type: ignore[attr-defined]

define("DATE_FORMAT", "any text", STRING, _date_formats, bind=_date_format_bind)


def _to_date(text: str, pattern: str | None = None) -> datetime.date | None:
    if pattern is None:
        try:
            return parse_date(text)
        except CastFailed:
            return None
    found = parse_time_text(text, pattern)
    return None if found is None else found.date()


def _to_timestamp(text: str, pattern: str | None = None) -> datetime.datetime | None:
    if pattern is None:
        try:
            return parse_timestamp(text)
        except CastFailed:
            return None
    return parse_time_text(text, pattern)


define("TO_DATE", "text text?", nullable_result(types.DateType()), rowwise(_to_date))
define(
    "TO_TIMESTAMP", "text text?", nullable_result(types.TimestampType(3)), rowwise(_to_timestamp)
)


def _ltz_type(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
    from penstock.table.functions.registry import literal_value

    precision = 3
    if rules.is_numeric(arguments[0].type) and len(arguments) > 1:
        given = literal_value(arguments[1])
        if given not in range(10):
            raise ValidationException(
                f"The precision of TO_TIMESTAMP_LTZ is a constant from 0 to 9, got {given}"
            )
        precision = max(precision, given)
    zone = literal_value(arguments[2]) if len(arguments) > 2 else None
    if zone is not None and not is_time_zone(zone):
        raise ValidationException(f"TO_TIMESTAMP_LTZ: {zone!r} is not a time zone")
    return types.LocalZonedTimestampType(precision)


def _to_timestamp_ltz(value: Any, *more: Any) -> datetime.datetime | None:
    """Convert a number, or a text that is in UTC without a zone argument, to an instant.

    Numbers outside of the years 1 to 9999 become NULL, as those that Flink has no instant for do.
    """
    if isinstance(value, str):
        pattern = more[0] if more else None
        found = _to_timestamp(value, pattern)
        if found is None:
            return None
        try:
            chosen = time_zone(more[1]) if len(more) > 1 else datetime.UTC
        except ValueError:
            return None
        return found.replace(tzinfo=chosen)
    precision = more[0] if more else 3
    try:
        if precision == 3:
            return EPOCH.replace(tzinfo=datetime.UTC) + int(value) * MILLISECOND
        scaled = value * 10 ** (6 - precision) if precision <= 6 else value // 10 ** (precision - 6)
        return EPOCH.replace(tzinfo=datetime.UTC) + datetime.timedelta(microseconds=int(scaled))
    except (ValueError, ArithmeticError):
        return None


_each_timestamp_ltz = rowwise(_to_timestamp_ltz)

#: The first and the last moment of Python's datetime, in ms.
_MOMENTS = (-62_135_596_800_000, 253_402_300_799_999)


def _to_timestamps_ltz(arguments: list[Any], rows: int, call: Call) -> Any:
    """Return instants; a column of integers in ms is converted without a call per row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from penstock.table.types.arrow_types import arrow_type

    value, *more = arguments
    is_column = isinstance(value, pa.Array) and pa.types.is_integer(value.type)
    is_in_ms = not more or (isinstance(more[0], pa.Scalar) and more[0].as_py() == 3)
    if not is_column or not is_in_ms:
        return _each_timestamp_ltz(arguments, rows, call)
    bounds = pc.min_max(value)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if least is None or least < _MOMENTS[0] or most > _MOMENTS[1]:
        return _each_timestamp_ltz(arguments, rows, call)
    moments = value.cast(pa.int64()).cast(pa.timestamp("ms", "UTC"))
    return moments.cast(arrow_type(call.type))


define("TO_TIMESTAMP_LTZ", "any any? text?", _ltz_type, _to_timestamps_ltz)


def _from_unixtime(seconds: int, *rest: Any) -> str | None:
    *more, zone = rest
    pattern = more[0] if more else "yyyy-MM-dd HH:mm:ss"
    try:
        moment = EPOCH.replace(tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)
        local = moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        return None
    return format_time(local, pattern)


define("FROM_UNIXTIME", "int text?", nullable_result(STRING), _zoned(_from_unixtime))


def _standard_moment(local: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    """Return the moment of a local time; by standard time if the clock is set to or fro then.

    Java's older classes, with which Flink reads these texts, resolve such times this way.
    """
    both = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    return min(both, key=lambda moment: moment.utcoffset() or datetime.timedelta())


def _unix_timestamp(*arguments: Any) -> int:
    *given, zone = arguments
    if not given:
        return int(time.time())
    pattern = given[1] if len(given) > 1 else "yyyy-MM-dd HH:mm:ss"
    found = parse_time_text(given[0], pattern)
    if found is None:
        return -(1 << 63)
    return int(_standard_moment(found, zone).timestamp())


define(
    "UNIX_TIMESTAMP",
    "text? text?",
    types.BigIntType(),
    _zoned(_unix_timestamp),
    is_deterministic=False,
)


def _convert_tz(text: str, source: str, target: str) -> str | None:
    try:
        found = parse_timestamp(text)
    except CastFailed:
        return None
    try:
        moved = _standard_moment(found, legacy_zone(source)).astimezone(legacy_zone(target))
    except OverflowError:
        return None
    return moved.replace(tzinfo=None).isoformat(" ", "seconds")


define("CONVERT_TZ", "text text text", nullable_result(STRING), rowwise(_convert_tz))
