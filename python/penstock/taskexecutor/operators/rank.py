"""`top_n` and `deduplicate` of keyed streams, over records and over batches of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from penstock.columns.aggregate_results import ResultBatches
from penstock.columns.change_batches import Changes
from penstock.columns.exchange import has_batches
from penstock.columns.gathering import ENOUGH_ROWS, GatheredBatches
from penstock.columns.groups import Groups, numbered
from penstock.columns.keyed_columns import Keyed, KeyedColumns, keyed_columns
from penstock.common.row_kind import RowKind
from penstock.common.values.change_rows import kind_of_change
from penstock.datastream.output_tag import OutputTag
from penstock.errors import InvalidProgramError
from penstock.expressions.functions import bound_function
from penstock.taskexecutor.compiled import KeyedProcessOperator, StreamOperator
from penstock.taskexecutor.operators.batch_wait import BatchWait
from penstock.taskexecutor.operators.function_timers import function_timers
from penstock.taskexecutor.operators.process import (
    create_keyed_process,
    use_timers_and_procedures,
)
from penstock.taskexecutor.state.heap import StateTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.columns.column_batch import ColumnBatch
    from penstock.datastream.state import ValueStateDescriptor
    from penstock.graph import operators
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.ranked_columns import Order, RankedColumns
    from penstock.taskexecutor.state.heap import KeyContext


#: Columns do not start with a smaller batch.
_FEWEST_ROWS: Final = 32


class RankingFunction(Protocol):
    """A keyed process function with one value of state, which also processes batches.

    Attributes:
        descriptor: The descriptor of the state.
        order_of_columns: The order of the records if they may be stored as columns, or None.
    """

    descriptor: ValueStateDescriptor
    order_of_columns: Order | None

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Process a record, and return the results."""

    def process_batch(
        self,
        batch: ColumnBatch,
        groups: Groups,
        orders: list[Any],
        state: Any,
        ctx: Any,
    ) -> ColumnBatch | Changes | None:
        """Process a batch, and return the results; None without any.

        Args:
            batch: The records.
            groups: The records by key.
            orders: The columns of the values by which records are ordered.
            state: The function's state of these keys; see `GroupState`.
            ctx: The context of the function.
        """


def create_keyed_rank(context: OperatorContext, descriptor: operators.KeyedRank) -> StreamOperator:
    """Create the operator of `top_n` or `deduplicate`."""
    keys = context.key_reader()
    if keys is None or context.is_batch:
        return create_keyed_process(context, descriptor)
    columns = None if descriptor.why_rows is not None else _columns(context, descriptor)
    if columns is None:
        by_records = RecordRankOperator(context, descriptor, keys)
        use_timers_and_procedures(context, by_records)
        return by_records
    operator = KeyedRankOperator(context, descriptor, keys, columns)
    operator.use_timers(function_timers(operator, context))
    return operator


def _columns(context: OperatorContext, descriptor: operators.KeyedRank) -> KeyedColumns | None:
    key_type: Any = context.config.key_type
    return keyed_columns(
        context.evaluation,
        bound_function(context.config.key_selectors[0], "get_key"),
        key_type,
        descriptor.order,
        descriptor.key_fields,
        context.config.input_types[:1],
    )


class GroupState:
    """The function's state of the keys of a batch, by the numbers of their groups.

    Values of the state are never changed in place, so that they are accessed where they are stored.
    Those with a time to live are accessed as functions do.
    """

    def __init__(
        self, state: KeyContext, keys: list[Any], values: Any, *, has_lifetime: bool
    ) -> None:
        """Create a view.

        Args:
            state: Has the current key.
            keys: By group, the key as state has it.
            values: The values by key; with a time to live, the state of the current key.
            has_lifetime: Whether values have a time to live.
        """
        self._state = state
        self._keys = keys
        self._values = values
        self._has_lifetime = has_lifetime

    def enter(self, group: int) -> None:
        """Set the current key."""
        self._state.select_key(self._keys[group])

    def values(self) -> list[Any]:
        """Return the value of each key, or None."""
        if not self._has_lifetime:
            return list(map(self._values.get, self._keys))
        found = []
        for group in range(len(self._keys)):
            self.enter(group)
            found.append(self._values.value())
        return found

    def put(self, group: int, value: object) -> None:
        """Set the value of a key."""
        if self._has_lifetime:
            self.enter(group)
            self._values.update(value)
        else:
            self._values.put(self._keys[group], value)


class RecordRankOperator(KeyedProcessOperator):
    """Calls the function with single records, also behind a snapshot of columns."""

    def __init__(
        self, context: OperatorContext, descriptor: operators.KeyedRank, keys: KeyReader
    ) -> None:
        """Create the operator."""
        function: RankingFunction = descriptor.function
        super().__init__(function, function.process_element, OutputTag, keys, context.keyed_state)
        self.ranking = function
        self.key_fields = descriptor.key_fields
        #: The name of the restored state that has the records as columns; None without.
        self.restored: str | None = None

    def open(self) -> None:
        """Open the function, and move restored columns into its state.

        Raises:
            InvalidProgramError: The restored records are of another type.
        """
        super().open()
        prefix, now = self._block_name()
        for name in self.context.keyed_state.tables:
            if not name.startswith(prefix):
                continue
            if name != prefix + now:
                raise InvalidProgramError(
                    f"{self.context.name!r}: the restored records are of the type "
                    f"{name.removeprefix(prefix)}, and now {now} is declared: restore with the "
                    "former type"
                )
            self.restored = name
        if not self.restores_columns() and self.restored is not None:
            self.restored_to_state()

    def _declared(self) -> Any:
        """Return the type of the records; None if it is unknown."""
        types = self.context.config.input_types
        return types[0] if types else None

    def _block_name(self) -> tuple[str, str]:
        """Return the two parts of the name of the state with the records as columns."""
        declared = self._declared()
        return f"_{self.ranking.descriptor.name} columns of ", repr(declared)

    def restores_columns(self) -> bool:
        """Return whether restored columns stay columns until the first record arrives."""
        return False

    def restored_to_state(self) -> None:
        """Move restored columns into the function's state."""
        from penstock.taskexecutor.operators.key_blocks import records_of_blocks

        assert self.restored is not None
        declared = self._declared()
        table: Any = self.context.keyed_state.table(self.restored, "value")
        self.restored = None
        self.add_to_state(records_of_blocks(table, declared))

    def add_to_state(self, records: Iterable[Any]) -> None:
        """Add records behind those of their keys in the function's state."""
        ranking: Any = self.ranking
        for record in records:
            self.state.select_key(self.keys.read(record))
            ranking.restore(record)


class KeyedRankOperator(RecordRankOperator):
    """Groups each batch by key, and accesses the state of each key once for a batch.

    Its results are those of the function for single records.  Small batches wait a short time for
    others, never beyond a watermark or a barrier.

    If only few records of a key stay, in memory and without a time to live, all of them become
    columns with the first batch.  At the first record that columns cannot store they move into the
    function's state, and stay there.
    """

    takes_batches = True

    def __init__(
        self,
        context: OperatorContext,
        descriptor: operators.KeyedRank,
        keys: KeyReader,
        columns: KeyedColumns,
    ) -> None:
        """Create the operator."""
        super().__init__(context, descriptor, keys)
        #: The order of records that may be stored as columns; None once they may not.
        self.order: Order | None = self.ranking.order_of_columns
        self.ranked: RankedColumns | None = None
        #: Records with their timestamps that wait behind the gathered batches.
        self.singles: list[tuple[Any, int]] = []
        self.columns = columns
        self.gathered = GatheredBatches()
        self.wait = BatchWait(context.processing_time, self.flush)
        self.has_lifetime = False
        #: The values of state by key; with a time to live, the state of the current key.
        self.values: Any = None

    def open(self) -> None:
        """Open the function and its state."""
        super().open()
        descriptor = self.ranking.descriptor
        table, lifetime, _ = self.context.keyed_state.expiring_table(descriptor)
        self.has_lifetime = lifetime is not None
        if self.has_lifetime:
            self.values = self.context.keyed_state.state(descriptor)
        else:
            self.values = table.map(None)

    def restores_columns(self) -> bool:
        """Return whether restored columns stay columns until the first record arrives."""
        declared = self._declared()
        keyed_state = self.context.keyed_state
        table, lifetime, _ = keyed_state.expiring_table(self.ranking.descriptor)
        # A database may have more records than fit into memory.
        kept: Any = table
        is_in_memory = isinstance(kept, StateTable) and kept.store is None
        if not is_in_memory or lifetime is not None or not has_batches(declared):
            self.order = None
        return self.order is not None

    def process(self, value: object, timestamp: int) -> None:
        """Process one record, which waits for others if the state is in columns."""
        if self.ranked is None and self.gathered.rows:
            self.flush()
        if self.ranked is not None:
            if kind_of_change(value) is RowKind.INSERT:
                self.singles.append((value, timestamp))
                if len(self.singles) < ENOUGH_ROWS:
                    self.wait.begin()
                else:
                    self.flush()
                return
            self.flush()
            self._stop_columns()
        if self.restored is not None:
            self.restored_to_state()
        super().process(value, timestamp)

    def process_batch(self, batch: ColumnBatch) -> None:
        """Process the records of a batch, which may wait for others."""
        self._gather_singles()
        self._gather(batch)
        if self.gathered.rows:
            self.wait.begin()

    def flush(self) -> None:
        """Process the waiting batches and records."""
        self._gather_singles()
        joined = self.gathered.take()
        if joined is not None:
            self._process_joined(joined)

    def _gather(self, batch: ColumnBatch) -> None:
        joined = self.gathered.add(batch)
        if joined is not None:
            self._process_joined(joined)

    def _gather_singles(self) -> None:
        """Add the waiting records to the waiting batches, or process all if they do not fit."""
        singles, self.singles = self.singles, []
        if not singles:
            return
        import pyarrow as pa

        columns = list(zip(*[value for value, _ in singles], strict=True))
        stamps = pa.array([timestamp for _, timestamp in singles], pa.int64())
        batch = ResultBatches(self._declared()).of(columns, stamps)
        if batch is not None:
            self._gather(batch)
            return
        self.flush()
        self._stop_columns()
        for value, timestamp in singles:
            super().process(value, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Advance the event time of the input behind the waiting batches."""
        self.flush()
        super().process_watermark(timestamp)

    def process_status(self, idle: bool) -> None:
        """Emit a change of idleness behind the results of the waiting batches."""
        self.flush()
        super().process_status(idle)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Process the waiting batches before the barrier of a checkpoint."""
        self.flush()
        if self.ranked is not None:
            self.ranked.save()

    def finish(self) -> None:
        """Process the waiting batches."""
        self.flush()

    def _process_joined(self, batch: ColumnBatch) -> None:
        """Process a batch by columns, or as objects if columns are given up."""
        if self.order is not None and self._process_ranked(batch):
            return
        keyed = self.columns.of(batch)
        if keyed is None:
            super().process_batch(batch)
            return
        done = False
        try:
            self._process_columns(batch, keyed)
            done = True
        finally:
            if not done:
                self.note_failure()

    def _process_ranked(self, batch: ColumnBatch) -> bool:
        """Process a batch with columns as state; return False if they end."""
        if self.ranked is None and len(batch) < _FEWEST_ROWS:
            if self.restored is not None:
                self.restored_to_state()
            return False
        declared = self._declared()
        is_plain = batch.kinds is None and batch.declared == declared
        keyed = self.columns.computed(batch) if is_plain else None
        if keyed is not None and self._starts_columns(batch, keyed):
            ranked = cast("RankedColumns", self.ranked)
            self.columns.count(batch, in_columns=True)
            for changes in ranked.changes(batch, keyed):
                self._emit(changes)
            return True
        self._stop_columns()
        return False

    def _starts_columns(self, batch: ColumnBatch, keyed: Keyed) -> bool:
        """Return whether a batch can be ranked; move the stored records into columns."""
        if self.ranked is None:
            from penstock.columns.order_ranks import are_ranked
            from penstock.taskexecutor.operators.ranked_columns import RankedColumns

            kinds = [column.type for column in keyed.arguments]
            if not are_ranked(kinds):
                return False
            order = cast("Order", self.order)
            declared = self._declared()
            table: Any = self.context.keyed_state.table("".join(self._block_name()), "value")
            ranked = RankedColumns(
                self.context,
                self.columns,
                self.key_fields,
                self.keys,
                order,
                declared,
                kinds,
                table,
            )
            if not self._moves_into(ranked):
                return False
            self.ranked = ranked
        return self.ranked.can_rank(batch, keyed)

    def _moves_into(self, ranked: RankedColumns) -> bool:
        """Move the stored records into columns; return False if they stay in the state."""
        if self.restored is not None and len(self.values):
            self.restored_to_state()
        if self.restored is not None:
            self.restored = None
            blocks = ranked.restored()
            for data in blocks:
                if not ranked.add(data):
                    self.add_to_state(ranked.records())
                    for left in (data, *blocks):
                        self.add_to_state(ranked.records_of(left))
                    return False
        from penstock.taskexecutor.operators.key_blocks import portions

        made = ResultBatches(self._declared())
        for entries in portions(self.values.values()):
            batch = made.of(list(zip(*[record for _, record in entries], strict=True)), 0)
            if batch is None or not ranked.add(batch.data):
                return False
        self.values.clear()
        return True

    def _stop_columns(self) -> None:
        """Move the stored records into the function's state, where they stay."""
        self.order = None
        if self.restored is not None:
            self.restored_to_state()
        ranked, self.ranked = self.ranked, None
        if ranked is not None:
            self.columns.given_up += 1
            self.add_to_state(ranked.records())
            ranked.clear()

    def _process_columns(self, batch: ColumnBatch, keyed: Keyed) -> None:
        import pyarrow as pa

        groups = numbered(keyed.keys)
        firsts = pa.array(groups.firsts)
        values = self.key_fields.keys([column.take(firsts).to_pylist() for column in keyed.keys])
        keys = list(map(self.keys.identity, values))
        state = GroupState(self.state, keys, self.values, has_lifetime=self.has_lifetime)
        found = self.ranking.process_batch(
            batch, groups, keyed.arguments, state, self.element_context
        )
        if found is not None:
            self._emit(found)

    def _emit(self, found: ColumnBatch | Changes) -> None:
        if not len(found):
            return
        made = found.batch() if isinstance(found, Changes) else found
        if made is not None:
            self.output.collect_batch(made)
            return
        for row, timestamp in found.records():
            self.output.collect(row, timestamp)
