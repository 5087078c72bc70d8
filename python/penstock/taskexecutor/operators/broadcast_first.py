"""Broadcast functions without keys in BATCH mode: all broadcast records come first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP, Input, StreamOperator
from penstock.taskexecutor.operators.sorted_input import BoundedInput, KeepingOperator

if TYPE_CHECKING:
    from penstock.taskexecutor.task.operator_context import OperatorContext

#: The sorter groups by keys, which there are none of here.
_NO_KEY: Final = 0


class KeptInput(Input):
    """Receives kept records, each with its timestamp, and passes them on."""

    def __init__(self, target: Input) -> None:
        """Passes records on to ``target``."""
        self.target = target

    def process(self, value: Any, timestamp: int) -> None:  # noqa: ARG002
        """Receives a record with its own timestamp; the other one is its number."""
        own_timestamp, record = value
        self.target.process(record, own_timestamp)


class ElementInput(BoundedInput):
    """The records beside the broadcast ones: kept until those have ended."""

    def __init__(self, operator: RecordsLastOperator) -> None:
        """Creates the first input."""
        self.operator = operator
        self.target = operator.inner.get_input(0)
        self.num_kept = 0
        self.kept_watermark = MIN_TIMESTAMP
        self.has_ended = False

    def process(self, value: Any, timestamp: int) -> None:
        """Process a record."""
        if self.operator.has_all:
            self.target.process(value, timestamp)
            return
        # What would be the time to sort by is the number, so that the order stays.
        self.operator.sorter.add(_NO_KEY, self.num_kept, 0, (timestamp, value))
        self.num_kept += 1

    def process_watermark(self, timestamp: int) -> None:
        """Event time of the input has advanced."""
        if self.operator.has_all:
            self.target.process_watermark(timestamp)
        else:
            self.kept_watermark = timestamp


class BroadcastInput(BoundedInput):
    """The broadcast records, which pass at once."""

    def __init__(self, operator: BroadcastFirstOperator) -> None:
        """Creates the second input."""
        self.operator = operator
        self.target = operator.inner.get_input(1)

    def process(self, value: Any, timestamp: int) -> None:
        """Process a record."""
        self.target.process(value, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Event time of the input has advanced; in the end the other one may go on."""
        self.target.process_watermark(timestamp)
        if timestamp == MAX_TIMESTAMP and not self.operator.has_all:
            self.operator.release()


class RecordsLastOperator(KeepingOperator):
    """Keeps the records of the first input until all that is broadcast is there."""

    def __init__(self, context: OperatorContext, inner: StreamOperator) -> None:
        """Wraps an operator; the context is that of both."""
        super().__init__(context, inner)
        self.has_all = False
        self.elements = ElementInput(self)

    def release(self) -> None:
        """All broadcast records have come: gives what was kept, in its order."""
        self.has_all = True
        elements = self.elements
        self.sorter.drain([KeptInput(elements.target)], lambda: None)
        if elements.kept_watermark > MIN_TIMESTAMP:
            elements.target.process_watermark(elements.kept_watermark)
        if elements.has_ended:
            self.inner.end_input(0)

    def end_input(self, input_number: int) -> None:
        """An input has ended; the first one not before its records were given."""
        if input_number == 0 and not self.has_all:
            self.elements.has_ended = True
        else:
            self.inner.end_input(input_number)


class BroadcastFirstOperator(RecordsLastOperator):
    """Lets a broadcast function have the records once it has all that is broadcast.

    The keyed one has its records sorted, and so gets them last as well.
    """

    def __init__(self, context: OperatorContext, inner: StreamOperator) -> None:
        """Wraps the operator of the function; the context is that of both."""
        super().__init__(context, inner)
        self.inputs = (self.elements, BroadcastInput(self))
