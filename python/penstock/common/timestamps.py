"""Timestamps returned by users' functions."""

from __future__ import annotations

import datetime
import decimal
import numbers
import sys
import types
from typing import Any, Final

from penstock.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE
from penstock.common.exception_deadline import repr_in_time
from penstock.common.time import Instant
from penstock.common.values.instants import micros_of

#: The nanoseconds of numpy's units of fixed length.
_UNIT_NANOS: Final = {
    "W": 7 * 86400 * 10**9,
    "D": 86400 * 10**9,
    "h": 3600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
#: The fraction of a nanosecond of numpy's smaller units.
_PARTS_OF_A_NANO: Final = {"ps": 10**3, "fs": 10**6, "as": 10**9}


def timestamp_of(given: Any, giver: Any) -> int:
    """Return a timestamp in whole milliseconds since the epoch.

    Numbers are milliseconds; their fraction is cut off, as in PyFlink.  A `datetime` (in UTC if it
    has no zone), an `Instant` and a ``numpy.datetime64`` of any unit are converted; fractions of a
    millisecond are dropped.

    Args:
        given: The result of a user's function.
        giver: The function, or its name, for messages.

    Raises:
        TypeError: The result is none of these.
        OverflowError: The result needs more than 64 bits, or is not finite.
    """
    number: int = given
    if type(given) is not int:
        try:
            number = _millis(given)
        except TypeError as error:
            raise TypeError(_refusal(given, giver)) from error
        except (ValueError, OverflowError) as error:
            raise OverflowError(_refusal(given, giver)) from error
    if not MIN_LONG_VALUE <= number <= MAX_LONG_VALUE:
        raise OverflowError(_refusal(given, giver))
    return number


def _millis(given: Any) -> int:
    """Return the milliseconds of a value that is not a plain integer.

    Raises:
        TypeError: The argument is not a timestamp.
        ValueError, OverflowError: It is not finite.
    """
    if isinstance(given, datetime.datetime):
        return micros_of(given) // 1000
    if isinstance(given, Instant):
        return given.to_epoch_milli()
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(given, (numpy.datetime64, numpy.timedelta64)):
        return _millis_of_numpy(numpy, given)
    # Not every type with an __int__: addresses and UUIDs have one.
    if isinstance(given, (numbers.Real, decimal.Decimal)) or hasattr(type(given), "__index__"):
        return int(given)
    raise TypeError("it is not a number")


def _millis_of_numpy(numpy: Any, given: Any) -> int:
    """Return the milliseconds of a datetime64, by Python's integers, which do not overflow."""
    if isinstance(given, numpy.timedelta64):  # numpy treats it as an integer
        raise TypeError("a duration is not a timestamp")
    if numpy.isnat(given):
        raise TypeError("it is not a moment")
    if numpy.datetime_data(given.dtype)[0] in ("Y", "M"):
        given = given.astype("datetime64[D]")
    unit, count = numpy.datetime_data(given.dtype)
    number: int = int(given.astype(numpy.int64)) * int(count)
    if unit in _PARTS_OF_A_NANO:
        return number // (_PARTS_OF_A_NANO[unit] * 10**6)
    return number * _UNIT_NANOS[unit] // 10**6


def _refusal(given: Any, giver: Any) -> str:
    name = getattr(giver, "__qualname__", giver)
    refusal = f"{name}: expected milliseconds as a number of 64 bits, got {repr_in_time(given)}"
    if isinstance(given, types.GeneratorType):
        refusal += "; write return in place of yield"
    return refusal
