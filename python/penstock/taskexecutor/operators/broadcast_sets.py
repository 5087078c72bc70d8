"""Broadcast sets in BATCH mode: streams that a function reads completely before its input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.compiled import MAX_TIMESTAMP
from penstock.taskexecutor.operators.broadcast_first import RecordsLastOperator
from penstock.taskexecutor.operators.registry import create_operator
from penstock.taskexecutor.operators.sorted_input import BoundedInput

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled import StreamOperator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_with_broadcast_sets(
    context: OperatorContext, descriptor: operators.WithBroadcastSets
) -> StreamOperator:
    """Create the operator with inputs for its broadcast sets."""
    config = context.config
    # From here on the context is that of the inner operator, which has one input.
    context.config = replace(
        config,
        descriptor=descriptor.inner,
        key_selectors=config.key_selectors[:1],
        input_types=config.input_types[:1],
    )
    return BroadcastSetsOperator(context, create_operator(context), descriptor.names)


class SetInput(BoundedInput):
    """The input of one broadcast set."""

    def __init__(self, operator: BroadcastSetsOperator, name: str) -> None:
        """Create the input of a set."""
        self.operator = operator
        self.records: list[Any] = []
        self.has_ended = False
        operator.sets[name] = self.records
        self.target = operator.inner.get_input(0)

    def process(self, value: object, timestamp: int) -> None:  # noqa: ARG002
        """Keep a record of the set."""
        self.records.append(value)

    def process_watermark(self, timestamp: int) -> None:
        """Note the end of the set; the last one releases the records of the input."""
        if timestamp == MAX_TIMESTAMP and not self.has_ended:
            self.has_ended = True
            self.operator.end_set()


class BroadcastSetsOperator(RecordsLastOperator):
    """Opens an operator when its broadcast sets are complete, then forwards buffered records."""

    def __init__(
        self, context: OperatorContext, inner: StreamOperator, names: tuple[str, ...]
    ) -> None:
        """Wrap the operator, which shares the context."""
        super().__init__(context, inner)
        self.sets: dict[str, list[Any]] = {}
        self.num_incomplete = len(names)
        self.inputs = (self.elements, *(SetInput(self, name) for name in names))

    def open(self) -> None:
        """Do nothing: the function may read its sets when it is opened."""

    def end_set(self) -> None:
        """Release the records after the last set."""
        self.num_incomplete -= 1
        if self.num_incomplete == 0:
            self.context.set_broadcast_variables(self.sets)
            self.inner.open()
            self.release()

    def end_input(self, input_number: int) -> None:
        """Forward the end of the first input; the inner operator does not know the others."""
        if input_number == 0:
            super().end_input(input_number)
