"""The global aggregate of windows: merges partial aggregates of slices when a window ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.columns.groups import spread
from penstock.columns.record_batches import selected_rows, values_of
from penstock.formats.numpy_values import numpy_values
from penstock.taskexecutor.compiled import MAX_TIMESTAMP
from penstock.taskexecutor.operators.relational.batches import arrow_schema
from penstock.taskexecutor.operators.relational.key_texts import texts_of
from penstock.taskexecutor.operators.relational.windows.slice_partials import SlicePartials
from penstock.taskexecutor.operators.relational.windows.slices import Slices
from penstock.taskexecutor.operators.relational.windows.windows import WindowAggregateOperator

if TYPE_CHECKING:
    from penstock.columns.array_types import Integers
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.nodes import Window
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: The fewest partial aggregates that are merged before a window ends.
_FEWEST_MERGED: Final = 1 << 16


class SlicedWindowAggregateOperator(WindowAggregateOperator):
    """Keeps partial aggregates as columns, and merges them at the end of a window and at barriers.

    At a barrier they go to the state of `WindowAggregateOperator`, by key and window.

    Attributes:
        rows_in_columns: The number of partial aggregates that were merged, for a metric.
    """

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        keys: tuple[int, ...],
        partition: tuple[int, ...],
        calls: tuple[AggregateCall, ...],
        bounds: tuple[int, int, int],
        window: Window,
        is_attached: bool,
        session: Session,
        is_zoned: bool,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the rows.
            output: The columns of the output.
            keys: Positions of the columns that make a group, those of the window among them.
            partition: The same without those of the window: the columns of the exchange.
            calls: The aggregates, over columns; their partial results merge.
            bounds: The positions of window_start, window_end and window_time, -1 without it.
            window: The windows.
            is_attached: Whether the rows have their windows, each row once for each of them.
            session: Settings that results depend on.
            is_zoned: Whether windows are of local time.
        """
        super().__init__(
            context, input, output, keys, partition, calls, bounds[1], has_kinds=False,
            session=session, is_zoned=is_zoned, is_one_phase=True,
        )  # fmt: skip
        self.merging = SlicePartials(input, partition, calls)
        self.input_schema = self.merging.schema
        self.input_schemas = (self.input_schema,)
        self.output_schema = arrow_schema(output, has_kinds=False)
        self.bounds = bounds
        self.slices = Slices(window, is_attached=is_attached)
        #: Partial aggregates in the order of arrival; the first batch may be a merged one.
        self.waiting: list[pa.RecordBatch] = []
        self.waiting_rows = 0
        self.most_rows = _FEWEST_MERGED
        #: The end in UTC of the first open window of the waiting partial aggregates.
        self.first_end = MAX_TIMESTAMP
        self.rows_in_columns = 0
        context.metric_group().gauge("numRowsAggregatedInColumns", lambda: self.rows_in_columns)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch of partial aggregates."""
        slices, codes = _distinct(batch.column(self.merging.width))
        positions, ends = self.slices.windows(slices)
        utc = self.local.utc_ends(ends)
        late = utc - 1 <= self.watermark
        if late.any() or len(positions) < len(slices):
            rows = np.bincount(codes, self.merging.rows(batch), len(slices))
            self.late_rows += int(rows[positions[late]].sum())
            has_open = np.zeros(len(slices), bool)
            has_open[positions[~late]] = True
            batch = batch.filter(pa.array(has_open[codes]))
            utc = utc[~late]
            if not batch.num_rows:
                return
        self.rows_in_columns += batch.num_rows
        self.first_end = min(self.first_end, int(utc.min()))
        self.waiting.append(batch)
        self.waiting_rows += batch.num_rows
        if self.waiting_rows > self.most_rows:
            self._merge()

    def _merge(self) -> pa.RecordBatch:
        """Merge the waiting partial aggregates to one batch."""
        merged = self.merging.merged(self.waiting)
        self.waiting, self.waiting_rows = [merged], merged.num_rows
        self.most_rows = max(_FEWEST_MERGED, 2 * merged.num_rows)
        return merged

    def emit_until(self, timestamp: int) -> None:
        """Emit the windows whose last ms has passed."""
        stored = sorted(end for end, utc in self.ends.items() if utc - 1 <= timestamp)
        batches = [self._taken(end) for end in stored]
        if self.first_end - 1 <= timestamp:
            batches.append(self._ended(timestamp))
        if not batches:
            return
        # A slice of one window was merged with the others.
        if stored or not self.slices.have_one_window:
            batches = [self.merging.merged(batches)]
        (found,) = batches
        if stored:
            order = np.argsort(self.merging.slices(found), kind="stable")
            found = found.take(pa.array(order))
        self.emit(self._results(found))

    def process_watermark(self, timestamp: int) -> None:
        """Emit the windows that have ended."""
        self.emit_until(timestamp)
        self.watermark = timestamp
        self.output.emit_watermark(timestamp)

    def _ended(self, timestamp: int) -> pa.RecordBatch:
        """Return partial aggregates of windows that have ended, in the order of their ends.

        Slices without a later window are dropped.
        """
        batch = self._merge()
        slices, codes = _distinct(batch.column(self.merging.width))
        positions, ends = self.slices.windows(slices)
        utc = self.local.utc_ends(ends)
        is_open = utc - 1 > timestamp
        self.first_end = int(utc[is_open].min()) if is_open.any() else MAX_TIMESTAMP
        has_open = np.zeros(len(slices), bool)
        has_open[positions[is_open]] = True
        has_ended = ~is_open & (utc - 1 > self.watermark)
        open_ends = ends[is_open]
        positions, ends = positions[has_ended], ends[has_ended]
        order = np.argsort(ends, kind="stable")
        rows, ends = _rows_of(codes, positions[order], ends[order])
        kept = batch.filter(pa.array(has_open[codes]))
        if kept.num_rows and open_ends.min() > ends[-1]:
            merged = self.slices.merged(self.merging.slices(kept), ends[-1:])
            kept = self.merging.with_slices(kept, merged)
        self.waiting = [kept] if kept.num_rows else []
        self.waiting_rows = kept.num_rows
        return self.merging.with_slices(batch.take(pa.array(rows)), ends)

    def _taken(self, end: int) -> pa.RecordBatch:
        """Remove the groups of a window from the state and return them as partial aggregates."""
        found = self.table.map(end)
        places = [self.keys.index(position) for position in self.partition]
        groups = [([key[i] for i in places], rows, values) for key, rows, values in found.values()]
        found.clear()
        self.table.drop_if_empty(end)
        del self.ends[end]
        return self.merging.of_groups(groups, [end] * len(groups))

    def _results(self, found: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of windows, whose ends are the slices of partial aggregates."""
        arrays = [*self._key_columns(found), *self.merging.results(found)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.output_schema)

    def _key_columns(self, found: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of `keys`."""
        ends = self.merging.slices(found)
        bounds = (self.slices.starts(ends), ends, ends - 1)
        arrays: list[Any] = []
        for key, kind in zip(self.keys, self.output_schema.types, strict=False):
            if key in self.bounds:
                times = bounds[self.bounds.index(key)]
                if kind.tz is not None:
                    times = self.local.utc(times)
                column = pa.array(times, pa.int64())
            else:
                column = found.column(self.partition.index(key))
            arrays.append(column if column.type == kind else column.cast(kind))
        return arrays

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Merge the waiting partial aggregates into the state."""
        if not self.waiting:
            return
        batch = self._merge()
        slices, codes = _distinct(batch.column(self.merging.width))
        positions, ends = self.slices.windows(slices)
        is_open = self.local.utc_ends(ends) - 1 > self.watermark
        rows, ends = _rows_of(codes, positions[is_open], ends[is_open])
        found = batch.take(pa.array(rows))
        if not self.slices.have_one_window:
            found = self.merging.merged([self.merging.with_slices(found, ends)])
            ends = self.merging.slices(found)
        keys = zip(*map(values_of, self._key_columns(found)), strict=True)
        texts = texts_of(selected_rows(found, range(self.merging.width)))
        numbers = self.merging.rows(found).tolist()
        values = self.merging.accumulators(found)
        self.store(zip(keys, texts, ends.tolist(), numbers, values, strict=True))
        self.waiting, self.waiting_rows, self.first_end = [], 0, MAX_TIMESTAMP


def _distinct(column: pa.Array) -> tuple[Integers, Integers]:
    """Return the distinct values of a column of integers, and the number of each row's value."""
    found = column.dictionary_encode()
    return numpy_values(found.dictionary), numpy_values(found.indices)


def _rows_of(codes: Integers, wanted: Integers, values: Integers) -> tuple[Integers, Integers]:
    """Return the rows of some codes, one code after another, with a value for each code."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    counts = sizes[wanted]
    return order[spread(starts[wanted], counts)], np.repeat(values, counts)
