"""Spans and points of time."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import ConfigurationError

__all__ = [
    "Duration",
    "Instant",
    "Time",
]

_NANOS_PER_UNIT: Final = {
    "ns": 1, "nano": 1, "nanos": 1, "nanosecond": 1, "nanoseconds": 1,
    "us": 10**3, "µs": 10**3, "micro": 10**3, "micros": 10**3,
    "microsecond": 10**3, "microseconds": 10**3,
    "": 10**6, "ms": 10**6, "milli": 10**6, "millis": 10**6,
    "millisecond": 10**6, "milliseconds": 10**6,
    "s": 10**9, "sec": 10**9, "secs": 10**9, "second": 10**9, "seconds": 10**9,
    "m": 60 * 10**9, "min": 60 * 10**9, "minute": 60 * 10**9, "minutes": 60 * 10**9,
    "h": 3600 * 10**9, "hour": 3600 * 10**9, "hours": 3600 * 10**9,
    "d": 86400 * 10**9, "day": 86400 * 10**9, "days": 86400 * 10**9,
}  # fmt: skip
_DURATION = re.compile(r"\s*(\d+)\s*([a-zµ]*)\s*", re.IGNORECASE)


class Duration:
    """A span of time in nanoseconds."""

    def __init__(self, nanos: int) -> None:
        """Makes a span of so many nanoseconds."""
        self._nanos = nanos

    @staticmethod
    def of_days(days: int) -> Duration:
        """Days of 24 hours."""
        return Duration(days * 86400 * 10**9)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Hours."""
        return Duration(hours * 3600 * 10**9)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Minutes."""
        return Duration(minutes * 60 * 10**9)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Seconds."""
        return Duration(seconds * 10**9)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Milliseconds."""
        return Duration(millis * 10**6)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Nanoseconds."""
        return Duration(nanos)

    @staticmethod
    def parse(text: str) -> Duration:
        """Reads the form that configuration values have, as "10 ms"; without unit milliseconds.

        Raises:
            ConfigurationError: The text is not a number with a known unit.
        """
        match = _DURATION.fullmatch(str(text))
        factor = _NANOS_PER_UNIT.get(match.group(2).lower()) if match else None
        if match is None or factor is None:
            raise ConfigurationError(
                f"{text!r} is not a duration: write a number and a unit such as ms, s, min, h, d"
            )
        return Duration(int(match.group(1)) * factor)

    def to_millis(self) -> int:
        """The span in whole milliseconds."""
        return self._nanos // 10**6

    def to_nanos(self) -> int:
        """The span in nanoseconds."""
        return self._nanos

    def __eq__(self, other: object) -> bool:
        """Whether the spans are equally long."""
        return isinstance(other, Duration) and self._nanos == other._nanos

    def __hash__(self) -> int:
        """A hash that agrees with equality."""
        return hash(self._nanos)

    def __repr__(self) -> str:
        """The span with the unit that shows it exactly."""
        if self._nanos % 10**6:
            return f"Duration({self._nanos} ns)"
        return f"Duration({self._nanos // 10**6} ms)"


class Instant:
    """A point of time: seconds since the epoch, and nanoseconds from 0 to 999,999,999."""

    def __init__(self, seconds: int, nanos: int) -> None:
        """Makes a point of time."""
        self.seconds = seconds
        self.nanos = nanos

    def to_epoch_milli(self) -> int:
        """Whole milliseconds since the epoch."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """The point so many milliseconds after the epoch."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * 1_000_000)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same point."""
        return (
            isinstance(other, Instant)
            and self.seconds == other.seconds
            and self.nanos == other.nanos
        )

    def __hash__(self) -> int:
        """A hash that agrees with equality."""
        return hash((self.seconds, self.nanos))

    def __repr__(self) -> str:
        """Seconds and nanoseconds."""
        return f"Instant<{self.seconds}, {self.nanos}>"


class Time:
    """A span of time in milliseconds, as windows take it."""

    def __init__(self, milliseconds: int) -> None:
        """Makes a span of so many milliseconds."""
        self._milliseconds = milliseconds

    def to_milliseconds(self) -> int:
        """The span in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """Hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """Days of 24 hours."""
        return Time(days * 86_400_000)

    def __eq__(self, other: object) -> bool:
        """Whether the spans are equally long."""
        return isinstance(other, Time) and self._milliseconds == other._milliseconds

    def __hash__(self) -> int:
        """A hash that agrees with equality."""
        return hash(self._milliseconds)

    def __str__(self) -> str:
        """The number of milliseconds with its unit."""
        return f"{self._milliseconds} ms"
