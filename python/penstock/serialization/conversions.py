"""Declared types that travel as a simpler type: dates, decimals, single characters.

Both runtimes use each pair ``x`` and ``x_from``, so they agree by construction.  ``x`` raises
:class:`SerializationError` for a value that does not fit; ``x_from`` raises
:class:`CorruptStreamError` or ``ValueError`` for bytes that no encoder writes.
"""

import datetime
import decimal
import numbers
from typing import Any

from penstock.common.time import Instant
from penstock.common.values import instants
from penstock.errors import CorruptStreamError, SerializationError

_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_DAY_MICROS = 86_400_000_000

INSTANT_MARK = 1 << 62
"""Is added to the microseconds of a datetime with a zone; those of a wall clock are far from it."""


def character(value: Any) -> str:
    """CHAR: a string of one character."""
    if not isinstance(value, str) or len(value) != 1:
        raise SerializationError("not a string of one character")
    return str(value)


def character_from(text: str) -> str:
    """CHAR from its wire form."""
    if len(text) != 1:
        raise CorruptStreamError(f"CHAR of {len(text)} characters")
    return text


def whole_number(value: Any) -> int:
    """BYTE, SHORT, INT, LONG: the integer part of a number."""
    if not any(isinstance(value, kind) for kind in (numbers.Real, decimal.Decimal)):
        raise SerializationError("not a number")
    try:
        return int(value)
    except (ValueError, OverflowError):
        raise SerializationError("not a finite number") from None


def decimal_text(value: Any) -> str:
    """BIG_DEC: a finite or special Decimal, or a number or string that denotes one exactly."""
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise SerializationError("not a decimal number")
    try:
        return str(decimal.Decimal(str(value)))
    except decimal.InvalidOperation:
        raise SerializationError("not a decimal number") from None


def decimal_from(text: str) -> decimal.Decimal:
    """BIG_DEC from its wire form."""
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise CorruptStreamError(f"BIG_DEC of {text[:40]!r}") from None


def epoch_day(value: Any) -> int:
    """SQL_DATE: days since 1970-01-01; a datetime counts as its date."""
    if not isinstance(value, datetime.date):
        raise SerializationError("not a datetime.date")
    return value.toordinal() - _EPOCH_ORDINAL


def date_from(day: int) -> datetime.date:
    """SQL_DATE from its wire form."""
    return datetime.date.fromordinal(day + _EPOCH_ORDINAL)


def micros_of_day(value: Any) -> int:
    """SQL_TIME: microseconds since midnight of the wall clock; date and time zone are dropped."""
    if not isinstance(value, (datetime.time, datetime.datetime)):
        raise SerializationError("not a datetime.time")
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def time_from(micros: int) -> datetime.time:
    """SQL_TIME from its wire form."""
    if not 0 <= micros < _DAY_MICROS:
        raise CorruptStreamError(f"SQL_TIME of {micros} microseconds")
    seconds, micros = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return datetime.time(hour, minute, second, micros)


def timestamp_micros(value: Any) -> int:
    """SQL_TIMESTAMP: microseconds since 1970-01-01T00:00 of a wall-clock time or an instant."""
    if not isinstance(value, datetime.datetime):
        raise SerializationError("not a datetime.datetime")
    if value.tzinfo is not None:
        return INSTANT_MARK + _utc_micros(value)
    return (value.replace(fold=0) - _EPOCH) // _MICROSECOND


def timestamp_from(micros: int) -> datetime.datetime:
    """SQL_TIMESTAMP from its wire form; an instant is in UTC."""
    if micros >= INSTANT_MARK // 2:
        return instants.datetime_of(micros - INSTANT_MARK)
    return _EPOCH + datetime.timedelta(microseconds=micros)


def moment_micros(value: Any) -> int:
    """TIMESTAMP_LTZ: microseconds since the epoch; a datetime without a zone is read as UTC."""
    if not isinstance(value, datetime.datetime):
        raise SerializationError("not a datetime.datetime")
    return _utc_micros(value)


def moment_from(micros: int) -> datetime.datetime:
    """TIMESTAMP_LTZ from its wire form, as a datetime in UTC."""
    return instants.datetime_of(micros)


def _utc_micros(value: datetime.datetime) -> int:
    try:
        micros = instants.micros_of(value)
        instants.datetime_of(micros)  # its year in UTC must be from 1 to 9999, too
    except (OverflowError, TypeError):
        raise SerializationError("no moment that a datetime of UTC has") from None
    return micros


def instant_parts(value: Any) -> tuple[int, int]:
    """INSTANT: seconds since the epoch and nanoseconds within the second.

    A datetime with a zone is an instant too.
    """
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        seconds, micros = divmod(_utc_micros(value), 1_000_000)
        return seconds, micros * 1000
    if not isinstance(value, Instant):
        raise SerializationError("not a penstock.common.Instant")
    return value.seconds, value.nanos


def instant_from(parts: tuple[int, int]) -> Instant:
    """INSTANT from its wire form."""
    return Instant(*parts)
