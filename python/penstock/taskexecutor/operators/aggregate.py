"""Named aggregates of keyed streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.aggregates.combination import combination_of
from penstock.aggregates.named import ResultRows
from penstock.columns.aggregate_results import ResultBatches, value_list
from penstock.columns.combining import combined_batches
from penstock.columns.gathering import GatheredBatches
from penstock.columns.group_kernels import NoKernelError
from penstock.columns.grouped_folds import GroupedFolds
from penstock.columns.groups import numbered
from penstock.columns.keyed_columns import Keyed, keyed_columns
from penstock.errors import InvalidProgramError
from penstock.expressions.functions import bound_function
from penstock.network import key_of
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, FunctionOperator
from penstock.taskexecutor.operators.batch_wait import BatchWait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.aggregates.named import NamedAggregates
    from penstock.columns.column_batch import ColumnBatch
    from penstock.columns.grouped_folds import Accumulators
    from penstock.columns.groups import Groups
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.column_groups import ColumnGroups

#: The keyed state: the tuple of a key's accumulators.
_STATE = "_aggregates"


def create_aggregate(
    context: OperatorContext, descriptor: operators.Aggregate
) -> KeyedAggregateOperator:
    """Return the operator of `KeyedStream.aggregate`."""
    return KeyedAggregateOperator(context, descriptor)


class KeyedAggregateOperator(FunctionOperator):
    """Keeps accumulators for each key, and emits rows of the key and the results.

    A batch of columns is grouped first, so that the state of a key is read and written once for all
    of its records.  If state is in memory and no accumulator is changed in place, `ColumnGroups`
    hold the accumulators from the first batch on, until a record arrives that is in no batch.
    Small batches wait a short time for others, never beyond a watermark or a barrier.  Records that
    come one by one are batches of one and do not wait.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.Aggregate) -> None:
        """Create the operator.

        Raises:
            InvalidProgramError: The input is not keyed.
        """
        aggregates: NamedAggregates = descriptor.function
        super().__init__(aggregates, aggregates)
        keys = context.key_reader()
        if keys is None:
            msg = f"{context.name!r} aggregates the records of a key, but its input is not keyed"
            raise InvalidProgramError(msg)
        self.aggregates = aggregates
        aggregates.evaluate_by(context.evaluation, context.config.input_types[:1])
        self.keys = keys
        self.key_fields = descriptor.key_fields
        self.is_running = descriptor.is_running
        self.is_final = context.is_batch
        self.rows = ResultRows(descriptor.result_type)
        table = context.keyed_state.table(_STATE, "value")
        self.kept = table.map(None)
        key_type: Any = context.config.key_type
        self.columns = keyed_columns(
            context.evaluation,
            bound_function(context.config.key_selectors[0], "get_key"),
            key_type,
            aggregates.arguments,
            descriptor.key_fields,
            context.config.input_types[:1],
        )
        self.takes_batches = self.columns is not None
        self.combined = combined_batches(context.evaluation, combination_of(descriptor))
        self.gathered = GatheredBatches()
        self.wait = BatchWait(context.processing_time, self.flush)
        self.folds = GroupedFolds(aggregates.calls, aggregates.folds)
        self.result_batches = ResultBatches(descriptor.result_type)
        #: The accumulators as columns; None if state has each.
        self.groups: ColumnGroups | None = None
        # A database may have more keys than fit into memory.
        is_in_memory = table.store is None
        if self.takes_batches and is_in_memory and aggregates.changed_in_place() is None:
            from penstock.taskexecutor.operators.column_groups import ColumnGroups

            self.groups = ColumnGroups(context, aggregates, descriptor.key_fields, keys, self.kept)

    def process(self, value: object, timestamp: int) -> None:
        """Process one record, which does not wait for others."""
        if self.gathered.rows:
            self.flush()
        self._process_one(value, timestamp)

    def _process_one(self, value: object, timestamp: int) -> None:
        done = False
        try:
            if self.groups is not None and len(self.groups):
                self.groups.clear()
            key = self.keys.read(value)
            position = self.kept.find(key)
            kept = self.kept.at(position) if position >= 0 else None
            if kept is None:
                kept = self.aggregates.create_accumulator()
            kept = self.aggregates.add(value, kept)
            self.kept.put_at(position, key, kept)
            if not self.is_final:
                self.output.collect(self._row(key, kept), timestamp)
            done = True
        finally:
            if not done:
                self.note_failure()

    def _row(self, key: object, kept: tuple[object, ...]) -> object:
        return self.rows.one(
            (*self.key_fields.values(key_of(key)), *self.aggregates.get_result(kept))
        )

    def process_batch(self, batch: ColumnBatch) -> None:
        """Process the records of a batch, which may wait for others."""
        if self.columns is None and self.combined is None:
            super().process_batch(batch)
            return
        joined = self.gathered.add(batch)
        if joined is not None:
            self._process_joined(joined)
        if self.gathered.rows:
            self.wait.begin()

    def flush(self) -> None:
        """Process the waiting batches."""
        joined = self.gathered.take()
        if joined is not None:
            self._process_joined(joined)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Flush before the barrier of a checkpoint."""
        self.flush()

    def finish(self) -> None:
        """Flush the waiting batches."""
        self.flush()

    def _process_joined(self, batch: ColumnBatch) -> None:
        """Process a batch by columns, or as objects if columns are given up."""
        if self.combined is not None:
            keyed = self.combined.keyed(batch)
            if keyed is not None:
                self._process_columns(batch, keyed, self.combined.folds)
                return
        keyed = None if self.columns is None else self.columns.of(batch)
        if keyed is not None:
            self._process_columns(batch, keyed, self.folds)
            return
        for value, timestamp in batch.records():
            self._process_one(value, timestamp)

    def _process_columns(self, batch: ColumnBatch, keyed: Keyed, folds: GroupedFolds) -> None:
        import pyarrow as pa

        groups, new, results = self._folded(keyed, folds)
        if self.is_final:
            return
        if results is not None:
            self._emit([*keyed.keys, *results], batch.timestamps)
            return
        firsts, stamps = pa.array(groups.firsts), batch.timestamps
        if not isinstance(stamps, int):
            stamps = stamps.take(pa.array(groups.lasts))
        key_columns = [column.take(firsts) for column in keyed.keys]
        self._emit([*key_columns, *self.folds.results(new)], stamps)

    def _folded(
        self, keyed: Keyed, folds: GroupedFolds
    ) -> tuple[Groups, list[Accumulators], list[Any] | None]:
        """Fold a batch into state.

        Returns:
            The groups of the batch; by aggregate, the accumulators of the groups after it; and its
            results after each record if each emits a row.
        """
        if self.groups is not None:
            try:
                groups, numbers = self.groups.find(keyed.keys)
                old = self.groups.accumulators(numbers)
                new, results = self._after(folds, groups, keyed.arguments, old)
            except NoKernelError:
                # Nothing has been changed.
                self.groups.clear()
                self.groups = None
            else:
                self.groups.put(numbers, new)
                return groups, new, results
        import pyarrow as pa

        groups = numbered(keyed.keys)
        firsts = pa.array(groups.firsts)
        values = self.key_fields.keys([column.take(firsts).to_pylist() for column in keyed.keys])
        keys = list(map(self.keys.identity, values))
        kept = [self._kept(key) for key in keys]
        new, results = self._after(folds, groups, keyed.arguments, folds.by_aggregate(kept))
        for key, *each in zip(keys, *new, strict=True):
            self.kept.put(key, tuple(each))
        return groups, new, results

    def _after(
        self, folds: GroupedFolds, groups: Groups, arguments: list[Any], old: Sequence[Accumulators]
    ) -> tuple[list[Accumulators], list[Any] | None]:
        if self.is_running and not self.is_final:
            return folds.running(groups, arguments, old)
        return folds.totals(groups, arguments, old), None

    def _kept(self, key: object) -> tuple[object, ...]:
        found: Any = self.kept.get(key)
        return self.aggregates.create_accumulator() if found is None else found

    def _emit(self, columns: list[object], stamps: Any) -> None:
        """Emit rows of some columns: as a batch, or one by one where they have no exact columns."""
        batch = self.result_batches.of(columns, stamps)
        if batch is not None:
            self.output.collect_batch(batch)
            return
        rows = self.rows.of_columns([value_list(column) for column in columns])
        if isinstance(stamps, int):
            self.output.collect_all(rows, stamps)
        else:
            for row, timestamp in zip(rows, stamps.to_pylist(), strict=True):
                self.output.collect(row, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark; emit the rows of bounded input at its end."""
        self.flush()
        if self.is_final and timestamp == MAX_TIMESTAMP:
            if self.groups is not None:
                self.groups.clear()
            for key, kept in self.kept:
                self.output.collect(self._row(key, kept), timestamp)
            self.kept.clear()
        self.output.emit_watermark(timestamp)
