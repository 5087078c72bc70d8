# cython: annotation_typing=False, boundscheck=True
# The C types come from operator_loop.pxd; the annotations below are for readers and mypy.
"""The per-record path of a task: outputs, inputs and what all operators share.

One source, two uses.  It runs as plain Python, and it is compiled by Cython as
``penstock._native.operator_loop`` with the C declarations of
``native/penstock/_native/operator_loop.pxd``.  Import it through
``penstock.taskexecutor.compiled``, which picks the one that belongs to the runtime in use.  The
operators that are called most are in ``function_operators``, ``process_operators``,
``source_operators``, ``time_operators`` and ``window_operators``, which are used in the same two
ways.

Records travel by direct calls: ``operator.process(value, timestamp)`` calls
``output.collect(value, timestamp)``, which calls the next operator of the chain or writes to a
partition.  ``isolation`` says between which chained operators values are copied.
"""

from __future__ import annotations

from sys import exc_info
from typing import TYPE_CHECKING, Any

# Relative: compiled, this is the class that the .pxd cimports.
from .value_copies import ValueCopier  # noqa: TC001, TID252

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The timestamp of a record that has none, and the watermark before the first one.
MIN_TIMESTAMP: int = -(2**63)

#: The watermark after which no record follows.
MAX_TIMESTAMP: int = 2**63 - 1


class Output:
    """Output of an operator."""

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one record; ``timestamp`` in ms, ``MIN_TIMESTAMP`` when it has none."""
        raise NotImplementedError(type(self).__name__ + ".collect")

    def collect_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes records of one timestamp, each of them before it asks for the next."""
        for value in values:
            self.collect(value, timestamp)

    def collect_batch(self, batch: Any) -> None:
        """Takes the records of a ColumnBatch; here as the objects that they are made into."""
        if type(batch.timestamps) is int:
            self.collect_all(batch.rows(), batch.timestamps)
        else:
            for value, timestamp in zip(batch.rows(), batch.timestamp_list(), strict=True):
                self.collect(value, timestamp)

    def collect_side(self, tag_id: str, value: Any, timestamp: int) -> None:
        """Takes a record of the side output ``tag_id``; dropped where nobody reads it."""

    def emit_watermark(self, timestamp: int) -> None:
        """Tells every receiver that event time has reached ``timestamp``."""
        raise NotImplementedError(type(self).__name__ + ".emit_watermark")

    def emit_status(self, idle: bool) -> None:
        """Tells every receiver that this stream became idle or active."""
        raise NotImplementedError(type(self).__name__ + ".emit_status")

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Passes a latency marker to one receiver."""
        raise NotImplementedError(type(self).__name__ + ".emit_latency_marker")


class Input:
    """Feeder of one input of an operator."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one record; ``timestamp`` in ms, ``MIN_TIMESTAMP`` when it has none."""
        raise NotImplementedError(type(self).__name__ + ".process")

    def process_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes records of one timestamp, each of them before it asks for the next."""
        for value in values:
            self.process(value, timestamp)

    def process_batch(self, batch: Any) -> None:
        """Takes the records of a ColumnBatch.

        Here as the objects that they are made into: an operator that computes with columns
        overrides this, and its results must be those of this method.
        """
        if type(batch.timestamps) is int:
            self.process_all(batch.rows(), batch.timestamps)
        else:
            for value, timestamp in zip(batch.rows(), batch.timestamp_list(), strict=True):
                self.process(value, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Event time of this input has reached ``timestamp``."""
        raise NotImplementedError(type(self).__name__ + ".process_watermark")

    def process_status(self, idle: bool) -> None:
        """This input became idle or active."""
        raise NotImplementedError(type(self).__name__ + ".process_status")

    def process_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """A latency marker arrived on this input."""
        raise NotImplementedError(type(self).__name__ + ".process_latency_marker")


class ChainingOutput(Output):
    """Hands records to the next operator of the chain by a direct call."""

    def __init__(self, target: Input) -> None:
        self.target = target

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
        self.target.process(value, timestamp)

    def collect_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes records of one timestamp."""
        self.target.process_all(values, timestamp)

    def collect_batch(self, batch: Any) -> None:
        """Takes the records of a batch, which nobody changes."""
        self.target.process_batch(batch)

    def emit_watermark(self, timestamp: int) -> None:
        """Passes a watermark on."""
        self.target.process_watermark(timestamp)

    def emit_status(self, idle: bool) -> None:
        """Passes a change of idleness on."""
        self.target.process_status(idle)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Passes a latency marker on."""
        self.target.process_latency_marker(
            marked_time, operator_id_lower, operator_id_upper, subtask
        )


class CopyingChainingOutput(ChainingOutput):
    """Hands copies of records to the next operator of the chain."""

    def __init__(self, target: Input, copier: ValueCopier) -> None:
        """Connects to an input.

        Args:
            target: What takes the records.
            copier: Copies those that can change.
        """
        ChainingOutput.__init__(self, target)
        self.copier = copier
        self.copied: Callable[[Any], Any] = copier.copied

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
        self.target.process(self.copier.copied(value), timestamp)

    def collect_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes records of one timestamp."""
        self.target.process_all(map(self.copied, values), timestamp)


class TypedChainingOutput(ChainingOutput):
    """Hands what a codec makes of records to the next operator of the chain."""

    def __init__(
        self,
        target: Input,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        exact: Any,
    ) -> None:
        """Connects to an input.

        Args:
            target: What takes the records.
            encode: The codec's, of their declared type.
            decode: The codec's.
            exact: The class of records that come back as they are, or the type of rows of which
                those of a batch do; None if there is none.
        """
        ChainingOutput.__init__(self, target)
        self.encode = encode
        self.decode = decode
        self.exact = exact

    def typed(self, value: Any) -> Any:
        """The value as it comes back when it has been written and read."""
        if type(value) is self.exact:
            return value
        return self.decode(self.encode(value))

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
        self.target.process(self.typed(value), timestamp)

    def collect_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes records of one timestamp."""
        self.target.process_all(map(self.typed, values), timestamp)

    def collect_batch(self, batch: Any) -> None:
        """Takes the records of a batch: as objects, unless they come back as they are."""
        if batch.declared == self.exact:
            self.target.process_batch(batch)
        else:
            Output.collect_batch(self, batch)


class StreamOperator(Input):
    """Base of the operators with one input; those with two have an ``Input`` for each.

    Life cycle: ``setup``, ``initialize_state``, ``open``, records, ``finish`` (may emit),
    ``close`` (must not emit).  A checkpoint comes between two records:
    ``prepare_snapshot_pre_barrier`` (may emit), ``snapshot_state`` (must not emit), and later
    ``notify_checkpoint_complete`` or ``notify_checkpoint_aborted``.

    Whom an exception is to be blamed on is read off its traceback (``task.blame``).  The frames of
    compiled code do not tell whose they are: only the methods of compiled operators that call user
    code for each record leave word, by ``note_failure``.
    """

    def __init__(self) -> None:
        self.output: Output = None  # type: ignore[assignment]
        self.failed_with: BaseException | None = None
        self.context: Any = None

    def setup(self, context: Any, output: Output) -> None:
        """Gives the operator its context and its output; called once, before anything else."""
        self.context = context
        self.output = output

    def note_failure(self) -> None:
        """Keeps the exception that is being raised.

        For a ``finally`` clause, which costs nothing for a record: compiled, an ``except`` clause
        saves the exception that is being handled each time it is entered.
        """
        self.failed_with = exc_info()[1]

    def get_input(self, input_number: int) -> Input:  # noqa: ARG002
        """The receiver of input ``input_number``, counted from 0."""
        return self

    def initialize_state(self, context: Any) -> None:
        """Takes over what a snapshot held; state and timers of the backends are there already.

        Args:
            context: A ``StateInitializationContext``.
        """

    def open(self) -> None:
        """Prepares for records; downstream operators of the chain are open already."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """The barrier of a checkpoint is about to leave; upstream operators were asked before."""

    def snapshot_state(self, context: Any) -> None:
        """Writes what is not in the backends to them; downstream operators were asked before.

        Args:
            context: A ``StateSnapshotContext``.
        """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is complete, and so are all before it; some may go untold."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will not be completed; the next one covers what it held."""

    def end_input(self, input_number: int) -> None:
        """Input ``input_number`` ended; called once for each, before ``finish``."""

    def finish(self) -> None:
        """Emits what is still buffered; no record follows."""

    def close(self) -> None:
        """Releases resources; called however the task ends, also when ``open`` failed."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
        raise NotImplementedError(type(self).__name__ + ".process")

    def process_watermark(self, timestamp: int) -> None:
        """Event time of the input has advanced."""
        self.output.emit_watermark(timestamp)

    def process_status(self, idle: bool) -> None:
        """The input became idle or active."""
        self.output.emit_status(idle)

    def process_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Passes a latency marker on."""
        self.output.emit_latency_marker(marked_time, operator_id_lower, operator_id_upper, subtask)


class BroadcastOutput(Output):
    """Several outputs that all take the main records, and side outputs by tag.

    Watermarks and statuses go to all of them; a latency marker goes to one at random.
    """

    def __init__(
        self, outputs: list[Output], sides: dict[str, list[Output]], choose: Callable[[int], int]
    ) -> None:
        """Joins outputs.

        Args:
            outputs: The receivers of main records.
            sides: The receivers of side outputs, by tag id.
            choose: Picks the receiver of a latency marker: ``choose(n)`` is in ``[0, n)``.
        """
        self.outputs = outputs
        self.sides = sides
        self.choose = choose
        self.everyone = [*outputs, *(output for group in sides.values() for output in group)]

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
        output: Output
        for output in self.outputs:
            output.collect(value, timestamp)

    def collect_batch(self, batch: Any) -> None:
        """Takes the records of a batch."""
        output: Output
        for output in self.outputs:
            output.collect_batch(batch)

    def collect_side(self, tag_id: str, value: Any, timestamp: int) -> None:
        """Takes a record of a side output."""
        output: Output
        for output in self.sides.get(tag_id, ()):
            output.collect(value, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        """Passes a watermark on."""
        output: Output
        for output in self.everyone:
            output.emit_watermark(timestamp)

    def emit_status(self, idle: bool) -> None:
        """Passes a change of idleness on."""
        output: Output
        for output in self.everyone:
            output.emit_status(idle)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Passes a latency marker on."""
        output: Output
        if self.everyone:
            output = self.everyone[self.choose(len(self.everyone))]
            output.emit_latency_marker(marked_time, operator_id_lower, operator_id_upper, subtask)


class SideOutputs(Output):
    """One main output, and side outputs by tag.

    Every kind of function may emit to a side output: a pair of a tag and a value goes there.
    """

    def __init__(self, main: Output, rest: BroadcastOutput, tag_class: Any) -> None:
        """Joins outputs.

        Args:
            main: Takes the records without a tag.
            rest: Has the side outputs; its ``outputs`` are ``[main]``.
            tag_class: A pair that starts with an instance of it goes to a side output.
        """
        self.main = main
        self.rest = rest
        self.tag_class = tag_class

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one record, with or without a tag."""
        if type(value) is tuple and len(value) == 2:
            pair: tuple[Any, ...] = value
            if isinstance(pair[0], self.tag_class):
                self.rest.collect_side(pair[0].tag_id, pair[1], timestamp)
                return
        self.main.collect(value, timestamp)

    def collect_batch(self, batch: Any) -> None:
        """Takes the records of a batch, of which none has a tag."""
        self.main.collect_batch(batch)

    def collect_side(self, tag_id: str, value: Any, timestamp: int) -> None:
        """Takes a record of a side output."""
        self.rest.collect_side(tag_id, value, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        """Passes a watermark on."""
        self.rest.emit_watermark(timestamp)

    def emit_status(self, idle: bool) -> None:
        """Passes a change of idleness on."""
        self.rest.emit_status(idle)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Passes a latency marker on."""
        self.rest.emit_latency_marker(marked_time, operator_id_lower, operator_id_upper, subtask)


class DiscardingOutput(Output):
    """The end of a chain without receivers."""

    def collect(self, value: Any, timestamp: int) -> None:
        """Drops the record."""

    def collect_batch(self, batch: Any) -> None:
        """Drops the records."""

    def emit_watermark(self, timestamp: int) -> None:
        """Drops the watermark."""

    def emit_status(self, idle: bool) -> None:
        """Drops the status."""

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Drops the marker."""


def open_function(function: Any, context: Any) -> None:
    """Opens what an operator calls, if it has something to open.

    Args:
        function: A Function object, or anything else that is called.
        context: The context of the operator.
    """
    opener = getattr(function, "open", None)
    if opener is not None:
        context.leave_key(function, "open")
        opener(context.runtime_context)


def close_function(function: Any, context: Any) -> None:
    """Closes what `open_function` opened; arguments as there."""
    closer = getattr(function, "close", None)
    if closer is not None:
        context.leave_key(function, "close")
        closer()


class FunctionOperator(StreamOperator):
    """Base of the operators around one user function with ``open`` and ``close``.

    ``function`` is what is called per record: a plain callable, or the bound method of a
    Function object.
    """

    def __init__(self, user_function: Any, function: Any) -> None:
        """Keeps the function.

        Args:
            user_function: The object whose ``open(runtime_context)`` and ``close()`` are called.
            function: What is called for each record.
        """
        StreamOperator.__init__(self)
        self.user_function = user_function
        self.function = function
        self.opened = False

    def open(self) -> None:
        """Prepares for records."""
        self.opened = True
        open_function(self.user_function, self.context)

    def close(self) -> None:
        """Releases what was opened."""
        if self.opened:
            self.opened = False
            close_function(self.user_function, self.context)
