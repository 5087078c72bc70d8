# cython: annotation_typing=False, boundscheck=True
# The C types come from operator_loop.pxd; the annotations below are for readers and mypy.
"""The per-record path of a task: outputs, inputs and the common part of operators.

One source with two uses.  It runs as plain Python, and Cython compiles it as
``penstock._native.operators.operator_loop`` with the C declarations of
``native/penstock/_native/operators/operator_loop.pxd``.  Import it through
``penstock.taskexecutor.compiled``, which selects the one that belongs to the runtime in use.  The
most frequently called operators are in ``function_operators``, ``process_operators``,
``source_operators``, ``time_operators`` and ``window_operators``, which are used in the same two
ways.

Records travel by direct calls: ``operator.process(value, timestamp)`` calls ``output.collect(value,
timestamp)``, which calls the next operator of the chain or writes to a partition.  ``isolation``
decides between which chained operators values are copied.
"""

from __future__ import annotations

from sys import exc_info
from typing import TYPE_CHECKING, Any

from penstock.common.calls.first_results import warn_of_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.columns.column_batch import ColumnBatch
    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.compiled.value_copies import ValueCopier

#: The timestamp of a record without one, and the watermark before the first one.
MIN_TIMESTAMP: int = -(2**63)

#: The watermark after which no record follows.
MAX_TIMESTAMP: int = 2**63 - 1


class Output:
    """Output of an operator."""

    def collect(self, value: object, timestamp: int) -> None:
        """Emit one record; ``timestamp`` in ms, ``MIN_TIMESTAMP`` if it has none."""
        raise NotImplementedError(type(self).__name__ + ".collect")

    def collect_all(self, values: Iterable[object], timestamp: int) -> None:
        """Emit records of one timestamp, each before the next is requested."""
        for value in values:
            self.collect(value, timestamp)

    def collect_batch(self, batch: ColumnBatch) -> None:
        """Emit the records of a ColumnBatch, here as objects."""
        if type(batch.timestamps) is int:
            self.collect_all(batch.handed_over(), batch.timestamps)
        else:
            for value, timestamp in batch.records():
                self.collect(value, timestamp)

    def collect_side(self, tag_id: str, value: object, timestamp: int) -> None:
        """Emit a record to the side output ``tag_id``; dropped if it has no consumer."""

    def emit_watermark(self, timestamp: int) -> None:
        """Announce to every receiver that event time has reached ``timestamp``."""
        raise NotImplementedError(type(self).__name__ + ".emit_watermark")

    def emit_status(self, idle: bool) -> None:
        """Announce to every receiver that this stream became idle or active."""
        raise NotImplementedError(type(self).__name__ + ".emit_status")

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Forward a latency marker to one receiver."""
        raise NotImplementedError(type(self).__name__ + ".emit_latency_marker")


class Input:
    """Receiver of one input of an operator."""

    def process(self, value: object, timestamp: int) -> None:
        """Process one record; ``timestamp`` in ms, ``MIN_TIMESTAMP`` if it has none."""
        raise NotImplementedError(type(self).__name__ + ".process")

    def process_all(self, values: Iterable[object], timestamp: int) -> None:
        """Process records of one timestamp, each before the next is requested."""
        for value in values:
            self.process(value, timestamp)

    def process_batch(self, batch: ColumnBatch) -> None:
        """Process the records of a ColumnBatch.

        Here they are processed as objects: an operator that computes with columns overrides this,
        and must produce the same results.
        """
        if type(batch.timestamps) is int:
            self.process_all(batch.handed_over(), batch.timestamps)
        else:
            for value, timestamp in batch.records():
                self.process(value, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Advance the event time of this input to ``timestamp``."""
        raise NotImplementedError(type(self).__name__ + ".process_watermark")

    def process_status(self, idle: bool) -> None:
        """Handle this input becoming idle or active."""
        raise NotImplementedError(type(self).__name__ + ".process_status")

    def process_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Handle a latency marker on this input."""
        raise NotImplementedError(type(self).__name__ + ".process_latency_marker")


class ChainingOutput(Output):
    """Passes records to the next operator of the chain by a direct call."""

    def __init__(self, target: Input) -> None:
        self.target = target

    def collect(self, value: object, timestamp: int) -> None:
        """Emit a record."""
        self.target.process(value, timestamp)

    def collect_all(self, values: Iterable[object], timestamp: int) -> None:
        """Emit records of one timestamp."""
        self.target.process_all(values, timestamp)

    def collect_batch(self, batch: ColumnBatch) -> None:
        """Pass on the records of a batch, which is immutable."""
        self.target.process_batch(batch)

    def emit_watermark(self, timestamp: int) -> None:
        """Forward a watermark."""
        self.target.process_watermark(timestamp)

    def emit_status(self, idle: bool) -> None:
        """Forward a change of idleness."""
        self.target.process_status(idle)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Forward a latency marker."""
        self.target.process_latency_marker(
            marked_time, operator_id_lower, operator_id_upper, subtask
        )


class CopyingChainingOutput(ChainingOutput):
    """Passes copies of records to the next operator of the chain."""

    def __init__(self, target: Input, copier: ValueCopier) -> None:
        """Create the output to an input.

        Args:
            target: Processes the records.
            copier: Copies mutable records.
        """
        ChainingOutput.__init__(self, target)
        self.copier = copier
        self.copied: Callable[[Any], Any] = copier.copied

    def collect(self, value: object, timestamp: int) -> None:
        """Emit a record."""
        self.target.process(self.copier.copied(value), timestamp)

    def collect_all(self, values: Iterable[object], timestamp: int) -> None:
        """Emit records of one timestamp."""
        self.target.process_all(map(self.copied, values), timestamp)


class TypedChainingOutput(ChainingOutput):
    """Passes the decoded form of encoded records to the next operator of the chain."""

    def __init__(
        self,
        target: Input,
        encode: Callable[[object], bytes],
        decode: Callable[[bytes], object],
        exact: object,
    ) -> None:
        """Create the output to an input.

        Args:
            target: Processes the records.
            encode: Encodes a record of the declared type.
            decode: Decodes a record.
            exact: The class of records unchanged by a round trip, or the type of rows unchanged in
                batches; None if there is none.
        """
        ChainingOutput.__init__(self, target)
        self.encode = encode
        self.decode = decode
        self.exact = exact

    def typed(self, value: object) -> object:
        """Return the value after a round trip through the codec."""
        if type(value) is self.exact:
            return value
        return self.decode(self.encode(value))

    def collect(self, value: object, timestamp: int) -> None:
        """Emit a record."""
        self.target.process(self.typed(value), timestamp)

    def collect_all(self, values: Iterable[object], timestamp: int) -> None:
        """Emit records of one timestamp."""
        self.target.process_all(map(self.typed, values), timestamp)

    def collect_batch(self, batch: ColumnBatch) -> None:
        """Pass on a batch: as objects, unless a round trip does not change its records."""
        if batch.declared == self.exact:
            self.target.process_batch(batch)
        else:
            Output.collect_batch(self, batch)


class StreamOperator(Input):
    """Base of the operators with one input; those with two have an ``Input`` for each.

    Life cycle: ``setup``, ``initialize_state``, ``open``, records, ``finish`` (may emit), ``close``
    (must not emit).  A checkpoint happens between two records: ``prepare_snapshot_pre_barrier``
    (may emit), ``snapshot_state`` (must not emit), and later ``notify_checkpoint_complete`` or
    ``notify_checkpoint_aborted``.

    The operator that raised an exception is found by the traceback (``task.blame``).  Frames of
    compiled code do not name their operator: so the methods of compiled operators that call user
    code per record also call ``note_failure``.
    """

    def __init__(self) -> None:
        self.output: Output = None  # type: ignore[assignment]
        self.failed_with: BaseException | None = None
        self.context: OperatorContext = None  # type: ignore[assignment]

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Set the operator's context and output; called once, before anything else."""
        self.context = context
        self.output = output

    def note_failure(self) -> None:
        """Record the exception that is being raised.

        For a ``finally`` clause, which costs nothing per record: when compiled, an ``except``
        clause saves the exception being handled each time it is entered.
        """
        self.failed_with = exc_info()[1]

    def get_input(self, input_number: int) -> Input:  # noqa: ARG002
        """Return the receiver of input ``input_number``, counted from 0."""
        return self

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the operator's own state; that of the backends is restored already."""

    def open(self) -> None:
        """Prepare for records; downstream operators of the chain are open already."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Emit records before a checkpoint's barrier; upstream operators were called before."""

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store state outside of the backends; downstream operators were called before."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handle a complete checkpoint, and all before it; notifications may be missing."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Handle an aborted checkpoint; the next one covers its contents."""

    def end_input(self, input_number: int) -> None:
        """Handle the end of an input; called once for each, before ``finish``."""

    def finish(self) -> None:
        """Emit buffered records; no record follows."""

    def close(self) -> None:
        """Release resources; called however the task ends, also if ``open`` failed."""

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        raise NotImplementedError(type(self).__name__ + ".process")

    def process_watermark(self, timestamp: int) -> None:
        """Advance the event time of the input."""
        self.output.emit_watermark(timestamp)

    def process_status(self, idle: bool) -> None:
        """Handle the input becoming idle or active."""
        self.output.emit_status(idle)

    def process_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Forward a latency marker."""
        self.output.emit_latency_marker(marked_time, operator_id_lower, operator_id_upper, subtask)


class BroadcastOutput(Output):
    """Several outputs that all receive the main records, and side outputs by tag.

    Watermarks and statuses go to all of them; a latency marker goes to a random one.
    """

    def __init__(
        self, outputs: list[Output], sides: dict[str, list[Output]], choose: Callable[[int], int]
    ) -> None:
        """Join outputs.

        Args:
            outputs: The receivers of main records.
            sides: The receivers of side outputs, by tag id.
            choose: Picks the receiver of a latency marker: ``choose(n)`` is in ``[0, n)``.
        """
        self.outputs = outputs
        self.sides = sides
        self.choose = choose
        self.everyone = [*outputs, *(output for group in sides.values() for output in group)]

    def collect(self, value: object, timestamp: int) -> None:
        """Emit a record."""
        output: Output
        for output in self.outputs:
            output.collect(value, timestamp)

    def collect_batch(self, batch: ColumnBatch) -> None:
        """Emit the records of a batch."""
        output: Output
        for output in self.outputs:
            output.collect_batch(batch)

    def collect_side(self, tag_id: str, value: object, timestamp: int) -> None:
        """Emit a record to a side output."""
        output: Output
        for output in self.sides.get(tag_id, ()):
            output.collect(value, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        """Forward a watermark."""
        output: Output
        for output in self.everyone:
            output.emit_watermark(timestamp)

    def emit_status(self, idle: bool) -> None:
        """Forward a change of idleness."""
        output: Output
        for output in self.everyone:
            output.emit_status(idle)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Forward a latency marker."""
        output: Output
        if self.everyone:
            output = self.everyone[self.choose(len(self.everyone))]
            output.emit_latency_marker(marked_time, operator_id_lower, operator_id_upper, subtask)


class SideOutputs(Output):
    """One main output, and side outputs by tag.

    Every kind of function may emit to a side output, by a pair of a tag and a value.
    """

    def __init__(self, main: Output, rest: BroadcastOutput, tag_class: Any) -> None:
        """Join outputs.

        Args:
            main: Receives the records without a tag.
            rest: Holds the side outputs; its ``outputs`` are ``[main]``.
            tag_class: A pair that starts with an instance of it goes to a side output.
        """
        self.main = main
        self.rest = rest
        self.tag_class = tag_class

    def collect(self, value: object, timestamp: int) -> None:
        """Emit a record, with or without a tag."""
        if type(value) is tuple and len(value) == 2:
            pair: tuple[Any, ...] = value
            if isinstance(pair[0], self.tag_class):
                self.rest.collect_side(pair[0].tag_id, pair[1], timestamp)
                return
        self.main.collect(value, timestamp)

    def collect_batch(self, batch: ColumnBatch) -> None:
        """Pass on the records of a batch, none of which has a tag."""
        self.main.collect_batch(batch)

    def collect_side(self, tag_id: str, value: object, timestamp: int) -> None:
        """Emit a record to a side output."""
        self.rest.collect_side(tag_id, value, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        """Forward a watermark."""
        self.rest.emit_watermark(timestamp)

    def emit_status(self, idle: bool) -> None:
        """Forward a change of idleness."""
        self.rest.emit_status(idle)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Forward a latency marker."""
        self.rest.emit_latency_marker(marked_time, operator_id_lower, operator_id_upper, subtask)


class DiscardingOutput(Output):
    """The end of a chain without receivers."""

    def collect(self, value: object, timestamp: int) -> None:
        """Drop the record."""

    def collect_batch(self, batch: ColumnBatch) -> None:
        """Drop the records."""

    def emit_watermark(self, timestamp: int) -> None:
        """Drop the watermark."""

    def emit_status(self, idle: bool) -> None:
        """Drop the status."""

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Drop the marker."""


def open_function(function: Any, context: OperatorContext) -> None:
    """Open the function of an operator, if it has an ``open`` method.

    Args:
        function: A Function object, or any other callable.
        context: The context of the operator.
    """
    opener = getattr(function, "open", None)
    if opener is not None:
        context.leave_key(function, "open")
        opener(context.runtime_context)


def close_function(function: Any, context: OperatorContext) -> None:
    """Close a function that `open_function` opened; same arguments."""
    closer = getattr(function, "close", None)
    if closer is not None:
        context.leave_key(function, "close")
        closer()


class FunctionOperator(StreamOperator):
    """Base of the operators around one user function with ``open`` and ``close``.

    ``function`` is called per record: a plain callable, or the bound method of a Function object.
    """

    def __init__(self, user_function: Any, function: Any) -> None:
        """Create the operator.

        Args:
            user_function: The object whose ``open(runtime_context)`` and ``close()`` are called.
            function: Called for each record.
        """
        StreamOperator.__init__(self)
        self.user_function = user_function
        self.function = function
        self.opened = False
        self.is_checked = False

    def open(self) -> None:
        """Open the function."""
        self.opened = True
        open_function(self.user_function, self.context)

    def close(self) -> None:
        """Close the function if it was opened."""
        if self.opened:
            self.opened = False
            close_function(self.user_function, self.context)

    def check_first(self, result: object) -> None:
        """Check the first result of a function that returns iterables of records."""
        self.is_checked = True
        warn_of_parts(self.context, result)
