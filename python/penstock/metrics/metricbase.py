"""The classes of metrics, for annotations and tests of kind; the runtime creates the objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]


class Metric(ABC):  # noqa: B024 (PyFlink's, which has no methods either)
    """Metric that can be registered under a name."""


class Counter(Metric):
    """A number that is counted up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Count up."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Count down."""

    @abstractmethod
    def get_count(self) -> int:
        """Return the number."""


class Meter(Metric):
    """A count of events, and their recent rate per second."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Count events."""

    @abstractmethod
    def get_count(self) -> int:
        """Return the number of events."""

    def get_rate(self) -> float:
        """Return the recent number of events per second (beyond PyFlink)."""
        raise NotImplementedError(type(self).__name__ + ".get_rate")


class Distribution(Metric):
    """Statistics of integer values."""

    @abstractmethod
    def update(self, value: int) -> None:
        """Record a value."""

    def get_count(self) -> int:
        """Return the number of recorded values (beyond PyFlink)."""
        raise NotImplementedError(type(self).__name__ + ".get_count")

    def recent_values(self) -> list[int]:
        """Return the last recorded values (beyond PyFlink)."""
        raise NotImplementedError(type(self).__name__ + ".recent_values")


class MetricGroup(ABC):
    """A named container of metrics and of groups below it."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return a group below this one; with ``extra`` a pair of key and value."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Register a counter."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Register a function that returns the current value."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Register a meter whose rate is the mean over that time."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Register a distribution."""
