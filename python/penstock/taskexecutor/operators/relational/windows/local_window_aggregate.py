"""The local aggregate of windows: rows are combined by key and slice before the exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.formats.numpy_values import numpy_values
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import RelationalOperator
from penstock.taskexecutor.operators.relational.watermarks import milliseconds
from penstock.taskexecutor.operators.relational.windows.slice_partials import SlicePartials
from penstock.taskexecutor.operators.relational.windows.slices import Slices
from penstock.taskexecutor.operators.relational.windows.windows import LocalTime

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.nodes import Window
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: The number of rows that wait at most.
_MOST_ROWS: Final = 1 << 16

#: After this many rows the combine is switched off if too many remain.
_TRIED_ROWS: Final = 100_000

#: Groups per row above which combining does not pay.
_MOST_GROUPS: Final = 0.8


class LocalWindowAggregateOperator(RelationalOperator):
    """Emits partial aggregates of keys and slices, before their first window can end.

    It switches itself off, and then emits the rows one by one in the same form, if there were more
    than 0.8 groups per row after 100,000 rows.

    Attributes:
        rows_combined: The number of rows that were combined, for a metric.
        is_off: Whether it has switched itself off.
    """

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        keys: tuple[int, ...],
        calls: tuple[AggregateCall, ...],
        window: Window,
        time_index: int,
        is_attached: bool,
        session: Session,
        is_zoned: bool,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            keys: The positions of the columns that make a group, without those of the window.
            calls: The aggregates, over columns; their partial results merge.
            window: The windows.
            time_index: The position of the time, or of window_end.
            is_attached: Whether the rows have their windows, each row once for each of them.
            session: Settings that results depend on.
            is_zoned: Whether windows are of local time.
        """
        super().__init__(context)
        self.partials = SlicePartials(input, keys, calls)
        self.slices = Slices(window, is_attached=is_attached)
        self.time_index = time_index
        self.is_attached = is_attached
        self.local = LocalTime(session, is_zoned=is_zoned)
        self.watermark = MIN_TIMESTAMP
        self.waiting: list[pa.RecordBatch] = []
        self.waiting_rows = 0
        #: The end of the first slice of the waiting rows.
        self.first_end = MAX_TIMESTAMP
        self.seen_rows = self.seen_groups = 0
        self.rows_combined = 0
        self.is_off = False
        context.metric_group().gauge("numRowsCombined", lambda: self.rows_combined)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        column = batch.column(self.time_index)
        if column.null_count:
            batch = batch.filter(column.is_valid())
            column = batch.column(self.time_index)
            if not batch.num_rows:
                return
        times = numpy_values(milliseconds(column))
        ends = self.slices.ends(times if self.is_attached else self.local.local(times))
        found = self.partials.of_rows(batch, ends)
        if self.is_off:
            self.emit(found)
            return
        self.waiting.append(found)
        self.waiting_rows += found.num_rows
        self.first_end = min(self.first_end, int(self.local.utc_ends(ends).min()))
        if self.first_end - 1 <= self.watermark or self.waiting_rows >= _MOST_ROWS:
            self.flush()

    def flush(self) -> None:
        """Emit the waiting rows."""
        if not self.waiting:
            return
        found = self.partials.merged(self.waiting)
        self.rows_combined += self.waiting_rows
        self._note(self.waiting_rows, found.num_rows)
        self.waiting, self.waiting_rows, self.first_end = [], 0, MAX_TIMESTAMP
        self.emit(found)

    def _note(self, rows: int, groups: int) -> None:
        self.seen_rows += rows
        self.seen_groups += groups
        if self.seen_rows >= _TRIED_ROWS:
            self.is_off = self.seen_groups > _MOST_GROUPS * self.seen_rows
            self.seen_rows = self.seen_groups = 0

    def process_watermark(self, timestamp: int) -> None:
        """Emit the waiting rows if a window of them may end."""
        self.watermark = timestamp
        if self.first_end - 1 <= timestamp:
            self.flush()
        self.output.emit_watermark(timestamp)

    def process_status(self, idle: bool) -> None:
        """Emit the waiting rows before windows can end without watermarks of this input."""
        if idle:
            self.flush()
        self.output.emit_status(idle)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Emit the waiting rows before the barrier."""
        self.flush()

    def finish(self) -> None:
        """Emit the waiting rows."""
        self.flush()
