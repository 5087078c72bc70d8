"""Session windows: rows wait until their session ends."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.table.plan.nodes import INSERT
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import rows_of
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.timestamps import TimeValues
from penstock.taskexecutor.operators.relational.watermarks import milliseconds
from penstock.taskexecutor.operators.relational.windows import LocalTime

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.nodes import Window
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.task.operator_context import OperatorContext


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
        #: By key: sessions as start, end and rows.
        self.sessions = context.keyed_state.table("sessions", "value").map(None)
        self.ends: list[tuple[int, str]] = []
        self.watermark = MIN_TIMESTAMP
        self.late_rows = 0
        context.metric_group().gauge("numLateRecordsDropped", lambda: self.late_rows)

    def open(self) -> None:
        """Note the sessions that are open."""
        self.ends = [(end, text) for text, found in self.sessions.items() for _, end, _ in found]
        heapq.heapify(self.ends)

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
            self._add(text, time, row)

    def _add(self, text: str, time: int, row: tuple[Any, ...]) -> None:
        start, end, rows = time, time + self.gap, [row]
        kept = []
        for found in self.sessions.get(text) or ():
            # Adjacent sessions are merged, as in Flink.
            if found[0] <= end and start <= found[1]:
                start, end = min(start, found[0]), max(end, found[1])
                rows = [*found[2], *rows]
            else:
                kept.append(found)
        if end - 1 <= self.watermark:
            self.late_rows += 1
            return
        self.sessions.put(text, [*kept, [start, end, rows]])
        heapq.heappush(self.ends, (end, text))

    def process_watermark(self, timestamp: int) -> None:
        """Emit the sessions that have ended."""
        self.watermark = timestamp
        self.emit_until(timestamp)
        self.output.emit_watermark(timestamp)

    def emit_until(self, timestamp: int) -> None:
        """Emit the sessions whose last ms has passed."""
        while self.ends and self.ends[0][0] - 1 <= timestamp:
            end, text = heapq.heappop(self.ends)
            found = self.sessions.get(text) or []
            ended = [session for session in found if session[1] == end]
            if not ended:
                continue
            kept = [session for session in found if session[1] != end]
            if kept:
                self.sessions.put(text, kept)
            else:
                self.sessions.remove(text)
            for start, _, rows in ended:
                self._emit_session(start, end, rows)
        self.flush()

    def _emit_session(self, start: int, end: int, rows: list[tuple[Any, ...]]) -> None:
        first, last = self.local.local(np.array([start, end], np.int64)).tolist()
        window = self.values.window(first, last, end - 1)
        for row in rows:
            self.changes.add(INSERT, (*row, *window))
