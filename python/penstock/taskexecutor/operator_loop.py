# cython: annotation_typing=False
# The C types come from operator_loop.pxd; the annotations below are for readers and mypy.
"""The per-record path of a task: outputs, inputs and the operators that are called most.

One source, two uses.  It runs as plain Python, and it is compiled by Cython as
``penstock._native.operator_loop`` with the C declarations of
``native/penstock/_native/operator_loop.pxd``.  Import it through
``penstock.taskexecutor.loop``, which picks the one that belongs to the runtime in use.

Elements travel by direct calls: ``operator.process(value, timestamp)`` calls
``output.collect(value, timestamp)``, which calls the next operator of the chain or writes to a
partition.  Values are not copied between chained operators.
"""

from __future__ import annotations

from typing import Any

#: The timestamp of an element that has none, and the watermark before the first one.
MIN_TIMESTAMP: int = -(2**63)

#: The watermark after which no element follows.
MAX_TIMESTAMP: int = 2**63 - 1


class Output:
    """Where the elements of an operator go."""

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one element; ``timestamp`` in ms, ``MIN_TIMESTAMP`` when it has none."""
        raise NotImplementedError(type(self).__name__ + ".collect")

    def collect_side(self, tag_id: str, value: Any, timestamp: int) -> None:
        """Takes an element of the side output ``tag_id``; dropped where nobody reads it."""

    def emit_watermark(self, timestamp: int) -> None:
        """Tells every receiver that event time has reached ``timestamp``."""
        raise NotImplementedError(type(self).__name__ + ".emit_watermark")

    def emit_status(self, idle: bool) -> None:  # noqa: FBT001
        """Tells every receiver that this stream became idle or active."""
        raise NotImplementedError(type(self).__name__ + ".emit_status")

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Passes a latency marker to one receiver."""
        raise NotImplementedError(type(self).__name__ + ".emit_latency_marker")


class Input:
    """What feeds one input of an operator."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element; ``timestamp`` in ms, ``MIN_TIMESTAMP`` when it has none."""
        raise NotImplementedError(type(self).__name__ + ".process")

    def process_watermark(self, timestamp: int) -> None:
        """Event time of this input has reached ``timestamp``."""
        raise NotImplementedError(type(self).__name__ + ".process_watermark")

    def process_status(self, idle: bool) -> None:  # noqa: FBT001
        """This input became idle or active."""
        raise NotImplementedError(type(self).__name__ + ".process_status")

    def process_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """A latency marker arrived on this input."""
        raise NotImplementedError(type(self).__name__ + ".process_latency_marker")


class ChainingOutput(Output):
    """Hands elements to the next operator of the chain by a direct call."""

    def __init__(self, target: Input) -> None:
        self.target = target

    def collect(self, value: Any, timestamp: int) -> None:
        self.target.process(value, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        self.target.process_watermark(timestamp)

    def emit_status(self, idle: bool) -> None:  # noqa: FBT001
        self.target.process_status(idle)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        self.target.process_latency_marker(
            marked_time, operator_id_lower, operator_id_upper, subtask
        )


class StreamOperator(Input):
    """Base of the operators with one input; those with two have an ``Input`` for each.

    Life cycle: ``setup``, ``initialize_state``, ``open``, elements, ``finish`` (may emit),
    ``close`` (must not emit).  An operator whose user function raised keeps the exception in
    ``failed_with``, so that the task can name the operator.
    """

    def __init__(self) -> None:
        self.output: Output = None  # type: ignore[assignment]
        self.failed_with: BaseException | None = None
        self.context: Any = None

    def setup(self, context: Any, output: Output) -> None:
        """Gives the operator its context and its output; called once, before anything else."""
        self.context = context
        self.output = output

    def get_input(self, input_number: int) -> Input:
        """The receiver of input ``input_number``, counted from 0."""
        return self

    def initialize_state(self) -> None:
        """Creates or restores the state."""

    def open(self) -> None:
        """Prepares for elements; downstream operators of the chain are open already."""

    def end_input(self, input_number: int) -> None:
        """Input ``input_number`` ended; called once for each, before ``finish``."""

    def finish(self) -> None:
        """Emits what is still buffered; no element follows."""

    def close(self) -> None:
        """Releases resources; called however the task ends, also when ``open`` failed."""

    def process(self, value: Any, timestamp: int) -> None:
        raise NotImplementedError(type(self).__name__ + ".process")

    def process_watermark(self, timestamp: int) -> None:
        self.output.emit_watermark(timestamp)

    def process_status(self, idle: bool) -> None:  # noqa: FBT001
        self.output.emit_status(idle)

    def process_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        self.output.emit_latency_marker(marked_time, operator_id_lower, operator_id_upper, subtask)
