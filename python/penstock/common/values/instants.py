"""Points of time of several classes, as numbers since the epoch.

A `datetime` without a zone is in UTC wherever an instant is needed, so that a job computes the same
on every machine, whatever its zone.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

from penstock.common.time import Instant

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


def micros_of(moment: datetime.datetime) -> int:
    """Return the microseconds since the epoch of a moment.

    Raises:
        TypeError: It is ``NaT`` of pandas, which is not a moment.
    """
    if moment != moment:
        raise TypeError(f"{moment!r} is not a moment")
    if moment.utcoffset() is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH) // _MICROSECOND


def datetime_of(micros: int) -> datetime.datetime:
    """Return the moment a number of microseconds after the epoch, in UTC.

    Raises:
        OverflowError: `datetime` has no such year.
    """
    return _EPOCH + datetime.timedelta(microseconds=micros)


def instant_micros(value: Any) -> int:
    """Return the microseconds since the epoch of an Instant or a datetime.

    Raises:
        TypeError: The argument is neither.
        ValueError: The argument is not a whole number of microseconds.
    """
    if isinstance(value, datetime.datetime):
        return micros_of(value)
    if not isinstance(value, Instant):
        raise TypeError(f"{value!r} is neither an Instant nor a datetime")
    micros, nanos = divmod(value.nanos, 1000)
    if nanos:
        raise ValueError(f"{value!r} has nanoseconds, which a column of microseconds cannot store")
    return value.seconds * 1_000_000 + micros
