"""Metrics that user functions register, as PyFlink's ``MetricGroup``."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING

from penstock.metrics import metricbase
from penstock.metrics.gauges import UserGauge

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

logger = logging.getLogger(__name__)

_DISTRIBUTION_WINDOW = 2048


class Counter(metricbase.Counter):
    """A number that is counted up and down."""

    def __init__(self) -> None:
        """Create a counter at 0."""
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Count up."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Count down."""
        self._count -= n

    def get_count(self) -> int:
        """Return the count."""
        return self._count


class Meter(metricbase.Meter):
    """A count of events and their recent rate per second."""

    def __init__(self, time_span_in_seconds: int = 60) -> None:
        """Create a meter whose rate is the mean over ``time_span_in_seconds``."""
        self._span = time_span_in_seconds
        self._count = 0
        self._marks: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def mark_event(self, value: int = 1) -> None:
        """Count events."""
        self._count += value
        now = time.monotonic()
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, self._count))
            while len(self._marks) > 2 and self._marks[1][0] <= now - self._span:
                self._marks.popleft()

    def get_count(self) -> int:
        """Return the number of events."""
        return self._count

    def get_rate(self) -> float:
        """Return the events per second."""
        since, count = self._marks[0]
        elapsed = time.monotonic() - since
        return (self._count - count) / elapsed if elapsed > 0 else 0.0


class Distribution(metricbase.Distribution):
    """The count, sum, extremes and recent values of integers."""

    def __init__(self) -> None:
        """Create an empty distribution."""
        self.count = 0
        self.sum = 0
        self.minimum: int | None = None
        self.maximum: int | None = None
        self.recent: deque[int] = deque(maxlen=_DISTRIBUTION_WINDOW)

    def update(self, value: int) -> None:
        """Record a value."""
        self.count += 1
        self.sum += value
        self.minimum = value if self.minimum is None else min(self.minimum, value)
        self.maximum = value if self.maximum is None else max(self.maximum, value)
        self.recent.append(value)

    def get_count(self) -> int:
        """Return the number of recorded values."""
        return self.count

    def recent_values(self) -> list[int]:
        """Return the recent values; any thread."""
        return list(self.recent)


class OperatorMetricGroup(metricbase.MetricGroup):
    """The metrics of an operator; each is published under its dotted name."""

    def __init__(
        self,
        registry: MutableMapping[str, object],
        scope: tuple[str, ...],
        names: tuple[str, ...] = (),
        registered: set[str] | None = None,
    ) -> None:
        """Create a group.

        Args:
            registry: Publishes metrics by their name within the operator.
            scope: Names of the operator and its subtask.
            names: The groups between the operator and this one.
            registered: The names registered by the group above.
        """
        self._registry = registry
        self._scope = scope
        self._names = names
        self._registered = set() if registered is None else registered

    def add_group(self, name: str, extra: str | None = None) -> OperatorMetricGroup:
        """Return a group below this one; with ``extra``, a pair of key and value."""
        names = (name,) if extra is None else (name, extra)
        return OperatorMetricGroup(
            self._registry, self._scope, self._names + names, self._registered
        )

    def counter(self, name: str) -> Counter:
        """Register a counter."""
        counter = Counter()
        self._register(name, counter)
        return counter

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Register a function that returns the current value; another thread calls it."""
        self._register(name, UserGauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Register a meter."""
        meter = Meter(time_span_in_seconds)
        self._register(name, meter)
        return meter

    def distribution(self, name: str) -> Distribution:
        """Register a distribution."""
        distribution = Distribution()
        self._register(name, distribution)
        return distribution

    def withdraw(self) -> None:
        """Stop publishing the metrics of this group and of the groups below it."""
        for name in self._registered:
            del self._registry[name]
        self._registered.clear()

    def get_scope_components(self) -> list[str]:
        """Return the components of the scope."""
        return [*self._scope, *self._names]

    def get_metric_identifier(self, metric_name: str) -> str:
        """Return the full name of a metric of this group."""
        return ".".join((*self._scope, *self._names, metric_name))

    def _register(self, name: str, metric: object) -> None:
        full_name = ".".join((*self._names, name))
        if full_name in self._registry:
            # Flink's rule: the first metric of a name is reported.
            logger.warning(
                "%s has a metric %r already: another of that name is not reported",
                self._scope[0],
                full_name,
            )
            return
        self._registry[full_name] = metric
        self._registered.add(full_name)
