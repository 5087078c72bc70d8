"""Aggregates of the rows around each row."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from penstock.columns.record_batches import rows_of
from penstock.table.functions.row_equality import equal_to
from penstock.table.plan.nodes import ADDED, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import kinds_of
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.frames import Frames
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.ordering import sort_key
from penstock.taskexecutor.operators.relational.waiting_rows import WaitingRows
from penstock.taskexecutor.operators.relational.watermarks import milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.table.plan.expressions import AggregateCall, Frame, OrderItem
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_Row = tuple[Any, ...]
_MILLISECOND = datetime.timedelta(milliseconds=1)


class OverOperator(KeyedRelationalOperator):
    """Emits the rows of each partition in the order of their times, with their aggregates.

    Rows of event time wait for the watermark.  Earlier rows stay in state while a frame may still
    cover them.
    """

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        partition: tuple[int, ...],
        order: Sequence[OrderItem],
        frame: Frame,
        calls: Sequence[AggregateCall],
        has_kinds: bool,
        state_ttl_ms: int = 0,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The same, and the results.
            partition: Positions of the partitioning columns.
            order: The order; its expressions are columns.
            frame: The rows that an aggregate covers.
            calls: The functions, over columns.
            has_kinds: Whether batches of the input have row kinds.
            state_ttl_ms: The time after which state that was not written expires; 0 for never.
        """
        super().__init__(context, input, output, has_kinds=has_kinds, is_updating=False)
        self.partition = partition
        self.frame = frame
        self.frames = Frames(order, frame, calls)
        self.key = sort_key(order)
        self.time_index: int = order[0].expression.index  # type: ignore[attr-defined]
        self.is_rowtime = input.fields[self.time_index].is_rowtime
        #: By key: rows whose time has not passed; rows that frames still cover.
        self.waiting = WaitingRows(context.keyed_state.table("waiting", "value").map(None))
        self.history = keyed_rows(context, "history", state_ttl_ms)
        self.watermark = MIN_TIMESTAMP
        self.late_rows = 0
        self.kept_rows = _kept_rows(frame, calls)
        context.metric_group().gauge("numLateRecordsDropped", lambda: self.late_rows)

    def open(self) -> None:
        """Note the rows that wait."""
        self.waiting.open()

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        texts = key_texts(batch, self.partition)
        rows = rows_of(batch, self.width)
        if not self.is_rowtime:
            for text, row in zip(texts, rows, strict=True):
                self._emit_rows(text, [row])
            self.flush()
            return
        times = milliseconds(batch.column(self.time_index)).to_pylist()
        for text, time, row in zip(texts, times, rows, strict=True):
            if time <= self.watermark and self._is_late(text, row):
                self.late_rows += 1
                continue
            self.waiting.add(text, (time, row))

    def _is_late(self, text: str, row: _Row) -> bool:
        """Return whether a row behind the watermark is left out.

        As in Flink, a frame with a lower bound also takes it if it is newer than the partition's
        emitted rows.
        """
        if self.frame.preceding is None:
            return True
        emitted: list[_Row] = self.history.get(text) or []
        return bool(emitted and row[self.time_index] <= emitted[-1][self.time_index])

    def process_watermark(self, timestamp: int) -> None:
        """Emit the rows whose time has passed."""
        self.watermark = timestamp
        for text, due in self.waiting.passed(timestamp):
            due.sort(key=lambda f: f[0])
            if due:
                self._emit_rows(text, sorted((row for _, row in due), key=self.key))
        self.flush()
        self.output.emit_watermark(timestamp)

    def _emit_rows(self, text: str, rows: list[_Row]) -> None:
        before: list[_Row] = self.history.get(text) or []
        everything = [*before, *rows]
        for row, result in zip(rows, self.frames.results(everything, len(before)), strict=True):
            self.changes.add(INSERT, row + result)
        self.history.put(text, self._kept(everything))

    def _kept(self, rows: list[_Row]) -> list[_Row]:
        if self.kept_rows is not None:
            return rows[-self.kept_rows :]
        if self.frame.is_rows or self.frame.preceding is None:
            return rows
        by = self.frame.preceding
        if not isinstance(by, datetime.timedelta):
            by = by * _MILLISECOND
        last = rows[-1][self.time_index]
        return [row for row in rows if last - row[self.time_index] <= by]


def _kept_rows(frame: Frame, calls: Sequence[AggregateCall]) -> int | None:
    """Return how many rows later frames may cover; None if that depends on their values."""
    if any(call.function in ("LAG", "LEAD", "ROW_NUMBER", "RANK") for call in calls):
        return None
    if frame.is_rows and frame.preceding is not None:
        # The last row tells which later ones are late.
        return max(int(frame.preceding), 1)
    return None


class SortedOverOperator(KeyedRelationalOperator):
    """Keeps the rows of each partition in order and emits their results again when they change.

    In batch mode it emits them once, when the input has ended.
    """

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        partition: tuple[int, ...],
        order: Sequence[OrderItem],
        frame: Frame,
        calls: Sequence[AggregateCall],
        has_kinds: bool,
        is_streaming: bool,
        state_ttl_ms: int = 0,
    ) -> None:
        """Create the operator; see `OverOperator`."""
        super().__init__(context, input, output, has_kinds=has_kinds, is_updating=is_streaming)
        self.partition = partition
        self.frames = Frames(order, frame, calls)
        self.key = sort_key(order)
        self.is_streaming = is_streaming
        #: By key: the rows in order, each with the result that was emitted.
        self.rows = keyed_rows(context, "rows", state_ttl_ms)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        kinds = kinds_of(batch)
        texts = key_texts(batch, self.partition)
        for position, (text, row) in enumerate(zip(texts, rows_of(batch, self.width), strict=True)):
            entries: list[Any] = self.rows.get(text) or []
            if not self.is_streaming:
                entries.append((row, None))
                self.rows.put(text, entries)
                continue
            is_added = kinds is None or kinds[position] in ADDED
            self._change(text, entries, row, is_added=is_added)
        self.flush()

    def _change(self, text: str, entries: list[Any], row: _Row, *, is_added: bool) -> None:
        if is_added:
            key = self.key(row)
            at = next(
                (i for i, entry in enumerate(entries) if key < self.key(entry[0])), len(entries)
            )
            entries.insert(at, (row, None))
        else:
            is_same = equal_to(row)
            at = next((i for i, entry in enumerate(entries) if is_same(entry[0])), -1)
            if at < 0:
                return
            _, result = entries.pop(at)
            self.changes.add(DELETE, row + result)
        made = self.frames.results([entry[0] for entry in entries])
        for position, ((found, old), new) in enumerate(zip(entries, made, strict=True)):
            if old is None:
                self.changes.add(INSERT, found + new)
            elif old != new:
                self.changes.add(UPDATE_BEFORE, found + old)
                self.changes.add(UPDATE_AFTER, found + new)
            entries[position] = (found, new)
        if entries:
            self.rows.put(text, entries)
        else:
            self.rows.remove(text)

    def emit_final(self) -> None:
        """Emit the rows in batch mode."""
        if self.is_streaming:
            return
        for entries in self.rows.values():
            rows = sorted((entry[0] for entry in entries), key=self.key)
            for row, result in zip(rows, self.frames.results(rows), strict=True):
                self.changes.add(INSERT, row + result)
        self.flush()
