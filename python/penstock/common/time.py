"""Spans and points of time."""

from __future__ import annotations

import re
from numbers import Real
from typing import Any, Final

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import NoJavaMembers, SnakeCaseHints
from penstock.errors import ConfigurationError, WrongArgumentError

__all__ = [
    "Duration",
    "Instant",
    "Time",
]

_NANOS_PER_UNIT: Final = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 10**3),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 10**6),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 10**9),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 10**9),
    **dict.fromkeys(("h", "hour", "hours"), 3600 * 10**9),
    **dict.fromkeys(("d", "day", "days"), 86400 * 10**9),
}
_DURATION: Final = re.compile(r"([0-9]+)\s*([a-zµ]*)", re.IGNORECASE)
_ISO_DURATION: Final = re.compile(
    r"p(?:([0-9]+)d)?(?:t(?=[0-9])(?:([0-9]+)h)?(?:([0-9]+)m)?"
    r"(?:([0-9]+)(?:\.([0-9]{1,9}))?s)?)?",
    re.IGNORECASE,
)
_ISO_NANOS: Final = (86400 * 10**9, 3600 * 10**9, 60 * 10**9, 10**9, 1)


@checks_arguments
class Duration(NoJavaMembers, metaclass=SnakeCaseHints):
    """A span of time in nanoseconds."""

    def __init__(self, nanos: int) -> None:
        """Create a span of nanoseconds."""
        self._nanos = nanos

    @staticmethod
    def of_days(days: int) -> Duration:
        """Return a span of days of 24 hours."""
        return Duration(days * 86400 * 10**9)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Return a span of hours."""
        return Duration(hours * 3600 * 10**9)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Return a span of minutes."""
        return Duration(minutes * 60 * 10**9)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Return a span of seconds."""
        return Duration(seconds * 10**9)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Return a span of milliseconds."""
        return Duration(millis * 10**6)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Return a span of nanoseconds."""
        return Duration(nanos)

    @staticmethod
    def parse(text: str) -> Duration:
        """Read the format of configuration values, such as "10 ms"; without unit milliseconds.

        ISO 8601 durations of days and less ("PT1M30S") are read as well, as in Flink.

        Raises:
            ConfigurationError: The text is not a number with a known unit.
        """
        stripped = str(text).strip()
        match = _DURATION.fullmatch(stripped)
        factor = _NANOS_PER_UNIT.get(match[2].lower()) if match else None
        if match is not None and factor is not None:
            return Duration(int(match[1]) * factor)
        iso = _ISO_DURATION.fullmatch(stripped)
        if iso is not None and any(iso.groups()):
            parts = [*iso.groups("0")[:4], iso.groups("")[4].ljust(9, "0")]
            return Duration(sum(int(p) * nanos for p, nanos in zip(parts, _ISO_NANOS, strict=True)))
        raise ConfigurationError(
            f"{text!r} is not a duration: write a number and a unit such as ms, s, min, h, d"
        )

    def to_millis(self) -> int:
        """Return the span in whole milliseconds."""
        return self._nanos // 10**6

    def to_milliseconds(self) -> int:
        """Return the span in whole milliseconds, as a Time does."""
        return self._nanos // 10**6

    def to_nanos(self) -> int:
        """Return the span in nanoseconds."""
        return self._nanos

    def __eq__(self, other: object) -> bool:
        """Return whether the spans are equally long."""
        return isinstance(other, Duration) and self._nanos == other._nanos

    def __hash__(self) -> int:
        """Return a hash that agrees with equality."""
        return hash(self._nanos)

    def __repr__(self) -> str:
        """Return the span with the unit that shows it exactly."""
        if self._nanos % 10**6:
            return f"Duration({self._nanos} ns)"
        return f"Duration({self._nanos // 10**6} ms)"


class Instant:
    """A point of time: seconds since the epoch, and nanoseconds from 0 to 999,999,999."""

    def __init__(self, seconds: int, nanos: int) -> None:
        """Create a point of time."""
        self.seconds = seconds
        self.nanos = nanos

    def to_epoch_milli(self) -> int:
        """Return the whole milliseconds since the epoch."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the point a number of milliseconds after the epoch."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * 1_000_000)

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same point."""
        return (
            isinstance(other, Instant)
            and self.seconds == other.seconds
            and self.nanos == other.nanos
        )

    def __hash__(self) -> int:
        """Return a hash that agrees with equality."""
        return hash((self.seconds, self.nanos))

    def __repr__(self) -> str:
        """Return seconds and nanoseconds."""
        return f"Instant<{self.seconds}, {self.nanos}>"


class Time(metaclass=SnakeCaseHints):
    """A span of time in milliseconds, for windows."""

    def __init__(self, milliseconds: int) -> None:
        """Create a span of milliseconds."""
        self._milliseconds = milliseconds

    def to_milliseconds(self) -> int:
        """Return the span in milliseconds."""
        return self._milliseconds

    def to_millis(self) -> int:
        """Return the span in milliseconds, as a Duration does."""
        return self._milliseconds

    def to_nanos(self) -> int:
        """Return the span in nanoseconds, as a Duration does."""
        return self._milliseconds * 10**6

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Return a span of milliseconds."""
        return Time(_number(milliseconds, "milliseconds"))

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Return a span of seconds."""
        return Time(_number(seconds, "seconds") * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Return a span of minutes."""
        return Time(_number(minutes, "minutes") * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """Return a span of hours."""
        return Time(_number(hours, "hours") * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """Return a span of days of 24 hours."""
        return Time(_number(days, "days") * 86_400_000)

    def __eq__(self, other: object) -> bool:
        """Return whether the spans are equally long."""
        return isinstance(other, Time) and self._milliseconds == other._milliseconds

    def __hash__(self) -> int:
        """Return a hash that agrees with equality."""
        return hash(self._milliseconds)

    def __repr__(self) -> str:
        """Return the number of milliseconds with its unit, as a Duration does."""
        return f"Time({self._milliseconds} ms)"

    def __str__(self) -> str:
        """Return the number of milliseconds with its unit."""
        return f"{self._milliseconds} ms"


def _number(amount: int, unit: str) -> int:
    """Return the amount, which may have a fraction, as in PyFlink."""
    given: Any = amount
    if not isinstance(given, Real):
        raise WrongArgumentError(f"Time.{unit}: {unit} must be a number, got {given!r}")
    return amount
