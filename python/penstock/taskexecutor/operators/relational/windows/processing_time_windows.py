"""Windows of processing time: rows have the time at which they arrive, and timers end windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.windows.sessions import SessionAssigner
from penstock.taskexecutor.operators.relational.windows.windows import (
    WindowAggregateOperator,
    WindowAssigner,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class _Timers:
    """Timers at the ends of windows, one for each time."""

    def __init__(self, context: OperatorContext, fire: Callable[[int], object]) -> None:
        """Create the timers; ``fire(time_ms)`` is called when a timer fires."""
        self._time = context.processing_time
        self._fire = fire
        self._registered: set[int] = set()

    def now(self) -> int:
        """Return the processing time in ms."""
        return self._time.now()

    def register(self, times: Iterable[int]) -> None:
        """Register a timer for each time that has none."""
        for time in times:
            if time not in self._registered:
                self._registered.add(time)
                self._time.register(time, self._on_time)

    def _on_time(self, time: int) -> None:
        self._registered.discard(time)
        self._fire(time)


class ProcessingTimeWindowAssigner(WindowAssigner):
    """Emits each row once for each of the windows of the current time."""

    def __init__(self, context: OperatorContext, **settings: Any) -> None:
        """Create the operator; see `WindowAssigner`."""
        super().__init__(context, **settings)
        self._time = context.processing_time

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch, whose rows all have the current time."""
        self.assign(batch, np.full(batch.num_rows, self._time.now(), np.int64))


class ProcessingTimeSessionAssigner(SessionAssigner):
    """Emits the rows of a session when no row arrived for the length of the gap."""

    def __init__(self, context: OperatorContext, **settings: Any) -> None:
        """Create the operator; see `SessionAssigner`."""
        super().__init__(context, **settings)
        self._timers = _Timers(context, self._on_time)

    def open(self) -> None:
        """Register timers for the sessions that are open."""
        super().open()
        self._timers.register(end for end, _ in self.sessions.ends)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch, whose rows all have the current time."""
        self.add_rows(batch, [self._timers.now()] * batch.num_rows)
        self._timers.register(end for end, _ in self.sessions.ends)

    def process_watermark(self, timestamp: int) -> None:
        """Ignore watermarks: timers end sessions."""
        self.output.emit_watermark(timestamp)

    def _on_time(self, time: int) -> None:
        self.emit_until(max(time, self._timers.now()) - 1)
        self._timers.register(end for end, _ in self.sessions.ends)


class ProcessingTimeWindowAggregateOperator(WindowAggregateOperator):
    """Aggregates windows, which timers end.

    A row that arrives after its window was emitted moves to a later window, as if its window were
    assigned on arrival.
    """

    def __init__(
        self,
        context: OperatorContext,
        *,
        start_index: int,
        time_index: int,
        size_ms: int,
        **settings: Any,
    ) -> None:
        """Create the operator; see `WindowAggregateOperator`.

        Args:
            context: The operator's context.
            start_index: The position of window_start.
            time_index: The position of window_time, -1 without it.
            size_ms: The length by which the windows of late rows are moved; 0 for sessions, whose
                rows arrive after their end.
            **settings: Those of `WindowAggregateOperator`.
        """
        super().__init__(context, **settings)
        self.places = [i for i in (start_index, self.end_index, time_index) if i >= 0]
        self.size_ms = size_ms
        self._timers = _Timers(context, self._on_time)
        self.moved_rows = 0
        context.metric_group().gauge("numRowsInLaterWindows", lambda: self.moved_rows)

    def open(self) -> None:
        """Register timers for the windows that are open."""
        super().open()
        self._timers.register(self.ends.values())

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        if self.size_ms and self.watermark > MIN_TIMESTAMP:
            batch = self._moved(batch)
        self.add_rows(batch)
        self._timers.register(self.ends.values())

    def _moved(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows, late ones in later windows."""
        behind = self.watermark + 1 - self.utc_ends(batch)
        steps = np.where(behind >= 0, behind // self.size_ms + 1, 0)
        if not steps.any():
            return batch
        self.moved_rows += int((steps > 0).sum())
        by = pa.array(steps * self.size_ms, pa.duration("ms"))
        for place in self.places:
            column, field = batch.column(place), batch.schema.field(place)
            moved = pa.compute.add(column, by).cast(field.type)
            batch = batch.set_column(place, field, moved)
        return batch

    def process_watermark(self, timestamp: int) -> None:
        """Ignore watermarks: timers end windows."""
        self.output.emit_watermark(timestamp)

    def _on_time(self, time: int) -> None:
        self.watermark = max(self.watermark, time - 1)
        self.emit_until(time - 1)
