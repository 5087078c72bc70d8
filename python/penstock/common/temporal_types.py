"""Descriptions of dates and times."""

from __future__ import annotations

import calendar
import datetime
import time
from enum import Enum
from typing import Any

from penstock.common.basic_types import TypeInformation
from penstock.common.values import instants


class SqlTimeTypeInfo(TypeInformation):
    """The date and time types of SQL."""

    @staticmethod
    def DATE() -> DateTypeInfo:
        """Return the type of `datetime.date`."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        """Return the type of `datetime.time`."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        """Return the type of `datetime.datetime`."""
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation[datetime.date]):
    """`datetime.date`; internally the days since 1970-01-01."""

    EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()

    def __init__(self) -> None:
        """Create the description."""
        super().__init__()

    def __eq__(self, o: object) -> bool:
        """Return whether the other one describes dates too."""
        return isinstance(o, DateTypeInfo)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the fixed name."""
        return "DateTypeInfo"

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, d: Any) -> Any:
        """Return the days since the epoch."""
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_internal_type(self, v: Any) -> Any:
        """Return the date a number of days after the epoch."""
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)


class TimeTypeInfo(TypeInformation[datetime.time]):
    """`datetime.time`; internally the microseconds since midnight."""

    EPOCH_ORDINAL = 0

    def __eq__(self, o: object) -> bool:
        """Return whether the other one describes times too."""
        return isinstance(o, TimeTypeInfo)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the fixed name."""
        return "TimeTypeInfo"

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, t: Any) -> Any:
        """Return the microseconds since midnight, in UTC if the time has a zone."""
        if t is None:
            return None
        seconds = (t.hour * 60 + t.minute) * 60 + t.second
        offset = t.utcoffset() or datetime.timedelta()
        return seconds * 1_000_000 + t.microsecond - offset // datetime.timedelta(microseconds=1)

    def from_internal_type(self, t: Any) -> Any:
        """Return the time a number of microseconds after midnight."""
        if t is None:
            return None
        seconds, micros = divmod(t, 1_000_000)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        return datetime.time(hour, minute, second, micros)


class TimestampTypeInfo(TypeInformation[datetime.datetime]):
    """`datetime.datetime`; internally epoch microseconds."""

    def __eq__(self, o: object) -> bool:
        """Return whether the other one describes the same timestamps: with or without a zone."""
        return type(o) is type(self)

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the fixed name."""
        return "TimestampTypeInfo"

    def need_conversion(self) -> bool:
        """Return True."""
        return True

    def to_internal_type(self, dt: Any) -> Any:
        """Return the epoch microseconds; a datetime without zone is local."""
        if dt is None:
            return None
        if dt.tzinfo is not None:
            seconds = calendar.timegm(dt.utctimetuple())
        else:
            seconds = int(time.mktime(dt.timetuple()))
        return seconds * 1_000_000 + dt.microsecond

    def from_internal_type(self, ts: Any) -> Any:
        """Return the local datetime of epoch microseconds."""
        if ts is None:
            return None
        seconds, micros = divmod(ts, 1_000_000)
        return datetime.datetime.fromtimestamp(seconds).replace(microsecond=micros)


class LocalZonedTimestampTypeInfo(TimestampTypeInfo):
    """`datetime.datetime` with a zone, a point of time; internally epoch microseconds.

    Flink calls it TIMESTAMP_LTZ (beyond PyFlink's types of streams).  A datetime without a zone
    counts as UTC, and deserialised values are in UTC.
    """

    def __repr__(self) -> str:
        """Return the fixed name."""
        return "LocalZonedTimestampTypeInfo"

    def to_internal_type(self, dt: Any) -> Any:
        """Return the epoch microseconds."""
        return None if dt is None else instants.micros_of(dt)

    def from_internal_type(self, ts: Any) -> Any:
        """Return the datetime of epoch microseconds, in UTC."""
        return None if ts is None else instants.datetime_of(ts)


class LocalTimeTypeInfo(TypeInformation):
    """Dates and times without a zone."""

    class TimeType(Enum):
        """The kind of time."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: LocalTimeTypeInfo.TimeType) -> None:
        """Create the description."""
        super().__init__()
        self._time_type = time_type

    @property
    def time_type(self) -> LocalTimeTypeInfo.TimeType:
        """Return the kind of time."""
        return self._time_type

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same kind."""
        return isinstance(other, LocalTimeTypeInfo) and self._time_type is other._time_type

    __hash__ = TypeInformation.__hash__

    def __repr__(self) -> str:
        """Return the name with the kind."""
        return f"LocalTimeTypeInfo({self._time_type.name})"
