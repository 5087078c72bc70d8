"""Aggregates of groups, without windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.columns.group_kernels import NoKernelError
from penstock.columns.record_batches import LEAST_ROWS, one_batch, selected_rows
from penstock.table.plan.nodes import ADDED, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.taskexecutor.operators.relational.aggregates.aggregate_calls import AggregateCalls
from penstock.taskexecutor.operators.relational.aggregates.packed_groups import PackedGroups
from penstock.taskexecutor.operators.relational.aggregates.partial_aggregates import (
    PartialAggregates,
)
from penstock.taskexecutor.operators.relational.aggregates.running_aggregates import (
    RunningAggregates,
)
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import kinds_of
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.gathering import GatheringOperator
from penstock.taskexecutor.operators.relational.key_texts import texts_of

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: Rows of a batch that is emitted; much larger ones would not fit the memory of an exchange.
_MOST_EMITTED: Final = 32_768


class GroupAggregateOperator(GatheringOperator):
    """Emits a change of a group's row for each row, or for each batch, that changes it."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        keys: tuple[int, ...],
        calls: tuple[AggregateCall, ...],
        has_kinds: bool,
        per_batch: bool,
        is_updating: bool,
        state_ttl_ms: int = 0,
        is_one_phase: bool = False,
        emits_old: bool = True,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The columns of the output.
            keys: Positions of the columns that make a group.
            calls: The aggregates, over columns.
            has_kinds: Whether batches of the input have row kinds.
            per_batch: Whether a group that changes several times in a batch is emitted once.
            is_updating: Whether rows of the output may change.
            state_ttl_ms: The time after which state that was not written expires; 0 for never.
            is_one_phase: Whether each row is added to its group by itself.
            emits_old: Whether UPDATE_BEFORE is emitted.
        """
        super().__init__(context, input, output, has_kinds=has_kinds, is_updating=is_updating)
        self.prepare_waiting(context)
        self.keys = keys
        self.calls = AggregateCalls(
            context, calls, may_retract=has_kinds, shares_distinct=not has_kinds
        )
        self.per_batch = per_batch
        self.layout = PackedGroups(self.calls)
        #: By key, as `PackedGroups` says.
        self.groups = keyed_rows(context, "groups", state_ttl_ms)
        # As in Flink: equal updates keep the state of later operators alive.
        self.emits_equal = state_ttl_ms > 0 and bool(calls)
        self.emits_old = emits_old
        self.running = None
        if not is_one_phase and (not has_kinds or RunningAggregates.can_retract(calls)):
            self.running = self._running(context, input, output, is_updating=is_updating)
        self.is_gathering = self.running is not None

    def _running(
        self, context: OperatorContext, input: Schema, output: Schema, *, is_updating: bool
    ) -> RunningAggregates | None:
        if not RunningAggregates.fits(input, output, self.keys):
            return None
        made = RunningAggregates(
            input, output, self.keys, self.calls, self.layout,
            per_batch=self.per_batch, is_updating=is_updating, emits_equal=self.emits_equal,
            emits_old=self.emits_old,
        )  # fmt: skip
        group = context.metric_group()
        group.gauge("numBatchesInColumns", lambda: made.batches)
        group.gauge("numCallsByRow", lambda: made.calls_by_row)
        return made

    def open(self) -> None:
        """Open the user functions."""
        self.calls.functions.open()

    def close(self) -> None:
        """Close the user functions."""
        self.calls.functions.close()

    def process_batches(self, batches: list[pa.RecordBatch]) -> None:
        """Process batches, at once if kernels can compute all of them."""
        batch = one_batch(batches, self.input_schema)
        if self.running is not None and batch.num_rows >= LEAST_ROWS:
            try:
                changes = self.running.changes(batch, self.groups)
            except NoKernelError:
                # One batch empties a group, or has large sums; nothing has been written.
                if len(batches) > 1:
                    for each in batches:
                        self.process_batches([each])
                    return
            else:
                if changes is not None:
                    for start in range(0, changes.num_rows, _MOST_EMITTED):
                        self.emit(changes.slice(start, _MOST_EMITTED))
                return
        self._process_rows(batch)

    def _process_rows(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch to their groups one by one."""
        kinds = kinds_of(batch)
        keys = selected_rows(batch, self.keys)
        arguments = self.calls.arguments(batch)
        #: By key: its values; the result before the batch; the group, None once it is empty;
        #: the result now.
        touched: dict[str, list[Any]] = {}
        for row, (key, text) in enumerate(zip(keys, texts_of(keys), strict=True)):
            is_added = kinds is None or kinds[row] in ADDED
            entry = touched.get(text)
            if entry is None:
                entry = touched[text] = self._entry(key, self.layout.plain(self.groups.get(text)))
            group = entry[2]
            if group is None:
                if not is_added:
                    continue
                group = entry[2] = [0, self.calls.create()]
            group[0] += 1 if is_added else -1
            self.calls.change(group[1], arguments, row, is_added=is_added)
            if group[0] <= 0:
                entry[2] = None
            if not self.per_batch:
                new = None if entry[2] is None else self.calls.results(group[1])
                self._emit_change(key, entry[3], new)
                entry[3] = new
        for text, (key, old, group, _) in touched.items():
            if group is not None:
                self.groups.put(text, (group[0], *group[1]))
            elif old is not None:
                self.groups.remove(text)
            if self.per_batch:
                new = None if group is None else self.calls.results(group[1])
                self._emit_change(key, old, new)
        self.flush()

    def _entry(self, key: tuple[object, ...], group: tuple[Any, ...] | None) -> list[Any]:
        """Return a group as a batch changes it."""
        if group is None:
            return [key, None, None, None]
        result = self.calls.results(group[1:])
        return [key, result, [group[0], list(group[1:])], result]

    def _emit_change(
        self,
        key: tuple[object, ...],
        old: tuple[object, ...] | None,
        new: tuple[object, ...] | None,
    ) -> None:
        if old is None:
            if new is not None:
                self.changes.add(INSERT, key + new)
        elif new is None:
            self.changes.add(DELETE, key + old)
        elif old != new or self.emits_equal:
            if self.emits_old:
                self.changes.add(UPDATE_BEFORE, key + old)
            self.changes.add(UPDATE_AFTER, key + new)


class FinalAggregateOperator(GroupAggregateOperator):
    """Emits each group once, when the input has ended."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        keys: tuple[int, ...],
        calls: tuple[AggregateCall, ...],
        has_kinds: bool,
        is_one_phase: bool = False,
    ) -> None:
        """Create the operator; see `GroupAggregateOperator`."""
        KeyedRelationalOperator.__init__(
            self, context, input, output, has_kinds=has_kinds, is_updating=False
        )
        self.prepare_waiting(context)
        self.keys = keys
        self.calls = AggregateCalls(context, calls, may_retract=has_kinds)
        self.groups = keyed_rows(context, "groups", 0)
        self.partials = None
        if not has_kinds and not is_one_phase:
            self.partials = PartialAggregates.of(context, input, keys, calls)
        self.is_gathering = self.partials is not None
        self.is_first = context.environment.subtask == 0

    def process_batches(self, batches: list[pa.RecordBatch]) -> None:
        """Process batches."""
        batch = one_batch(batches, self.input_schema)
        groups = None if self.partials is None else self.partials.groups(batch)
        if groups is not None:
            for found in groups:
                _, values = self.groups.get(found.text) or (None, self.calls.empty)
                merged = self.calls.merge(values, found.values)
                self.groups.put(found.text, (found.key, tuple(merged)))
            return
        keys = selected_rows(batch, self.keys)
        arguments = self.calls.arguments(batch)
        touched: dict[str, list[Any]] = {}
        for row, (key, text) in enumerate(zip(keys, texts_of(keys), strict=True)):
            group = touched.get(text)
            if group is None:
                group = self.groups.get(text)
                group = [key, self.calls.create()] if group is None else [key, list(group[1])]
                touched[text] = group
            self.calls.change(group[1], arguments, row, is_added=True)
        for text, (key, values) in touched.items():
            self.groups.put(text, (key, tuple(values)))

    def emit_final(self) -> None:
        """Emit the groups; without keys, also the one group of an empty input."""
        for group in self.groups.values():
            self.changes.add(INSERT, tuple(group[0]) + self.calls.results(group[1]))
        if not self.keys and not len(self.groups) and self.is_first:
            self.changes.add(INSERT, self.calls.results(self.calls.create()))
        self.flush()
