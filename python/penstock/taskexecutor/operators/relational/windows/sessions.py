"""Session windows: rows wait until their session ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.columns.record_batches import rows_of
from penstock.table.plan.nodes import INSERT
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.watermarks import milliseconds
from penstock.taskexecutor.operators.relational.windows.open_sessions import OpenSessions
from penstock.taskexecutor.operators.relational.windows.timestamps import TimeValues
from penstock.taskexecutor.operators.relational.windows.windows import LocalTime

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.nodes import Window
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class SessionAssigner(KeyedRelationalOperator):
    """Emits the rows of a session with its start and end when it has ended."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        window: Window,
        time_index: int,
        session: Session,
        partition: tuple[int, ...],
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The same and the three of the window.
            window: The windows, whose size is the gap.
            time_index: The position of the time attribute.
            session: Settings that results depend on.
            partition: Positions of the columns by which sessions are partitioned.
        """
        super().__init__(context, input, output, has_kinds=False, is_updating=False)
        self.gap = window.size_ms
        self.time_index = time_index
        self.partition = partition
        self.values = TimeValues(output)
        self.local = LocalTime(session, is_zoned=self.values.is_zoned)
        #: Their content is a list of rows.
        self.sessions = OpenSessions(context, lambda old, new: ([*old[0], *new[0]],))
        self.late_rows = 0
        context.metric_group().gauge("numLateRecordsDropped", lambda: self.late_rows)

    def open(self) -> None:
        """Note the sessions that are open."""
        self.sessions.restore()

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        column = batch.column(self.time_index)
        if column.null_count:
            batch = batch.filter(column.is_valid())
            column = batch.column(self.time_index)
        self.add_rows(batch, milliseconds(column).to_pylist())

    def add_rows(self, batch: pa.RecordBatch, times: list[int]) -> None:
        """Add rows with their times in ms to sessions."""
        texts = key_texts(batch, self.partition)
        for text, time, row in zip(texts, times, rows_of(batch, self.width), strict=True):
            if not self.sessions.add(text, time, time + self.gap, ([row],)):
                self.late_rows += 1

    def process_watermark(self, timestamp: int) -> None:
        """Emit the sessions that have ended."""
        self.sessions.watermark = timestamp
        self.emit_until(timestamp)
        self.output.emit_watermark(timestamp)

    def emit_until(self, timestamp: int) -> None:
        """Emit the sessions whose last ms has passed."""
        for start, end, rows in self.sessions.ended(timestamp):
            self._emit_session(start, end, rows)
        self.flush()

    def _emit_session(self, start: int, end: int, rows: list[tuple[Any, ...]]) -> None:
        first, last = self.local.local(np.array([start, end], np.int64)).tolist()
        window = self.values.window(first, last, end - 1)
        for row in rows:
            self.changes.add(INSERT, (*row, *window))
