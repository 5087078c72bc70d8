"""Emission of watermarks computed from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.numpy_values import numpy_values
from penstock.table.functions.evaluation import Evaluator
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import RelationalOperator
from penstock.taskexecutor.time.quiet_time import QuietTime

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.columns.array_types import Integers
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: Units of timestamps in a millisecond.
_PER_MS: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}


class WatermarkAssigner(RelationalOperator):
    """Emits watermarks of rows, as if after each row.

    A batch is split before each row that is late for the watermark of the rows before it.
    For all other rows, a watermark after them makes no difference, unless a query reads it: then
    it is also emitted when it has advanced by more than the interval of watermarks, as in Flink.
    """

    def __init__(
        self,
        context: OperatorContext,
        index: int,
        watermark: Expression,
        session: Session,
        grain_ms: int | None = None,
        idle_timeout_ms: int = 0,
        splits_equal_times: bool = True,
        reads_watermarks: bool = False,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            index: The position of the event-time column.
            watermark: The watermark of a row.
            session: Settings that results depend on.
            grain_ms: The distance of the times at which late rows matter, such as the ends of
                windows; 0 if they never do, None if every time counts.
            idle_timeout_ms: The time without rows after which the output is idle; 0 for never.
            splits_equal_times: Whether a watermark may reach the time of its row, so that other
                rows of this time are late; otherwise it stays 1 ms behind, as Flink's generators
                do.
            reads_watermarks: Whether a query reads the watermark.
        """
        super().__init__(context)
        self.index = index
        self.watermark = watermark
        self.evaluator = Evaluator([watermark], session)
        self.current = MIN_TIMESTAMP
        self.is_batch = context.is_batch
        self.grain_ms = grain_ms
        self.idle_timeout_ms = 0 if context.is_batch else idle_timeout_ms
        self.interval_ms = context.execution_config.get_auto_watermark_interval()
        self.processing_time = context.processing_time
        self.quiet_time = QuietTime(context.input_clock)
        self.quiet_s = 0.0
        self.is_idle = False
        self.splits_equal_times = splits_equal_times
        self.reads_watermarks = reads_watermarks
        #: The greatest time of a row.
        self.latest = MIN_TIMESTAMP
        self.splits = 0
        context.metric_group().gauge("numSplitsForLateRows", lambda: self.splits)

    def open(self) -> None:
        """Begin to look for idleness."""
        if self.idle_timeout_ms:
            self._schedule()

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        self.quiet_time.passed_s()
        self._set_idle(False)
        column = batch.column(self.index)
        if column.null_count:
            raise ValueError(
                f"RowTime field should not be null, please convert it to a non-null long value: "
                f"column '{batch.schema.names[self.index]}'"
            )
        times = _numbers(column)
        found = self.evaluator.column(self.watermark, batch)
        marks = times if found is column else _numbers(found)
        if not self.splits_equal_times:
            latest = _running_maximum(times, self.latest)
            marks = np.minimum(marks, latest - 1)
            self.latest = int(latest[-1])
        if self.grain_ms == 0:
            self.emit(batch)
            self._advance(int(marks.max()))
            return
        # The watermarks after each row and before it.
        behind = _running_maximum(marks, self.current)
        before = np.concatenate(([self.current], behind[:-1]))
        start = 0
        for row in self._ends(times, before):
            if before[row] > self.current:
                self.splits += 1
                self.emit(batch.slice(start, row - start))
                start = row
                self._advance(int(before[row]))
        self.emit(batch.slice(start))
        self._advance(int(behind[-1]))

    def _ends(self, times: Integers, watermarks: Integers) -> Iterable[int]:
        """Yield the positions of rows for which the preceding watermark matters."""
        late = self._late(times, watermarks)
        if not self.reads_watermarks:
            yield from late
            return
        advanced = np.flatnonzero(watermarks[1:] > watermarks[:-1]) + 1
        are_late = set(late)
        for row in sorted({*late, *advanced.tolist()}):
            if row in are_late or int(watermarks[row]) - self.current > self.interval_ms:
                yield row

    def _late(self, times: Integers, watermarks: Integers) -> list[int]:
        """Return the positions of late rows."""
        late = np.flatnonzero(times <= watermarks)
        if self.grain_ms is not None:
            ends = (watermarks[late] + 1) // self.grain_ms
            late = late[times[late] // self.grain_ms < ends]
        found: list[int] = late.tolist()
        return found

    def process_status(self, idle: bool) -> None:
        """Process a change of the input's idleness."""
        self._set_idle(idle)

    def _set_idle(self, idle: bool) -> None:
        self.quiet_s = 0.0
        if idle != self.is_idle:
            self.is_idle = idle
            self.output.emit_status(idle)

    def _schedule(self) -> None:
        distance_ms = min(self.interval_ms or self.idle_timeout_ms, self.idle_timeout_ms)
        self.processing_time.register(self.processing_time.now() + distance_ms, self._on_interval)

    def _on_interval(self, timestamp: int) -> None:
        del timestamp
        self.quiet_s += self.quiet_time.passed_s()
        if self.quiet_s * 1000 >= self.idle_timeout_ms:
            self._set_idle(True)
        self._schedule()

    def _advance(self, mark: int) -> None:
        if mark > self.current:
            self.current = mark
            if not self.is_batch:
                self.output.emit_watermark(mark)

    def process_watermark(self, timestamp: int) -> None:
        """Ignore watermarks of the input, except the last one."""
        if timestamp == MAX_TIMESTAMP:
            self.output.emit_watermark(timestamp)


def milliseconds(column: pa.Array) -> pa.Array:
    """Return timestamps as integers of ms since 1970."""
    zone = column.type.tz
    return (
        pc.floor_temporal(column, unit="millisecond")
        .cast(pa.timestamp("ms", zone), safe=False)
        .cast(pa.int64())
        if column.type.unit != "ms"
        else column.cast(pa.int64())
    )


def _numbers(column: pa.Array) -> Integers:
    """Return timestamps as a NumPy array of ms since 1970; `MIN_TIMESTAMP` represents NULL."""
    if column.null_count or column.type.unit not in _PER_MS:
        return numpy_values(milliseconds(column).fill_null(pa.scalar(MIN_TIMESTAMP, pa.int64())))
    values, per_ms = numpy_values(column), _PER_MS[column.type.unit]
    return values if per_ms == 1 else values // per_ms


def _running_maximum(values: Integers, least: int) -> Integers:
    """Return the maximum of each value, those before it, and ``least``."""
    if not (values[1:] >= values[:-1]).all():
        values = np.maximum.accumulate(values)
    return values if values[0] >= least else np.maximum(values, least)
