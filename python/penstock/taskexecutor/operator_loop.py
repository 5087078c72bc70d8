# cython: annotation_typing=False, boundscheck=True
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

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: The timestamp of an element that has none, and the watermark before the first one.
MIN_TIMESTAMP: int = -(2**63)

#: The watermark after which no element follows.
MAX_TIMESTAMP: int = 2**63 - 1


class Output:
    """Where the elements of an operator go."""

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one element; ``timestamp`` in ms, ``MIN_TIMESTAMP`` when it has none."""
        raise NotImplementedError(type(self).__name__ + ".collect")

    def collect_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes elements of one timestamp, each of them before it asks for the next."""
        for value in values:
            self.collect(value, timestamp)

    def collect_side(self, tag_id: str, value: Any, timestamp: int) -> None:
        """Takes an element of the side output ``tag_id``; dropped where nobody reads it."""

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
    """What feeds one input of an operator."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element; ``timestamp`` in ms, ``MIN_TIMESTAMP`` when it has none."""
        raise NotImplementedError(type(self).__name__ + ".process")

    def process_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes elements of one timestamp, each of them before it asks for the next."""
        for value in values:
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
    """Hands elements to the next operator of the chain by a direct call."""

    def __init__(self, target: Input) -> None:
        self.target = target

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        self.target.process(value, timestamp)

    def collect_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes elements of one timestamp."""
        self.target.process_all(values, timestamp)

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


class StreamOperator(Input):
    """Base of the operators with one input; those with two have an ``Input`` for each.

    Life cycle: ``setup``, ``initialize_state``, ``open``, elements, ``finish`` (may emit),
    ``close`` (must not emit).  A checkpoint comes between two elements:
    ``prepare_snapshot_pre_barrier`` (may emit), ``snapshot_state`` (must not emit), and later
    ``notify_checkpoint_complete`` or ``notify_checkpoint_aborted``.  An operator whose user
    function raised keeps the exception in ``failed_with``, so that the task can name the operator.
    """

    def __init__(self) -> None:
        self.output: Output = None  # type: ignore[assignment]
        self.failed_with: BaseException | None = None
        self.context: Any = None

    def setup(self, context: Any, output: Output) -> None:
        """Gives the operator its context and its output; called once, before anything else."""
        self.context = context
        self.output = output

    def get_input(self, input_number: int) -> Input:  # noqa: ARG002
        """The receiver of input ``input_number``, counted from 0."""
        return self

    def initialize_state(self, context: Any) -> None:
        """Takes over what a snapshot held; state and timers of the backends are there already.

        Args:
            context: A ``StateInitializationContext``.
        """

    def open(self) -> None:
        """Prepares for elements; downstream operators of the chain are open already."""

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
        """Emits what is still buffered; no element follows."""

    def close(self) -> None:
        """Releases resources; called however the task ends, also when ``open`` failed."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
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
    """Several outputs that all take the main elements, and side outputs by tag.

    Watermarks and statuses go to all of them; a latency marker goes to one at random.
    """

    def __init__(
        self, outputs: list[Output], sides: dict[str, list[Output]], choose: Callable[[int], int]
    ) -> None:
        """Joins outputs.

        Args:
            outputs: The receivers of main elements.
            sides: The receivers of side outputs, by tag id.
            choose: Picks the receiver of a latency marker: ``choose(n)`` is in ``[0, n)``.
        """
        self.outputs = outputs
        self.sides = sides
        self.choose = choose
        self.everyone = [*outputs, *(output for group in sides.values() for output in group)]

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        output: Output
        for output in self.outputs:
            output.collect(value, timestamp)

    def collect_side(self, tag_id: str, value: Any, timestamp: int) -> None:
        """Takes an element of a side output."""
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
            main: Takes the elements without a tag.
            rest: Has the side outputs; its ``outputs`` are ``[main]``.
            tag_class: A pair that starts with an instance of it goes to a side output.
        """
        self.main = main
        self.rest = rest
        self.tag_class = tag_class

    def collect(self, value: Any, timestamp: int) -> None:
        """Takes one element, with or without a tag."""
        if type(value) is tuple and len(value) == 2:
            pair: tuple[Any, ...] = value
            if isinstance(pair[0], self.tag_class):
                self.rest.collect_side(pair[0].tag_id, pair[1], timestamp)
                return
        self.main.collect(value, timestamp)

    def collect_side(self, tag_id: str, value: Any, timestamp: int) -> None:
        """Takes an element of a side output."""
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
        """Drops the element."""

    def emit_watermark(self, timestamp: int) -> None:
        """Drops the watermark."""

    def emit_status(self, idle: bool) -> None:
        """Drops the status."""

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Drops the marker."""


class FunctionOperator(StreamOperator):
    """Base of the operators around one user function with ``open`` and ``close``.

    ``function`` is what is called per element: a plain callable, or the bound method of a
    Function object.
    """

    def __init__(self, user_function: Any, function: Any) -> None:
        """Keeps the function.

        Args:
            user_function: The object whose ``open(runtime_context)`` and ``close()`` are called.
            function: What is called for each element.
        """
        StreamOperator.__init__(self)
        self.user_function = user_function
        self.function = function
        self.opened = False

    def open(self) -> None:
        """Prepares for elements."""
        opener = getattr(self.user_function, "open", None)
        self.opened = True
        if opener is not None:
            try:
                opener(self.context.runtime_context)
            except BaseException as error:
                self.failed_with = error
                raise

    def close(self) -> None:
        """Releases what was opened."""
        closer = getattr(self.user_function, "close", None)
        if self.opened and closer is not None:
            self.opened = False
            try:
                closer()
            except BaseException as error:
                self.failed_with = error
                raise


class MapOperator(FunctionOperator):
    """One element for each element."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            self.output.collect(self.function(value), timestamp)
        except BaseException as error:
            self.failed_with = error
            raise


class FilterOperator(FunctionOperator):
    """The elements for which the function is true."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            if self.function(value):
                self.output.collect(value, timestamp)
        except BaseException as error:
            self.failed_with = error
            raise


class FlatMapOperator(FunctionOperator):
    """Any number of elements for each element: whatever the function's result iterates over."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            self.output.collect_all(self.function(value), timestamp)
        except BaseException as error:
            self.failed_with = error
            raise


class KeyedReduceOperator(FunctionOperator):
    """Folds the elements of each key and emits the running result.

    The fold of a key is one dictionary entry; None means that there is none yet.
    """

    def __init__(
        self,
        user_function: Any,
        function: Callable[..., Any],
        key_selector: Callable[[Any], Any],
        key_position: int,
        table: dict[Any, Any],
    ) -> None:
        """Keeps the fold.

        Args:
            user_function: The object whose ``open`` and ``close`` are called.
            function: ``function(fold, element)`` gives the next fold.
            key_selector: Gives the hashable key of an element.
            key_position: The field that ``key_selector`` takes if it does nothing else, else -1.
            table: Key to fold; owned by the keyed state backend.
        """
        FunctionOperator.__init__(self, user_function, function)
        self.key_selector = key_selector
        self.key_position = key_position
        self.table = table

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            if self.key_position >= 0 and type(value) is tuple:
                fields: tuple[Any, ...] = value
                key = fields[self.key_position]
            else:
                key = self.key_selector(value)
            fold = self.table.get(key)
            if fold is not None:
                value = self.function(fold, value)
            self.table[key] = value
            self.output.collect(value, timestamp)
        except BaseException as error:
            self.failed_with = error
            raise


class FinalReduceOperator(KeyedReduceOperator):
    """The fold of bounded input: one element for each key, when the input has ended."""

    def process(self, value: Any, timestamp: int) -> None:  # noqa: ARG002
        """Takes one element."""
        try:
            if self.key_position >= 0 and type(value) is tuple:
                fields: tuple[Any, ...] = value
                key = fields[self.key_position]
            else:
                key = self.key_selector(value)
            fold = self.table.get(key)
            self.table[key] = value if fold is None else self.function(fold, value)
        except BaseException as error:
            self.failed_with = error
            raise

    def process_watermark(self, timestamp: int) -> None:
        """Event time of the input has advanced."""
        if timestamp == MAX_TIMESTAMP:
            for value in self.table.values():
                self.output.collect(value, timestamp)
            self.table.clear()
        self.output.emit_watermark(timestamp)


class FusedOperator(StreamOperator):
    """Several map and filter operators in one call.

    Its function is composed of theirs, so that Python calls them without leaving the interpreter.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        function_of_all: Callable[[Iterable[Any]], Iterator[Any]],
        dropped: object,
        blame: Callable[[BaseException], BaseException],
    ) -> None:
        """Keeps the composed function.

        Args:
            function: Gives the element to emit, or ``dropped``.
            function_of_all: Gives the elements to emit for many, each when it is asked for.
            dropped: What ``function`` gives for elements that a filter drops.
            blame: Notes on the operator whose function raised that it did; gives what it raised.
        """
        StreamOperator.__init__(self)
        self.function = function
        self.function_of_all = function_of_all
        self.dropped = dropped
        self.blame = blame

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            result = self.function(value)
        except BaseException as error:
            self.blame(error)
            raise
        if result is not self.dropped:
            self.output.collect(result, timestamp)

    def process_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes elements of one timestamp, each of them before it asks for the next."""
        try:
            self.output.collect_all(self.function_of_all(values), timestamp)
        except BaseException as error:
            cause = self.blame(error)
            if cause is error:
                raise
        else:
            return
        raise cause


class TimestampsOperator(StreamOperator):
    """Timestamps elements; what to do with watermarks is the subclass's affair.

    Attributes:
        extract: ``extract(element, timestamp)`` gives the new timestamp; None keeps it.
        on_event: Told of each element, unless ``tracks_maximum``: then only ``max_timestamp`` is
            kept, which is all that the built-in generators need.
        had_events: Set by every element.
    """

    def __init__(self) -> None:
        StreamOperator.__init__(self)
        self.extract: Any = None
        self.on_event: Any = None
        self.emitter: Any = None
        self.tracks_maximum = False
        self.max_timestamp = MIN_TIMESTAMP
        self.had_events = False
        self.idle = False

    def mark_active(self) -> None:
        """An element came after the operator had declared itself idle."""
        raise NotImplementedError(type(self).__name__ + ".mark_active")

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            if self.extract is not None:
                timestamp = self.extract(value, timestamp)
            # The generator comes after the element: a watermark it emits at once covers it.
            self.output.collect(value, timestamp)
            self.had_events = True
            if self.idle:
                self.mark_active()
            if not self.tracks_maximum:
                self.on_event(value, timestamp, self.emitter)
            elif timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
        except BaseException as error:
            self.failed_with = error
            raise


#: How a tumbling window keeps its elements.
KEEP_LIST = 0
KEEP_FOLD = 1
KEEP_ACCUMULATOR = 2


class TumblingWindowLoop(StreamOperator):
    """Puts elements into tumbling windows of event time that take no late elements.

    The contents of a window are one dictionary, key to list, fold or accumulator.  No timers are
    needed: when event time passes the end of a window, all its keys are evaluated.
    """

    def __init__(
        self,
        size: int,
        offset: int,
        key_selector: Callable[[Any], Any],
        key_position: int,
        keep: int,
        function: Any,
        create_accumulator: Any,
    ) -> None:
        """Keeps the parameters.

        Args:
            size: Size of the windows in ms.
            offset: How far they are shifted in ms.
            key_selector: Gives the hashable key of an element.
            key_position: The field that ``key_selector`` takes if it does nothing else, else -1.
            keep: ``KEEP_LIST``, ``KEEP_FOLD`` or ``KEEP_ACCUMULATOR``.
            function: ``function(fold, element)`` or ``function(element, accumulator)``.
            create_accumulator: Gives the accumulator of a new key.
        """
        StreamOperator.__init__(self)
        self.size = size
        self.offset = offset
        self.key_selector = key_selector
        self.key_position = key_position
        self.keep = keep
        self.function = function
        self.create_accumulator = create_accumulator
        self.last_start = 0
        self.last_contents: dict[Any, Any] | None = None

    def contents_of(self, start: int, timestamp: int) -> dict[Any, Any] | None:
        """The contents of the window that starts at ``start``; None when it has ended."""
        raise NotImplementedError(type(self).__name__ + ".contents_of")

    def take_late(self, value: Any, timestamp: int) -> None:
        """Takes an element whose window has ended."""
        raise NotImplementedError(type(self).__name__ + ".take_late")

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            # Not the remainder alone: C's has the sign of the dividend, Python's never is negative.
            remainder = (timestamp - self.offset) % self.size
            if remainder < 0:
                remainder += self.size
            start = timestamp - remainder
            contents: dict[Any, Any] | None = self.last_contents
            if contents is None or start != self.last_start:
                contents = self.contents_of(start, timestamp)
                if contents is None:
                    self.take_late(value, timestamp)
                    return
                self.last_start = start
                self.last_contents = contents
            if self.key_position >= 0 and type(value) is tuple:
                fields: tuple[Any, ...] = value
                key = fields[self.key_position]
            else:
                key = self.key_selector(value)
            kept = contents.get(key)
            if self.keep == 0:
                if kept is None:
                    contents[key] = [value]
                else:
                    kept.append(value)
            elif self.keep == 1:
                contents[key] = value if kept is None else self.function(kept, value)
            else:
                if kept is None:
                    kept = self.create_accumulator()
                contents[key] = self.function(value, kept)
        except BaseException as error:
            self.failed_with = error
            raise


class ElementContext:
    """What process functions see of the current element; one object for all elements.

    Attributes:
        current_timestamp: The timestamp of the element or timer, in ms.
    """

    def __init__(self, timers: Any) -> None:
        """Creates the context around a timer service."""
        self.current_timestamp = MIN_TIMESTAMP
        self.timers = timers

    def timestamp(self) -> int:
        """The element's timestamp in ms, -2**63 when it has none."""
        return self.current_timestamp

    def timer_service(self) -> Any:
        """Time and timers."""
        return self.timers


class KeyedElementContext(ElementContext):
    """What keyed process functions see of the current element or timer."""

    def __init__(self, timers: Any, state: Any) -> None:
        """Creates the context around a timer service and a keyed state backend."""
        ElementContext.__init__(self, timers)
        self.state = state
        self.domain: Any = None

    def get_current_key(self) -> Any:
        """The key of the element or timer."""
        return self.state.current_key

    def time_domain(self) -> Any:
        """The clock of the timer that fires."""
        return self.domain


class ProcessOperator(FunctionOperator):
    """Any number of elements and side outputs for each element."""

    def __init__(
        self,
        user_function: Any,
        function: Callable[..., Any],
        element_context: ElementContext,
        tag_class: Any,
    ) -> None:
        """Keeps the function.

        Args:
            user_function: The object whose ``open`` and ``close`` are called.
            function: ``function(element, context)`` gives an iterable or None.
            element_context: The context that it is called with.
            tag_class: A pair that starts with an instance of it goes to a side output.
        """
        FunctionOperator.__init__(self, user_function, function)
        self.element_context: Any = element_context
        self.tag_class = tag_class

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            self.element_context.current_timestamp = timestamp
            result = self.function(value, self.element_context)
            if result is not None:
                self.emit(result, timestamp)
        except BaseException as error:
            self.failed_with = error
            raise

    def emit(self, result: Any, timestamp: int) -> None:
        """Emits what a function returned."""
        output: Output = self.output
        for element in result:
            if type(element) is tuple and len(element) == 2:
                pair: tuple[Any, ...] = element
                if isinstance(pair[0], self.tag_class):
                    output.collect_side(pair[0].tag_id, pair[1], timestamp)
                    continue
            output.collect(element, timestamp)


class KeyedProcessOperator(ProcessOperator):
    """As ``ProcessOperator``, with the element's key as the current key of the state."""

    def __init__(
        self,
        user_function: Any,
        function: Callable[..., Any],
        element_context: ElementContext,
        tag_class: Any,
        key_selector: Callable[[Any], Any],
        key_position: int,
        state: Any,
    ) -> None:
        """Keeps the function.

        Args:
            user_function: The object whose ``open`` and ``close`` are called.
            function: ``function(element, context)`` gives an iterable or None.
            element_context: The context that it is called with.
            tag_class: A pair that starts with an instance of it goes to a side output.
            key_selector: Gives the hashable key of an element.
            key_position: The field that ``key_selector`` takes if it does nothing else, else -1.
            state: The keyed state backend, whose ``current_key`` is set.
        """
        ProcessOperator.__init__(self, user_function, function, element_context, tag_class)
        self.key_selector = key_selector
        self.key_position = key_position
        self.state = state

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            if self.key_position >= 0 and type(value) is tuple:
                fields: tuple[Any, ...] = value
                self.state.current_key = fields[self.key_position]
            else:
                self.state.current_key = self.key_selector(value)
            self.element_context.current_timestamp = timestamp
            result = self.function(value, self.element_context)
            if result is not None:
                self.emit(result, timestamp)
        except BaseException as error:
            self.failed_with = error
            raise


class DiscardingSink(StreamOperator):
    """Takes every element and drops it."""

    def process(self, value: Any, timestamp: int) -> None:
        """Drops the element."""


class FunctionSink(FunctionOperator):
    """Calls a function with every element."""

    def process(self, value: Any, timestamp: int) -> None:  # noqa: ARG002
        """Takes one element."""
        try:
            self.function(value)
        except BaseException as error:
            self.failed_with = error
            raise


#: What ``SourceOperator.emit_next`` returns: call again at once, call again after
#: ``wait_available``, or never again.
MORE_AVAILABLE = 0
NOTHING_AVAILABLE = 1
END_OF_DATA = 2


class SourceOperator(StreamOperator):
    """The head of a source task: emits elements whenever the task asks for a step."""

    def emit_next(self, limit: int) -> int:
        """Emits at most about ``limit`` elements without blocking.

        Returns:
            ``MORE_AVAILABLE``, ``NOTHING_AVAILABLE`` or ``END_OF_DATA``.
        """
        raise NotImplementedError(type(self).__name__ + ".emit_next")

    def wait_available(self, timeout_ms: int) -> None:
        """Blocks until there may be more, ``wakeup`` was called, or the time is over."""

    def wakeup(self) -> None:
        """Ends ``wait_available`` from another thread; sticky until it returned once."""

    def cancel(self) -> None:
        """Ends the source early, from any thread."""


class NumberSequenceSource(SourceOperator):
    """The integers from ``start`` to ``end``, both included."""

    def __init__(self, start: int, end: int) -> None:
        SourceOperator.__init__(self)
        self.next = start
        self.end = end

    def emit_next(self, limit: int) -> int:
        """Emits at most about ``limit`` elements without blocking."""
        first = self.next
        number = min(first + limit, self.end + 1)
        try:
            self.output.collect_all(range(first, number), MIN_TIMESTAMP)
        except BaseException as error:
            self.failed_with = error
            raise
        self.next = number
        return MORE_AVAILABLE if number <= self.end else END_OF_DATA


class IteratorSource(SourceOperator):
    """Whatever an iterator gives."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        SourceOperator.__init__(self)
        self.iterator = iterator

    def emit_next(self, limit: int) -> int:
        """Emits at most about ``limit`` elements without blocking."""
        output: Output = self.output
        none = MIN_TIMESTAMP
        remaining = limit
        try:
            for element in self.iterator:
                output.collect(element, none)
                remaining -= 1
                if remaining <= 0:
                    return MORE_AVAILABLE
        except BaseException as error:
            self.failed_with = error
            raise
        return END_OF_DATA
