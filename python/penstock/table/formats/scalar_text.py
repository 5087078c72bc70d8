"""Conversions between values and texts, as in Flink's CSV and JSON formats."""

from __future__ import annotations

import base64
import datetime
import decimal
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.common.values.number_text import parsed_decimal, parsed_double
from penstock.table import types
from penstock.table.types.arrow_types import fitting_decimal

if TYPE_CHECKING:
    from collections.abc import Callable

#: The number of bits of each integer type.
INTEGER_BITS: Final = {
    types.TinyIntType: 8,
    types.SmallIntType: 16,
    types.IntType: 32,
    types.BigIntType: 64,
}
_INTEGER: Final = re.compile(r"[+-]?\d+")
_FRACTION: Final = re.compile(r"(\.\d{1,9})?")


def checked_integer(value: int, data_type: types.DataType) -> int:
    """Check that an integer fits its type, and return it.

    Raises:
        ValueError: The integer does not fit.
    """
    bound = 1 << (INTEGER_BITS[type(data_type)] - 1)  # type: ignore[index]
    if not -bound <= value < bound:
        raise ValueError(f"{value} does not fit {data_type.summary()}")
    return value


def integer_of(text: str, data_type: types.DataType) -> int:
    """Parse an integer.

    Raises:
        ValueError: The text is not an integer, or does not fit the type.
    """
    text = text.strip()
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{text!r} is not an integer")
    return checked_integer(int(text), data_type)


def float_of(text: str) -> float:
    """Parse a number in Java's notation.

    Raises:
        ValueError: The text is not a number.
    """
    return parsed_double(text)


def decimal_of(value: Any, data_type: types.DataType) -> decimal.Decimal | None:
    """Convert a text or number to a decimal, rounded to the type; None if it is too large.

    Raises:
        ValueError: The text is not a number.
    """
    return fitting_decimal(parsed_decimal(value) if isinstance(value, str) else value, data_type)


def date_of(text: str) -> datetime.date:
    """Parse a date such as 2024-01-31."""
    return datetime.date.fromisoformat(text.strip())


def time_of(text: str) -> datetime.time:
    """Parse a time such as 10:11:12.5."""
    return datetime.time.fromisoformat(_microseconds(text.strip().removesuffix("Z")))


def timestamp_of(text: str, between: str = " ") -> datetime.datetime:
    """Parse a timestamp such as 2024-01-31 10:11:12.5.

    Raises:
        ValueError: Date and time are not separated by ``between``.
    """
    text = text.strip()
    if text[10:11] != between:
        raise ValueError(
            f"{text!r} is not a timestamp in the form yyyy-MM-dd{between}HH:mm:ss[.SSS]"
        )
    return datetime.datetime.fromisoformat(_microseconds(text))


def instant_of(text: str, between: str = " ") -> datetime.datetime:
    """Parse an instant such as 2024-01-31 10:11:12.5Z."""
    text = text.strip()
    if not text.endswith("Z"):
        raise ValueError(f"{text!r} is not an instant: expected yyyy-MM-dd{between}HH:mm:ss[.SSS]Z")
    return timestamp_of(text[:-1], between).replace(tzinfo=datetime.UTC)


def boolean_of(text: str) -> bool:
    """Return whether a text is ``true``, in upper or lower case."""
    return text.strip().lower() == "true"


def bytes_of(text: str) -> bytes:
    """Decode a text in base 64."""
    return base64.b64decode(text, validate=True)


def _microseconds(text: str) -> str:
    """Return the text of a time without the digits beyond microseconds."""
    head, point, fraction = text.partition(".")
    return f"{head}.{fraction[:6]:<06}".replace(" ", "0") if point else head


def timestamp_text(value: datetime.datetime, between: str = " ") -> str:
    """Format a timestamp, with as many fractional digits as it needs."""
    text = value.replace(tzinfo=None).isoformat(between)
    return text.rstrip("0").rstrip(".") if "." in text else text


def time_text(value: datetime.time) -> str:
    """Format a time of day, with as many fractional digits as it needs."""
    text = value.isoformat()
    return text.rstrip("0").rstrip(".") if "." in text else text


def decimal_text(value: decimal.Decimal) -> str:
    """Format a decimal like Java's BigDecimal: 1E-7 for 0.0000001, 1.5 for 1.500."""
    digits = value.normalize() if value else decimal.Decimal(0)
    exponent = digits.as_tuple().exponent
    adjusted = digits.adjusted()
    assert isinstance(exponent, int)
    if exponent <= 0 and adjusted >= -6:
        return f"{digits:f}"
    sign, places, _ = digits.as_tuple()
    fraction = "".join(map(str, places[1:]))
    point = f".{fraction}" if fraction else ""
    return f"{'-' if sign else ''}{places[0]}{point}E{adjusted:+d}"


def base64_text(value: bytes) -> str:
    """Encode bytes in base 64."""
    return base64.b64encode(value).decode()


READERS: Final[dict[type[types.DataType], Callable[[str, Any], Any]]] = {
    types.BooleanType: lambda text, _: boolean_of(text),
    types.FloatType: lambda text, _: float_of(text),
    types.DoubleType: lambda text, _: float_of(text),
    types.DecimalType: decimal_of,
    types.CharType: lambda text, _: text,
    types.VarCharType: lambda text, _: text,
    types.BinaryType: lambda text, _: bytes_of(text),
    types.VarBinaryType: lambda text, _: bytes_of(text),
    types.DateType: lambda text, _: date_of(text),
    types.TimeType: lambda text, _: time_of(text),
    **dict.fromkeys(INTEGER_BITS, integer_of),
}
"""The readers of scalar values except timestamps, whose format is an option."""
