"""`top_n` and `deduplicate` of keyed streams, over records and over batches of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from penstock.columns.change_batches import Changes
from penstock.columns.gathering import GatheredBatches
from penstock.columns.groups import Groups, numbered
from penstock.columns.keyed_columns import Keyed, KeyedColumns, keyed_columns
from penstock.datastream.output_tag import OutputTag
from penstock.expressions.functions import bound_function
from penstock.taskexecutor.compiled import KeyedProcessOperator, StreamOperator
from penstock.taskexecutor.operators.batch_wait import BatchWait
from penstock.taskexecutor.operators.function_timers import function_timers
from penstock.taskexecutor.operators.process import create_keyed_process

if TYPE_CHECKING:
    from penstock.columns.column_batch import ColumnBatch
    from penstock.datastream.state import ValueStateDescriptor
    from penstock.graph import operators
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.state.heap import KeyContext


class RankingFunction(Protocol):
    """A keyed process function with one value of state, which also processes batches.

    Attributes:
        descriptor: The descriptor of the state.
    """

    descriptor: ValueStateDescriptor

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
    if keys is None or descriptor.why_rows is not None or context.is_batch:
        return create_keyed_process(context, descriptor)
    key_type: Any = context.config.key_type
    columns = keyed_columns(
        context.evaluation,
        bound_function(context.config.key_selectors[0], "get_key"),
        key_type,
        descriptor.order,
        descriptor.key_fields,
        context.config.input_types[:1],
    )
    if columns is None:
        return create_keyed_process(context, descriptor)
    operator = KeyedRankOperator(context, descriptor, keys, columns)
    operator.use_timers(function_timers(operator, context))
    return operator


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


class KeyedRankOperator(KeyedProcessOperator):
    """Groups each batch by key, and accesses the state of each key once for a batch.

    Its state and results are those of the function for single records.  Small batches wait a short
    time for others, never beyond a watermark or a barrier.
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
        function: RankingFunction = descriptor.function
        super().__init__(function, function.process_element, OutputTag, keys, context.keyed_state)
        self.ranking = function
        self.key_fields = descriptor.key_fields
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

    def process(self, value: object, timestamp: int) -> None:
        """Process one record, which does not wait for others."""
        if self.gathered.rows:
            self.flush()
        super().process(value, timestamp)

    def process_batch(self, batch: ColumnBatch) -> None:
        """Process the records of a batch, which may wait for others."""
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

    def finish(self) -> None:
        """Process the waiting batches."""
        self.flush()

    def _process_joined(self, batch: ColumnBatch) -> None:
        """Process a batch by columns, or as objects if columns are given up."""
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
        if found is None or not len(found):
            return
        made = found.batch() if isinstance(found, Changes) else found
        if made is not None:
            self.output.collect_batch(made)
            return
        for row, timestamp in found.records():
            self.output.collect(row, timestamp)
