"""All records of a subtask at the end of the input: full_window_partition without keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.state import ListStateDescriptor
from penstock.expressions.functions import bound_function
from penstock.taskexecutor.compiled import MIN_TIMESTAMP, FunctionOperator, StreamOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_STATE_NAME = "partition"


def create_full_window_partition(
    context: OperatorContext, descriptor: operators.FullWindowPartition
) -> StreamOperator:
    """Build the operator for the kind of function."""
    del context
    if descriptor.function_kind == "map_partition":
        return _MappedPartition(descriptor)
    return _FoldedPartition(descriptor)


class _MappedPartition(FunctionOperator):
    """Keeps all records in a list state."""

    def __init__(self, descriptor: operators.FullWindowPartition) -> None:
        super().__init__(descriptor.function, bound_function(descriptor.function, "map_partition"))
        self.state_descriptor = ListStateDescriptor(_STATE_NAME, descriptor.kept_type)
        self.elements: Any = None

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the records of an earlier attempt."""
        self.elements = context.get_operator_state_store().get_list_state(self.state_descriptor)

    def process(self, value: object, timestamp: int) -> None:
        """Keep a record."""
        del timestamp
        self.elements.add(value)

    def finish(self) -> None:
        """Emit the results for all records."""
        elements = list(self.elements.get())
        if elements:
            for result in self.function(elements) or ():
                self.output.collect(result, MIN_TIMESTAMP)


class _FoldedPartition(FunctionOperator):
    """Keeps a fold of the records, or their accumulator."""

    def __init__(self, descriptor: operators.FullWindowPartition) -> None:
        function = descriptor.function
        self.begin: Callable[[Any], Any] | None = None
        self.result_of: Callable[[Any], Any] | None = None
        if descriptor.function_kind == "reduce":
            self.merge = self.fold = bound_function(function, "reduce")
        else:
            self.begin = lambda value: function.add(value, function.create_accumulator())
            self.fold = lambda kept, value: function.add(value, kept)
            self.merge, self.result_of = function.merge, function.get_result
        super().__init__(function, self.fold)
        self.state_descriptor = ListStateDescriptor(_STATE_NAME, descriptor.kept_type)
        self.kept: list[Any] = []
        self.copier: Any = None

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the folds of earlier subtasks."""
        self.copier = self.context.isolation.of_list(self.state_descriptor)
        state = context.get_operator_state_store().get_list_state(self.state_descriptor)
        self.kept = list(state.get() or ())

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store the fold."""
        del context
        self._merge_all()
        self.context.operator_state.list_state(self.state_descriptor).update(self.kept)

    def process(self, value: object, timestamp: int) -> None:
        """Fold in a record."""
        del timestamp
        if self.kept:
            self.kept[0] = self.fold(self.kept[0], value)
            return
        first = value if self.copier is None else self.copier.copied(value)
        self.kept.append(first if self.begin is None else self.begin(first))

    def finish(self) -> None:
        """Emit the result, if there was any record."""
        self._merge_all()
        for kept in self.kept:
            result = kept if self.result_of is None else self.result_of(kept)
            self.output.collect(result, MIN_TIMESTAMP)

    def _merge_all(self) -> None:
        parts: Iterable[Any] = self.kept[1:]
        for part in parts:
            self.kept[0] = self.merge(self.kept[0], part)
        del self.kept[1:]
