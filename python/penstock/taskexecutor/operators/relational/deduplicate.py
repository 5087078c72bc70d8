"""One row of each key: the first or the last by time."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from penstock.table.plan.nodes import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import rows_of
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.watermarks import milliseconds

if TYPE_CHECKING:
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.task.operator_context import OperatorContext


class DeduplicateOperator(KeyedRelationalOperator):
    """Emits the last row of each key as it changes, or the first one once its time has passed."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        keys: tuple[int, ...],
        time_index: int,
        keep_last: bool,
        is_rowtime: bool,
        state_ttl_ms: int = 0,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns.
            output: The same.
            keys: Positions of the columns of the key.
            time_index: The position of the time attribute.
            keep_last: Whether the last row stays.
            is_rowtime: Whether it is by event time.
            state_ttl_ms: The time after which state that was not written expires; 0 for never.
        """
        super().__init__(context, input, output, has_kinds=False, is_updating=keep_last)
        self.keys = keys
        self.time_index = time_index
        self.keep_last = keep_last
        self.is_rowtime = is_rowtime
        #: By key: time and row; the row is None once it was emitted as the first.
        self.rows = keyed_rows(context, "rows", state_ttl_ms)
        self.emits_equal = state_ttl_ms > 0
        self.waiting: list[tuple[int, str]] = []

    def open(self) -> None:
        """Note the rows whose time has not passed."""
        if not self.keep_last:
            self.waiting = [
                (time, text) for text, (time, row) in self.rows.items() if row is not None
            ]
            heapq.heapify(self.waiting)

    def process_columns(self, batch: Any) -> None:
        """Process a batch."""
        texts = key_texts(batch, self.keys)
        if self.is_rowtime:
            times = milliseconds(batch.column(self.time_index)).to_pylist()
        else:
            times = [0] * batch.num_rows
        take = self._last if self.keep_last else self._first
        for text, time, row in zip(texts, times, rows_of(batch, self.width), strict=True):
            take(text, time, row)
        self.flush()

    def _last(self, text: str, time: int, row: tuple[Any, ...]) -> None:
        found = self.rows.get(text)
        if found is None:
            self.changes.add(INSERT, row)
        elif found[0] > time:
            return
        elif found[1] != row or self.emits_equal:
            self.changes.add(UPDATE_BEFORE, found[1])
            self.changes.add(UPDATE_AFTER, row)
        self.rows.put(text, (time, row))

    def _first(self, text: str, time: int, row: tuple[Any, ...]) -> None:
        found = self.rows.get(text)
        if not self.is_rowtime:
            if found is None:
                self.rows.put(text, (time, None))
                self.changes.add(INSERT, row)
            return
        if found is not None and (found[1] is None or found[0] <= time):
            return
        self.rows.put(text, (time, row))
        heapq.heappush(self.waiting, (time, text))

    def process_watermark(self, timestamp: int) -> None:
        """Emit the first rows whose time has passed."""
        while self.waiting and self.waiting[0][0] <= timestamp:
            time, text = heapq.heappop(self.waiting)
            found = self.rows.get(text)
            if found is not None and found[1] is not None and found[0] == time:
                self.changes.add(INSERT, found[1])
                self.rows.put(text, (time, None))
        self.flush()
        self.output.emit_watermark(timestamp)
