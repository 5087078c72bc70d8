"""Latency markers: how long records take from the sources to each operator.

A marker passes all operators of a chain in one call, so it is recorded once, where it enters the
task, for each of them.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.common.options.pipeline import LATENCY_GRANULARITY
from penstock.metrics import metricbase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.taskexecutor.compiled import SourceOperator
    from penstock.taskexecutor.task.operator_context import TaskOperatorContext
    from penstock.taskexecutor.task.task_environment import TaskEnvironment
    from penstock.taskexecutor.time.processing_time import ProcessingTimeService

_WINDOW: Final = 128
_ID: Final = struct.Struct(">qq")


class LatencyHistogram(metricbase.Distribution):
    """Recent latencies, in ms.

    Attributes:
        count: Total number of latencies.
    """

    def __init__(self) -> None:
        """Create an empty histogram."""
        self.count = 0
        self._recent: deque[int] = deque(maxlen=_WINDOW)

    def update(self, value: int) -> None:
        """Record a latency in ms."""
        self.count += 1
        self._recent.append(value)

    def get_count(self) -> int:
        """Return the total count."""
        return self.count

    def recent_values(self) -> list[int]:
        """Return the recent latencies in order of arrival."""
        return list(self._recent)

    def quantile(self, share: float) -> float:
        """Return the latency that a share of the recent ones does not exceed; 0.0 without any.

        Args:
            share: Between 0 and 1; 0.99 for the 99th percentile.
        """
        ordered = sorted(self._recent)
        if not ordered:
            return 0.0
        return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])


class LatencyTracking:
    """The histograms of one task, published with its metrics."""

    def __init__(
        self, environment: TaskEnvironment, contexts: Sequence[TaskOperatorContext]
    ) -> None:
        """Create the histograms of a chain.

        Args:
            environment: The subtask.
            contexts: The contexts of its operators.

        Raises:
            ConfigurationError: The configured granularity is invalid.
        """
        self._registry = environment.metrics
        self._subtask = environment.subtask
        self._granularity = LATENCY_GRANULARITY.read(environment.configuration)
        self._operators = [context.config.id for context in contexts]

    @property
    def own_id(self) -> tuple[int, int]:
        """Lower and upper half of the head operator's id."""
        upper, lower = _ID.unpack(self._operators[0])
        return lower, upper

    def emit_markers(
        self, source: SourceOperator, timers: ProcessingTimeService, interval_ms: int
    ) -> None:
        """Let a source, the head of the chain, emit markers from now on.

        Args:
            source: The operator.
            timers: The task's timers.
            interval_ms: Time between two markers.
        """
        lower, upper = self.own_id

        def emit(_: int) -> None:
            now_ms = timers.now()
            self.record(now_ms, lower, upper, self._subtask, now_ms)
            source.output.emit_latency_marker(now_ms, lower, upper, self._subtask)
            timers.register(now_ms + interval_ms, emit)

        timers.register(timers.now(), emit)

    def record(self, marked_ms: int, lower: int, upper: int, subtask: int, now_ms: int) -> None:
        """Record the arrival of a marker.

        Args:
            marked_ms: Time at which it left its source.
            lower: The lower half of the source's OperatorID.
            upper: The upper half.
            subtask: The source's subtask.
            now_ms: Current time.
        """
        source = _ID.pack(upper, lower).hex()
        scope = {
            "single": "latency",
            "operator": f"latency.source_id.{source}",
            "subtask": f"latency.source_id.{source}.source_subtask_index.{subtask}",
        }[self._granularity]
        for operator in self._operators:
            name = (
                f"{scope}.operator_id.{operator.hex()}"
                f".operator_subtask_index.{self._subtask}.latency"
            )
            self._registry.setdefault(name, LatencyHistogram()).update(max(0, now_ms - marked_ms))
