"""Rows in an order, and the first rows."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from penstock.columns.record_batches import rows_of
from penstock.table.plan.nodes import INSERT
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.ordering import sort_key
from penstock.taskexecutor.operators.relational.watermarks import milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.table.plan.expressions import OrderItem
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class SortOperator(KeyedRelationalOperator):
    """Emits all rows in order when the input has ended."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        order: Sequence[OrderItem],
        has_kinds: bool,
        offset: int,
        limit: int | None,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns.
            order: The order; empty for that of arrival.
            has_kinds: Whether batches of the input have row kinds.
            offset: The number of rows that are left out.
            limit: The number of rows that stay; None for all.
        """
        super().__init__(context, input, input, has_kinds=has_kinds, is_updating=False)
        self.key = sort_key(order) if order else None
        self.offset = offset
        self.limit = limit
        self.rows = context.keyed_state.table("rows", "list").map(None)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        kept = self.rows.get("") or []
        kept.extend(rows_of(batch, self.width))
        if self.key is None and self.limit is not None:
            kept = kept[: self.offset + self.limit]
        self.rows.put("", kept)

    def emit_final(self) -> None:
        """Emit the rows."""
        rows = self.rows.get("") or []
        if self.key is not None:
            rows = sorted(rows, key=self.key)
        last = None if self.limit is None else self.offset + self.limit
        for row in rows[self.offset : last]:
            self.changes.add(INSERT, row)
        self.flush()


class LimitOperator(KeyedRelationalOperator):
    """Emits the first rows that arrive."""

    def __init__(
        self, context: OperatorContext, input: Schema, offset: int, limit: int | None
    ) -> None:
        """Create the operator; see `SortOperator`."""
        super().__init__(context, input, input, has_kinds=False, is_updating=False)
        self.offset = offset
        self.limit = limit
        self.counts = context.keyed_state.table("count", "value").map(None)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        seen = self.counts.get("") or 0
        first = max(self.offset - seen, 0)
        last = batch.num_rows if self.limit is None else self.offset + self.limit - seen
        self.counts.put("", seen + batch.num_rows)
        if last > first:
            self.emit(batch.slice(first, last - first))


class TimeSortOperator(KeyedRelationalOperator):
    """Emits rows in the order of their times, and further columns, as time passes."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        order: Sequence[OrderItem],
        has_kinds: bool,
    ) -> None:
        """Create the operator; see `SortOperator`."""
        super().__init__(context, input, input, has_kinds=has_kinds, is_updating=False)
        self.key = sort_key(order)
        self.time_index: int = order[0].expression.index  # type: ignore[attr-defined]
        self.is_rowtime = input.fields[self.time_index].is_rowtime
        #: By time, as namespace: rows in the order of arrival.
        self.table = context.keyed_state.table("rows", "list")
        self.times: list[int] = []
        #: The time of the last rows that were emitted: earlier ones are late, as in Flink.
        self.last = context.keyed_state.table("last", "value").map(None)
        self.late_rows = 0
        context.metric_group().gauge("numLateRecordsDropped", lambda: self.late_rows)

    def open(self) -> None:
        """Note the times whose rows wait."""
        self.times = [
            found.namespace for found in self.table.namespaces() if found.namespace is not None
        ]
        heapq.heapify(self.times)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        if not self.is_rowtime:
            self.emit(batch)
            return
        times = milliseconds(batch.column(self.time_index)).to_pylist()
        last = self.last.get("")
        for time, row in zip(times, rows_of(batch, self.width), strict=True):
            if last is not None and time <= last:
                self.late_rows += 1
                continue
            rows = self.table.map(time).get("")
            if rows is None:
                rows = []
                heapq.heappush(self.times, time)
            rows.append(row)
            self.table.map(time).put("", rows)

    def process_watermark(self, timestamp: int) -> None:
        """Emit the rows whose time has passed."""
        while self.times and self.times[0] <= timestamp:
            time = heapq.heappop(self.times)
            rows = self.table.map(time).remove("") or []
            self.table.drop_if_empty(time)
            self.last.put("", time)
            for row in sorted(rows, key=self.key):
                self.changes.add(INSERT, row)
        self.flush()
        self.output.emit_watermark(timestamp)
