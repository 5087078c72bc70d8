"""Keyed operators in BATCH mode, which process one key after another, each in the order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.taskexecutor.compiled import MAX_TIMESTAMP, Input, Output, StreamOperator
from penstock.taskexecutor.operators.external_sort import create_sorter
from penstock.taskexecutor.time.watermark_valve import CombinedWatermarkStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.datastream.functions.checkpointed import StateInitializationContext
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class BoundedInput(Input):
    """An input in front of another operator's input, in BATCH mode."""

    target: Input

    def process_status(self, idle: bool) -> None:
        """Ignore idleness: bounded inputs end whether or not they were idle."""

    def process_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Forward a latency marker."""
        self.target.process_latency_marker(
            marked_time, operator_id_lower, operator_id_upper, subtask
        )


class SortedInput(BoundedInput):
    """Sorts the records of one input by key; those of an input without keys pass at once."""

    def __init__(self, operator: SortedInputOperator, number: int, keys: KeyReader | None) -> None:
        """Create input ``number``, counted from 0."""
        self.operator = operator
        self.number = number
        self.keys = keys
        self.target = operator.inner.get_input(number)

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        if self.keys is None:
            self.target.process(value, timestamp)
            return
        key = self.keys.read(value)
        self.operator.sorter.add(key, timestamp, self.number, value)

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark of the input."""
        operator = self.operator
        if timestamp == MAX_TIMESTAMP and operator.combined.update_watermark(
            self.number, timestamp
        ):
            operator.run()


class KeepingOperator(StreamOperator):
    """Keeps records in a sorter until another operator may process them."""

    inputs: Sequence[Input]

    def __init__(self, context: OperatorContext, inner: StreamOperator) -> None:
        """Wrap an operator.

        Args:
            context: The context of both operators.
            inner: The operator that processes the records.
        """
        super().__init__()
        self.inner = inner
        environment = context.environment
        self.sorter = create_sorter(environment.memory, environment.temp_directory)

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Set up both operators with the same context and output."""
        super().setup(context, output)
        self.inner.setup(context, output)

    def get_input(self, input_number: int) -> Input:
        """Return an input by its number."""
        return self.inputs[input_number]

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the state of a snapshot; BATCH mode itself takes none."""
        self.inner.initialize_state(context)

    def open(self) -> None:
        """Open the wrapped operator."""
        self.inner.open()

    def end_input(self, input_number: int) -> None:
        """Forward the end of an input."""
        self.inner.end_input(input_number)

    def finish(self) -> None:
        """Finish the wrapped operator."""
        self.inner.finish()

    def close(self) -> None:
        """Release the sorter and close the wrapped operator."""
        self.sorter.close()
        self.inner.close()


class SortedInputOperator(KeepingOperator):
    """Feeds another operator key by key after all inputs have ended.

    Event time does not advance while the records of a key are processed, and ends after them, so
    that no record is late and all timers of the key fire.
    """

    def __init__(self, context: OperatorContext, inner: StreamOperator, num_inputs: int) -> None:
        """Wrap an operator with ``num_inputs`` inputs, which shares the context."""
        super().__init__(context, inner)
        self.combined = CombinedWatermarkStatus(num_inputs)
        self.inputs: list[SortedInput] = [
            SortedInput(self, number, context.key_reader(number)) for number in range(num_inputs)
        ]

    def run(self) -> None:
        """Process all buffered records, then emit the final watermark."""
        targets = [each.target for each in self.inputs]
        self.sorter.drain(targets, self.context.end_key)
        for target in targets:
            target.process_watermark(MAX_TIMESTAMP)
