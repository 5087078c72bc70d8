"""Named aggregates of tumbling and sliding windows, over batches of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.aggregates.combination import combination_of
from penstock.aggregates.windows import why_not_in_columns
from penstock.columns.aggregate_results import ResultBatches
from penstock.columns.combining import combined_batches
from penstock.columns.gathering import GatheredBatches
from penstock.columns.grouped_folds import GroupedFolds
from penstock.columns.groups import Groups, numbered
from penstock.columns.keyed_columns import Keyed, keyed_columns
from penstock.columns.panes import (
    FIRST_TIME,
    LAST_TIME,
    sliding_windows,
    times_of,
    tumbling_starts,
)
from penstock.datastream.window.assigners import event_timestamp
from penstock.expressions.functions import bound_function
from penstock.network import key_of
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.windowing.timerless import TimerlessWindowOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.aggregates.named import NamedAggregates
    from penstock.aggregates.windows import WindowRows
    from penstock.columns.array_types import Booleans
    from penstock.columns.column_batch import ColumnBatch
    from penstock.datastream.window.windows import TimeWindow
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: Fewer rows of a window are emitted one by one.
_FEWEST_ROWS: Final = 8


def create_column_windows(
    context: OperatorContext, descriptor: operators.Window
) -> ColumnWindowOperator | None:
    """Return the operator of named aggregates over columns; None if records are needed."""
    reason = why_not_in_columns(descriptor, is_batch=context.is_batch)
    if reason is not None or not context.evaluation.has_columns:
        return None
    return ColumnWindowOperator(context, descriptor)


class ColumnWindowOperator(TimerlessWindowOperator):
    """Groups each batch by key and window, and accesses the state of each group once per batch.

    Its records, state and results are those of `TimerlessWindowOperator`.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.Window) -> None:
        """Create the operator."""
        super().__init__(context, descriptor)
        aggregates: NamedAggregates = descriptor.function
        self.aggregates = aggregates
        self.window_rows: WindowRows = descriptor.window_function
        key_type: Any = context.config.key_type
        self.columns = keyed_columns(
            context.evaluation,
            bound_function(context.config.key_selectors[0], "get_key"),
            key_type,
            aggregates.arguments,
            self.window_rows.key_fields,
            context.config.input_types[:1],
        )
        self.takes_batches = self.columns is not None
        self.combined = combined_batches(context.evaluation, combination_of(descriptor))
        self.gathered = GatheredBatches()
        self.folds = GroupedFolds(aggregates.calls, aggregates.folds)
        self.result_batches = ResultBatches(self.window_rows.result_type)

    def process_batch(self, batch: ColumnBatch) -> None:
        """Process the records of a batch, which may wait for others until a window can end."""
        if self.columns is None and self.combined is None:
            super().process_batch(batch)
            return
        joined = self.gathered.add(batch)
        if joined is not None:
            self._process_joined(joined)

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        if self.gathered.rows:
            self.flush()
        super().process(value, timestamp)

    def flush(self) -> None:
        """Process the waiting batches."""
        joined = self.gathered.take()
        if joined is not None:
            self._process_joined(joined)

    def process_watermark(self, timestamp: int) -> None:
        """Advance the event time of the input."""
        self.flush()
        super().process_watermark(timestamp)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Process the waiting batches before the barrier."""
        self.flush()

    def finish(self) -> None:
        """Process the waiting batches."""
        self.flush()

    def _process_joined(self, batch: ColumnBatch) -> None:
        """Process a batch by columns, or as objects if it cannot be computed so."""
        times = self._times(batch)
        if self.combined is not None:
            keyed = self.combined.keyed(batch)
            if keyed is not None:
                self._process_columns(batch, keyed, times, self.combined.folds)
                return
        keyed = None if times is None or self.columns is None else self.columns.of(batch)
        if keyed is None:
            super().process_batch(batch)
        else:
            self._process_columns(batch, keyed, times, self.folds)

    def _times(self, batch: ColumnBatch) -> Any:
        """Return the timestamps as a numpy array; None if windows may exceed 64 bits.

        Raises:
            MissingTimestampError: A record has no timestamp.
        """
        times = times_of(batch)
        if not len(times):
            return None
        first, last = int(times.min()), int(times.max())
        if first == MIN_TIMESTAMP:
            event_timestamp(first)
        if first < FIRST_TIME or last > LAST_TIME or self.size > LAST_TIME:
            return None
        return times

    def _process_columns(
        self, batch: ColumnBatch, keyed: Keyed, times: Any, folds: GroupedFolds
    ) -> None:
        import pyarrow as pa

        latest = tumbling_starts(times, self.slide, self.offset)
        is_late = latest + (self.size - 1) <= self.timers.current_watermark
        if is_late.any():
            self._take_late(batch, is_late)
        # Records by window: with sliding windows, a record is in several, some of which have ended.
        rows, starts = sliding_windows(times, self.size, self.slide, self.offset)
        is_open = starts + (self.size - 1) > self.timers.current_watermark
        if not is_open.all():
            rows, starts = rows[is_open], starts[is_open]
        if not len(rows):
            return
        by_key = numbered(keyed.keys)
        firsts = pa.array(by_key.firsts)
        values = self.window_rows.key_fields.keys(
            [column.take(firsts).to_pylist() for column in keyed.keys]
        )
        keys = list(map(self.keys.identity, values))
        codes = by_key.codes[rows]
        groups = numbered([pa.array(codes), pa.array(starts)])
        taken = pa.array(rows)
        arguments = keyed.arguments
        if len(rows) != len(times) or is_late.any():
            arguments = [column.take(taken) for column in arguments]
        self._fold(
            folds,
            groups,
            arguments,
            [keys[code] for code in codes[groups.firsts].tolist()],
            starts[groups.firsts].tolist(),
        )

    def _fold(
        self,
        folds: GroupedFolds,
        groups: Groups,
        arguments: list[Any],
        keys: list[object],
        starts: list[int],
    ) -> None:
        """Fold the records of groups into the windows of their keys.

        Args:
            folds: The aggregates, or those that merge combined records.
            groups: The records by key and window.
            arguments: The columns that aggregates take.
            keys: The identity of each group's key.
            starts: The start of each group's window.
        """
        opened: dict[int, Any] = {start: self.contents_of(start, start) for start in set(starts)}
        places = [opened[start] for start in starts]
        found = [contents.get(key) for key, contents in zip(keys, places, strict=True)]
        create = self.aggregates.create_accumulator
        kept = [create() if each is None else each for each in found]
        new = zip(*folds.totals(groups, arguments, folds.by_aggregate(kept)), strict=True)
        order = self.order
        for key, contents, start, old, each in zip(keys, places, starts, found, new, strict=True):
            contents.put(key, each)
            if old is None and order is not None:
                order.push(start, contents, key)

    def _take_late(self, batch: ColumnBatch, is_late: Booleans) -> None:
        import pyarrow as pa

        if self.late_tag is None:
            counts = is_late
            if self.combined is not None and self.combined.takes(batch):
                counts = self.combined.records(batch)[is_late]
            self.late_records_dropped.inc(int(counts.sum()))
            return
        late = batch.filter(pa.array(is_late))
        for value, timestamp in late.records():
            self.take_late(value, timestamp)

    def _emission(self) -> Callable[..., None]:
        emit_one_by_one = super()._emission()
        output, fields = self.output, self.window_rows.key_fields

        def emit(entries: Iterable[Any], window: TimeWindow, timestamp: int) -> None:
            found = [entry for entry in entries if entry[1] is not None]
            if self.columns is None or len(found) < _FEWEST_ROWS:
                emit_one_by_one(found, window, timestamp)
                return
            keys: Any = [[key_of(key) for key, _ in found]]
            if fields.is_tuple:
                keys = zip(*keys[0], strict=True)
            bounds = [[bound] * len(found) for bound in (window.start, window.end)]
            results = self.folds.results(self.folds.by_aggregate([kept for _, kept in found]))
            batch = self.result_batches.of([*map(list, keys), *bounds, *results], timestamp)
            if batch is None:
                emit_one_by_one(found, window, timestamp)
                return
            self.timers.num_fired += len(found)
            output.collect_batch(batch)

        return emit
