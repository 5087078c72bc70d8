"""Broadcast functions without keys in BATCH mode: the broadcast records come first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP, Input, StreamOperator
from penstock.taskexecutor.operators.sorted_input import BoundedInput, KeepingOperator

if TYPE_CHECKING:
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: The key for the sorter, as records have none.
_NO_KEY: Final = 0


class KeptInput(Input):
    """Receives buffered records, each with its timestamp, and forwards them."""

    def __init__(self, target: Input) -> None:
        """Forward records to ``target``."""
        self.target = target

    def process(self, value: Any, timestamp: int) -> None:  # noqa: ARG002
        """Forward a record with its own timestamp; ``timestamp`` is its number."""
        own_timestamp, record = value
        self.target.process(record, own_timestamp)


class ElementInput(BoundedInput):
    """The input that is not broadcast; its records wait for the end of the broadcast input."""

    def __init__(self, operator: RecordsLastOperator) -> None:
        """Create the first input."""
        self.operator = operator
        self.target = operator.inner.get_input(0)
        self.num_kept = 0
        self.kept_watermark = MIN_TIMESTAMP
        self.has_ended = False

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        if self.operator.has_all:
            self.target.process(value, timestamp)
            return
        # Sort by number instead of time, to preserve the order.
        self.operator.sorter.add(_NO_KEY, self.num_kept, 0, (timestamp, value))
        self.num_kept += 1

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark of the input."""
        if self.operator.has_all:
            self.target.process_watermark(timestamp)
        else:
            self.kept_watermark = timestamp


class BroadcastInput(BoundedInput):
    """The broadcast input, whose records are processed at once."""

    def __init__(self, operator: BroadcastFirstOperator) -> None:
        """Create the second input."""
        self.operator = operator
        self.target = operator.inner.get_input(1)

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        self.target.process(value, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Forward a watermark; the final one releases the other input."""
        self.target.process_watermark(timestamp)
        if timestamp == MAX_TIMESTAMP and not self.operator.has_all:
            self.operator.release()


class RecordsLastOperator(KeepingOperator):
    """Keeps the records of the first input until the broadcast input has ended."""

    def __init__(self, context: OperatorContext, inner: StreamOperator) -> None:
        """Wrap an operator, which shares the context."""
        super().__init__(context, inner)
        self.has_all = False
        self.elements = ElementInput(self)

    def release(self) -> None:
        """Process the buffered records in order, as the broadcast input has ended."""
        self.has_all = True
        elements = self.elements
        self.sorter.drain([KeptInput(elements.target)], lambda: None)
        if elements.kept_watermark > MIN_TIMESTAMP:
            elements.target.process_watermark(elements.kept_watermark)
        if elements.has_ended:
            self.inner.end_input(0)

    def end_input(self, input_number: int) -> None:
        """Note the end of an input; that of the first takes effect after its buffered records."""
        if input_number == 0 and not self.has_all:
            self.elements.has_ended = True
        else:
            self.inner.end_input(input_number)


class BroadcastFirstOperator(RecordsLastOperator):
    """Runs a broadcast function on its records after the broadcast input has ended.

    The keyed function needs no such wrapper: sorting delays its records as well.
    """

    def __init__(self, context: OperatorContext, inner: StreamOperator) -> None:
        """Wrap the operator of the function, which shares the context."""
        super().__init__(context, inner)
        self.inputs = (self.elements, BroadcastInput(self))
