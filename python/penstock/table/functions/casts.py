"""CAST between all types, with Flink's results and errors."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.common.values.number_text import parsed_decimal, parsed_double
from penstock.table import types
from penstock.table.exceptions import TableException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.registry import column_values, is_repetitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.types import DataType

Converter = "Callable[[Any], Any]"

_TRUE: Final = frozenset(("t", "true", "y", "yes", "1"))
_FALSE: Final = frozenset(("f", "false", "n", "no", "0"))
_INTEGER: Final = re.compile(r"[+-]?\d+(\.\d*)?", re.ASCII)
_DATE: Final = re.compile(r"(\d{1,4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_TIME: Final = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d+))?)?)?")
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


class CastFailed(ValueError):
    """A value cannot be converted."""


def cast_array(value: Any, source: DataType, target: DataType, *, is_try: bool) -> Any:
    """Return an argument, cast to another type, as a column.

    Args:
        value: An Arrow array or scalar.
        source: The type of the values.
        target: The type of the results.
        is_try: Whether unconvertible values become NULL.

    Raises:
        TableException: A value cannot be converted.
    """
    import pyarrow as pa

    from penstock.table.types.arrow_types import arrow_array, arrow_type, python_values

    wanted = arrow_type(target)
    if isinstance(source, types.NullType):
        return pa.scalar(None, wanted)
    if _is_same_form(source, target):
        return value if value.type == wanted else value.cast(wanted)
    if _is_widening(source, target) or (rules.is_integer(source) and rules.is_integer(target)):
        # A float has not all digits of a large integer: Arrow would refuse to round it.  Integers
        # that do not fit wrap around, as Java's do.
        return value.cast(wanted, safe=False)
    if isinstance(value, pa.Scalar):
        value = pa.array([value.as_py()], value.type)
        made = cast_array(value, source, target, is_try=is_try)
        return made[0] if isinstance(made, pa.Array) else made
    if is_repetitive(value):
        encoded = value.dictionary_encode()
        made = cast_array(encoded.dictionary, source, target, is_try=is_try)
        return made.take(encoded.indices)
    convert = converter(source, target)
    results: list[Any] = []
    for item in python_values(value, source):
        if item is None:
            results.append(None)
            continue
        try:
            results.append(convert(item))
        except (ValueError, OverflowError, decimal.InvalidOperation) as error:
            if not is_try:
                raise TableException(
                    f"Cannot cast {item!r} of type {source} to {target}: {error}"
                ) from None
            results.append(None)
    return arrow_array(results, target)


def _is_same_form(source: Any, target: Any) -> bool:
    """Return whether every value of the source is valid in the target unchanged."""
    if source.not_null() == target.not_null():
        return True
    if rules.is_text(source) and isinstance(target, types.VarCharType):
        return bool(source.length <= target.length)
    if rules.is_bytes(source) and isinstance(target, types.VarBinaryType):
        return bool(source.length <= target.length)
    if type(source) is type(target) and rules.is_timestamp(source):
        return bool(source.precision <= target.precision)
    return type(source) is type(target) and (
        rules.is_day_interval(source) or rules.is_month_interval(source)
    )


def _is_widening(source: Any, target: Any) -> bool:
    if rules.is_integer(source) and rules.is_integer(target):
        return rules.BOUNDS[type(source)] <= rules.BOUNDS[type(target)]
    if rules.is_integer(source) and rules.is_float(target):
        return True
    if rules.is_float(source) and rules.is_float(target):
        return True
    if isinstance(target, types.DecimalType) and isinstance(
        source, types.DecimalType | types.IntegralType
    ):
        kind = rules.as_decimal(source)
        return (
            kind.scale <= target.scale
            and kind.precision - kind.scale <= target.precision - target.scale
        )
    return False


def cast_value(value: Any, source: DataType, target: DataType) -> Any:
    """Cast one Python value.

    Raises:
        ValueError: The value cannot be converted.
    """
    return None if value is None else converter(source, target)(value)


def converter(source: Any, target: Any) -> Callable[[Any], Any]:
    """Return the conversion of Python values from one type to another."""
    if source.not_null() == target.not_null():
        return lambda value: value
    if rules.is_text(target):
        return _to_text(source, target)
    if rules.is_integer(target):
        return _to_integer(source, target)
    if rules.is_float(target):
        return _to_float(source, target)
    if isinstance(target, types.DecimalType):
        return _to_decimal(source, target)
    if isinstance(target, types.BooleanType):
        return _to_boolean(source)
    if rules.is_bytes(target):
        return _to_bytes(source, target)
    if rules.is_temporal(target):
        return _to_time(source, target)
    if rules.is_day_interval(target):
        return lambda value: (
            value if isinstance(value, datetime.timedelta) else value * _MILLISECOND
        )
    if rules.is_month_interval(target):
        return int
    return _to_parts(source, target)


# Texts --------------------------------------------------------------------------------------------


def _to_text(source: Any, target: Any) -> Callable[[Any], str]:
    write = text_writer(source)
    length = target.length
    if length == rules.MAX_LENGTH:
        return write
    if isinstance(target, types.CharType):
        return lambda value: write(value)[:length].ljust(length)
    return lambda value: write(value)[:length]


def text_writer(source: Any) -> Callable[[Any], str]:
    """Return the formatter of a type's values for CAST(… AS STRING)."""
    if rules.is_text(source) or rules.is_integer(source):
        return str
    if isinstance(source, types.BooleanType):
        return lambda value: "TRUE" if value else "FALSE"
    if isinstance(source, types.DecimalType):
        return lambda value: format(value, "f")
    if isinstance(source, types.DoubleType):
        return java_double
    if isinstance(source, types.FloatType):
        return java_float
    if rules.is_bytes(source):
        return lambda value: bytes(value).decode("utf-8", "replace")
    if isinstance(source, types.DateType):
        return lambda value: value.isoformat()
    if isinstance(source, types.TimeType):
        return lambda value: f"{value:%H:%M:%S}{_fraction(value.microsecond, source.precision)}"
    if rules.is_timestamp(source):
        return lambda value: timestamp_text(value, source.precision)
    if rules.is_day_interval(source):
        return day_interval_text
    if rules.is_month_interval(source):
        return lambda value: f"{'-' if value < 0 else '+'}{abs(value) // 12}-{abs(value) % 12:02}"
    return _parts_writer(source)


def _parts_writer(source: Any) -> Callable[[Any], str]:
    if isinstance(source, types.RowType):
        writers = [_or_null(text_writer(f.data_type)) for f in source]
        return lambda row: "(" + ", ".join(w(v) for w, v in zip(writers, row, strict=True)) + ")"
    if isinstance(source, types.MapType | types.MultisetType):
        key_type, value_type = _entry_types(source)
        key, value = _or_null(text_writer(key_type)), _or_null(text_writer(value_type))
        return lambda found: "{" + ", ".join(f"{key(k)}={value(v)}" for k, v in found.items()) + "}"
    if isinstance(source, types.ArrayType):
        element = _or_null(text_writer(source.element_type))
        return lambda found: "[" + ", ".join(map(element, found)) + "]"
    return str


def _entry_types(kind: Any) -> tuple[DataType, DataType]:
    """Return the types of keys and values of a map, or of values and counts of a multiset."""
    if isinstance(kind, types.MapType):
        return kind.key_type, kind.value_type
    return kind.element_type, types.IntType()


def _or_null(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "NULL" if value is None else write(value)


def _fraction(microseconds: int, precision: int) -> str:
    if precision == 0:
        return ""
    return "." + f"{microseconds:06}000"[:precision]


def timestamp_text(value: datetime.datetime, precision: int) -> str:
    """Format a timestamp with the fraction digits of its type."""
    return (
        f"{value.year:04}-{value.month:02}-{value.day:02} {value:%H:%M:%S}"
        f"{_fraction(value.microsecond, precision)}"
    )


def day_interval_text(value: datetime.timedelta) -> str:
    """Format an interval of days to milliseconds as Flink does."""
    milliseconds = value // _MILLISECOND
    sign, milliseconds = ("-", -milliseconds) if milliseconds < 0 else ("+", milliseconds)
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}"


def java_double(value: float) -> str:
    """Format a DOUBLE like Java's ``Double.toString``."""
    return _java_real(value, repr(value))


def java_float(value: float) -> str:
    """Format a FLOAT like Java's ``Float.toString``: the shortest text of 4 bytes."""
    import numpy as np

    return _java_real(value, str(np.float32(value)))


def _java_real(value: float, shortest: str) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return shortest if shortest.endswith(".0") else f"{shortest}.0"
    sign, digits, exponent = decimal.Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    point = len(digits) + exponent  # digits before the point
    text = "".join(map(str, digits))
    minus = "-" if sign else ""
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        padded = text.ljust(point + 1, "0")
        return f"{minus}{padded[:point]}.{padded[point:]}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


# Numbers ------------------------------------------------------------------------------------------


def _to_integer(source: Any, target: Any) -> Callable[[Any], int]:
    bound = rules.BOUNDS[type(target)]

    def wrapped(value: int) -> int:
        return (value + bound) % (2 * bound) - bound

    if rules.is_text(source):

        def parse(text: str) -> int:
            stripped = text.strip()
            if not _INTEGER.fullmatch(stripped):
                raise CastFailed(f"{text!r} is not an integer")
            value = int(stripped.partition(".")[0] or "0")
            if not -bound <= value < bound:
                raise CastFailed(f"{text!r} is out of range")
            return value

        return parse
    if rules.is_float(source):

        def truncated(value: float) -> int:
            if value != value:
                return 0
            limit = max(bound, 1 << 31)
            inner = int(max(min(value, limit - 1), -limit)) if abs(value) >= limit else int(value)
            return wrapped(inner)

        return truncated
    if rules.is_day_interval(source):
        return lambda value: wrapped(value // _MILLISECOND)
    return lambda value: wrapped(int(value))


def _to_float(source: Any, target: Any) -> Callable[[Any], float]:
    del target
    if rules.is_text(source):

        def parse(text: str) -> float:
            try:
                return parsed_double(text)
            except ValueError as error:
                raise CastFailed(str(error)) from None

        return parse
    return float


def _to_decimal(source: Any, target: Any) -> Callable[[Any], decimal.Decimal | None]:
    exponent = decimal.Decimal(1).scaleb(-target.scale)
    digits = target.precision

    def fitted(value: decimal.Decimal) -> decimal.Decimal | None:
        if not value.is_finite():
            raise CastFailed("it is not finite")
        if value and value.adjusted() + 1 > digits - target.scale:
            return None
        with decimal.localcontext(prec=100):
            rounded = value.quantize(exponent, decimal.ROUND_HALF_UP)
        return None if len(rounded.as_tuple().digits) > digits else rounded

    if rules.is_text(source):

        def parse(text: str) -> decimal.Decimal | None:
            try:
                return fitted(parsed_decimal(text))
            except ValueError as error:
                raise CastFailed(str(error)) from None

        return parse
    if rules.is_float(source):
        return lambda value: fitted(decimal.Decimal(repr(value)))
    return lambda value: fitted(decimal.Decimal(value))


def _to_boolean(source: Any) -> Callable[[Any], bool]:
    if rules.is_text(source):

        def parse(text: str) -> bool:
            word = text.strip().lower()
            if word in _TRUE:
                return True
            if word in _FALSE:
                return False
            raise CastFailed(f"{text!r} is not a boolean")

        return parse
    return lambda value: value != 0


def _to_bytes(source: Any, target: Any) -> Callable[[Any], bytes]:
    del source
    length = target.length

    def convert(value: Any) -> bytes:
        made = value.encode() if isinstance(value, str) else bytes(value)
        if isinstance(target, types.BinaryType):
            return made[:length].ljust(length, b"\0")
        return made[:length]

    return convert


# Times --------------------------------------------------------------------------------------------


def parse_date(text: str) -> datetime.date:
    """Parse a date such as 2024-01-31.

    Raises:
        CastFailed: The text is malformed.
    """
    stripped = text.strip()
    day, _, rest = stripped.partition(" ")
    if not rest:
        day, _, rest = stripped.partition("T")
    found = _DATE.fullmatch(day)
    if found is None:
        raise CastFailed(f"{text!r} is not a date")
    try:
        return datetime.date(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    except ValueError:
        raise CastFailed(f"{text!r} is not a date") from None


def parse_time(text: str) -> datetime.time:
    """Parse a time such as 10:11:12.5.

    Raises:
        CastFailed: The text is malformed.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise CastFailed(f"{text!r} is not a time")
    try:
        return datetime.time(
            int(found[1]), int(found[2] or 0), int(found[3] or 0), _microseconds(found[4])
        )
    except ValueError:
        raise CastFailed(f"{text!r} is not a time") from None


def _microseconds(fraction: str | None) -> int:
    return int((fraction or "").ljust(6, "0")[:6])


def parse_timestamp(text: str) -> datetime.datetime:
    """Parse a timestamp such as 2024-01-31 10:11:12.5; the time may be missing.

    A time needs its seconds.  SQL does not accept texts of ISO 8601, with a T.

    Raises:
        CastFailed: The text is malformed.
    """
    day, _, time = text.strip().partition(" ")
    try:
        date = parse_date(day)
        if "T" in day or (time.strip() and time.count(":") < 2):
            raise CastFailed(text)
        if not time.strip():
            return datetime.datetime.combine(date, datetime.time())
        return datetime.datetime.combine(date, parse_time(time))
    except CastFailed:
        raise CastFailed(f"{text!r} is not a timestamp") from None


def _cut(value: datetime.datetime, precision: int) -> datetime.datetime:
    unit = 10 ** max(6 - precision, 0)
    return value.replace(microsecond=value.microsecond // unit * unit)


def _to_time(source: Any, target: Any) -> Callable[[Any], Any]:
    if isinstance(target, types.DateType):
        if rules.is_text(source):
            return parse_date
        return lambda value: value.date()
    if isinstance(target, types.TimeType):
        if rules.is_text(source):
            return lambda text: _cut_time(
                parse_timestamp(text).time() if "-" in text else parse_time(text),
                target.precision,
            )
        if isinstance(source, types.TimeType):
            return lambda value: _cut_time(value, target.precision)
        return lambda value: _cut_time(value.time(), target.precision)
    precision = target.precision
    if rules.is_text(source):
        return lambda text: _cut(parse_timestamp(text), precision)
    if isinstance(source, types.DateType):
        return lambda value: datetime.datetime.combine(value, datetime.time())
    if isinstance(source, types.TimeType):
        return lambda value: datetime.datetime.combine(_EPOCH.date(), value)
    return lambda value: _cut(value.replace(tzinfo=None), precision)


def _cut_time(value: datetime.time, precision: int) -> datetime.time:
    unit = 10 ** max(6 - precision, 0)
    return value.replace(microsecond=value.microsecond // unit * unit)


def shifted_by_zone(
    values: Any, rows: int, source: Any, target: Any, zone: datetime.tzinfo
) -> list[Any]:
    """Convert timestamps between TIMESTAMP_LTZ and the types without a zone, by local time."""
    found = column_values(values, rows)
    if isinstance(source, types.LocalZonedTimestampType):
        return [None if v is None else v.astimezone(zone).replace(tzinfo=None) for v in found]
    del target
    return [
        None if v is None else v.replace(tzinfo=zone).astimezone(datetime.UTC).replace(tzinfo=None)
        for v in found
    ]


# Parts --------------------------------------------------------------------------------------------


def _to_parts(source: Any, target: Any) -> Callable[[Any], Any]:
    if isinstance(target, types.RowType):
        pairs = list(zip(source, target, strict=True))
        parts = [_nullable(converter(one.data_type, other.data_type)) for one, other in pairs]
        return lambda row: tuple(p(v) for p, v in zip(parts, row, strict=True))
    if isinstance(target, types.MapType | types.MultisetType):
        pairs_of_types = zip(_entry_types(source), _entry_types(target), strict=True)
        key, value = (_nullable(converter(one, other)) for one, other in pairs_of_types)
        return lambda found: {key(k): value(v) for k, v in found.items()}
    element = _nullable(converter(source.element_type, target.element_type))
    return lambda found: [element(v) for v in found]


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)
