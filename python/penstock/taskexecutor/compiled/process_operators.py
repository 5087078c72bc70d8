# cython: annotation_typing=False, boundscheck=True, binding=False
# The C types come from process_operators.pxd; the annotations below are for readers and mypy.
"""Operators around process functions, and the contexts of these.

One source with two uses; see ``operator_loop``.
"""

from __future__ import annotations

from types import GeneratorType
from typing import TYPE_CHECKING, Any

from penstock.common.exception_deadline import repr_in_time
from penstock.common.exception_text import annotate
from penstock.common.timestamps import timestamp_of
from penstock.datastream.timerservice import TimerService

# Relative: when compiled, these are the classes that the .pxd cimports.
from .operator_loop import MIN_TIMESTAMP, FunctionOperator, Output, StreamOperator  # noqa: TID252
from .timers import InternalTimerService, TimerTarget  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._native.operators.procedure import Procedure
    from penstock.datastream.time_domain import TimeDomain
    from penstock.serialization.pure.keys import KeyReader


class KeyedTimerService:
    """Timers of the current key, without namespaces.  Fractions of a millisecond are cut off."""

    def __init__(self, service: InternalTimerService) -> None:
        """Create a view of ``service``."""
        self._service = service

    def current_processing_time(self) -> int:
        """Return the time of the machine's clock."""
        return self._service.current_processing_time()

    def current_watermark(self) -> int:
        """Return the event time reached, -2**63 before the first watermark."""
        return self._service.current_watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a timer of the machine's clock for the current key."""
        self._service.register_processing_time_timer(
            None, timestamp_of(timestamp, "register_processing_time_timer")
        )

    def register_event_time_timer(self, timestamp: int) -> None:
        """Register a timer of event time for the current key."""
        self._service.register_event_time_timer(
            None, timestamp_of(timestamp, "register_event_time_timer")
        )

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a timer of the machine's clock, if it exists."""
        self._service.delete_processing_time_timer(
            None, timestamp_of(timestamp, "delete_processing_time_timer")
        )

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete a timer of event time, if it exists."""
        self._service.delete_event_time_timer(
            None, timestamp_of(timestamp, "delete_event_time_timer")
        )


# When compiled, the class cannot have a Python class as its base.
TimerService.register(KeyedTimerService)


class ElementContext:
    """Context of process functions for the current record; one object for all records.

    Attributes:
        current_timestamp: The timestamp of the record or timer, in ms.
    """

    def __init__(self, timers: object) -> None:
        """Create the context around a timer service."""
        self.current_timestamp = MIN_TIMESTAMP
        self.timers = timers

    def timestamp(self) -> int:
        """Return the record's timestamp in ms, -2**63 if it has none."""
        return self.current_timestamp

    def timer_service(self) -> Any:
        """Return the service of time and timers."""
        return self.timers


class KeyedElementContext(ElementContext):
    """Context of keyed process functions for the current record or timer."""

    def __init__(self, timers: object, state: Any) -> None:
        """Create the context around a timer service and a keyed state backend."""
        ElementContext.__init__(self, timers)
        self.state = state
        self.domain: Any = None

    def get_current_key(self) -> object:
        """Return the key of the record or timer."""
        key: Any = self.state.current_key
        kind = type(key)
        # The backend is a Python class, whose methods would have to be looked up.
        return key if kind is int or kind is str else self.state.visible_key()

    def time_domain(self) -> object:
        """Return the time domain of the timer that fires."""
        return self.domain


def emit_results(output: Output, result: Any, timestamp: int, tag_class: Any) -> None:
    """Emit the result of a process function: records, and pairs of a tag and a value.

    Args:
        output: Receives the records.
        result: An iterable.
        timestamp: Timestamp of all records, in ms.
        tag_class: A pair that starts with an instance of it goes to a side output.
    """
    kind = type(result)
    # A try block around the loop would cost 1 % of a job.
    if kind is not GeneratorType and kind is not list and not hasattr(result, "__iter__"):
        _check_iterable(result)
    for element in result:
        emit_result(output, element, timestamp, tag_class)


def _check_iterable(result: object) -> None:
    try:
        iter(result)  # type: ignore[call-overload]
    except TypeError as error:
        annotate(
            error,
            "the function emits what it returns one by one, but it returned "
            f"{repr_in_time(result)}: write yield instead of return, or return a list",
        )
        raise


def emit_result(output: Output, element: object, timestamp: int, tag_class: Any) -> None:
    """Emit one record, or a pair of a tag and a value, as ``emit_results`` does."""
    if type(element) is tuple:
        pair: tuple[Any, ...] = element
        if len(pair) == 2:
            first = pair[0]
            # Comparing the class is cheaper for the usual first fields.
            if type(first) is not int and type(first) is not str and isinstance(first, tag_class):
                output.collect_side(first.tag_id, pair[1], timestamp)
                return
    elif isinstance(element, tuple) and len(element) == 2:
        tag, value = element
        if isinstance(tag, tag_class):
            output.collect_side(tag.tag_id, value, timestamp)
            return
    output.collect(element, timestamp)


class FunctionTimers(TimerTarget):
    """The timers of a keyed process function: they call its ``on_timer`` and emit the results.

    Attributes:
        service: The timers; set by their creator.
    """

    def __init__(
        self,
        operator: StreamOperator,
        on_timer: Callable[..., Any] | None,
        tag_class: Any,
        event_time: TimeDomain,
        processing_time: TimeDomain,
    ) -> None:
        """Create the timers of a function.

        Args:
            operator: Emits results and records failures.
            on_timer: ``on_timer(timestamp, context)`` returns an iterable or None.
            tag_class: A pair that starts with an instance of it goes to a side output.
            event_time: The context's name for event time.
            processing_time: The context's name for processing time.
        """
        TimerTarget.__init__(self, None)
        self.service: InternalTimerService = None  # type: ignore[assignment]
        self.operator = operator
        self.on_timer = on_timer
        self.procedure: Procedure | None = None
        self.tag_class = tag_class
        self.event_time = event_time
        self.processing_time = processing_time
        self.element_context: Any = None
        self.keyed_context: KeyedElementContext | None = None
        self.last_time = MIN_TIMESTAMP
        # Shared by timers of one time; when compiled, each would need a new object.
        self.time_object: Any = MIN_TIMESTAMP

    def call_with(self, element_context: object) -> None:
        """Set the context with which the function is called."""
        self.element_context = element_context
        if isinstance(element_context, KeyedElementContext):
            self.keyed_context = element_context

    def on_event_time(self, timestamp: int, key: object, namespace: object) -> None:  # noqa: ARG002
        """Fire an event-time timer."""
        self.fire(timestamp, self.event_time)

    def on_processing_time(self, timestamp: int, key: object, namespace: object) -> None:  # noqa: ARG002
        """Fire a processing-time timer."""
        self.fire(timestamp, self.processing_time)

    def fire(self, timestamp: int, domain: object) -> None:
        """Call the function; its results carry the timer's time, in both domains."""
        if self.on_timer is None:
            return
        done = False
        try:
            if timestamp != self.last_time:
                self.last_time = timestamp
                self.time_object = timestamp
            outcome = 0
            if self.procedure is not None:
                outcome = self.procedure.run(self.time_object, timestamp)
            if outcome == 0:
                self.call(timestamp, domain)
            else:
                # For functions that have kept the context.
                self.enter(timestamp, None)
            if outcome == 2:
                element = self.procedure.taken()  # type: ignore[union-attr]
                emit_result(self.operator.output, element, timestamp, self.tag_class)
            done = True
        finally:
            if not done:
                self.operator.note_failure()

    def call(self, timestamp: int, domain: object) -> None:
        """Call the function and emit its results."""
        try:
            self.enter(timestamp, domain)
            result = self.on_timer(self.time_object, self.element_context)  # type: ignore[misc]
            if result is not None:
                emit_results(self.operator.output, result, timestamp, self.tag_class)
        finally:
            self.enter(timestamp, None)

    def enter(self, timestamp: int, domain: object) -> None:
        """Set the context's timestamp and domain; a domain of None ends the firing."""
        if self.keyed_context is not None:
            self.keyed_context.current_timestamp = timestamp
            self.keyed_context.domain = domain
        else:
            self.element_context.current_timestamp = timestamp
            self.element_context.domain = domain


class ProcessOperator(FunctionOperator):
    """Emits any number of records and side outputs for each record."""

    def __init__(
        self,
        user_function: object,
        function: Callable[..., object],
        element_context: ElementContext | None,
        tag_class: Any,
    ) -> None:
        """Create the operator.

        Args:
            user_function: The object whose ``open`` and ``close`` are called.
            function: ``function(element, context)`` returns an iterable or None.
            element_context: The context of its calls; None if it is set later.
            tag_class: A pair that starts with an instance of it goes to a side output.
        """
        FunctionOperator.__init__(self, user_function, function)
        self.element_context: Any = element_context
        self.tag_class = tag_class

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        done = False
        try:
            self.element_context.current_timestamp = timestamp
            result = self.function(value, self.element_context)
            if result is not None:
                if not self.is_checked:
                    self.check_first(result)
                emit_results(self.output, result, timestamp, self.tag_class)
            done = True
        finally:
            if not done:
                self.note_failure()


class KeyedProcessOperator(ProcessOperator):
    """A ``ProcessOperator`` with timers that sets the record's key as the current one.

    It is used without subclasses: in a Python subclass, the methods called per record would have to
    be looked up every time.
    """

    def __init__(
        self,
        user_function: object,
        function: Callable[..., object],
        tag_class: Any,
        keys: KeyReader,
        state: Any,
    ) -> None:
        """Create the operator; ``use_timers`` sets the function's context.

        Args:
            user_function: The object whose ``open`` and ``close`` are called.
            function: ``function(element, context)`` returns an iterable or None.
            tag_class: A pair that starts with an instance of it goes to a side output.
            keys: Reads the keys of records.
            state: The keyed state backend, whose ``current_key`` is set.
        """
        ProcessOperator.__init__(self, user_function, function, None, tag_class)
        self.keys = keys
        self.state = state
        self.timers: FunctionTimers = None  # type: ignore[assignment]
        self.procedure: Procedure | None = None

    def use_procedures(self, procedure: Procedure | None, on_timer: Procedure | None) -> None:
        """Set procedures that replace calls of the functions; None to call them."""
        self.procedure = procedure
        self.timers.procedure = on_timer

    def use_timers(self, timers: FunctionTimers) -> None:
        """Set the function's timers; called once, before anything else."""
        self.timers = timers
        self.element_context = KeyedElementContext(KeyedTimerService(timers.service), self.state)
        timers.call_with(self.element_context)

    def process_watermark(self, timestamp: int) -> None:
        """Advance the event time of the input: fire due timers, then forward the watermark."""
        self.timers.service.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        done = False
        try:
            self.state.current_key = self.keys.read(value)
            if self.state.on_key is not None:
                self.state.on_key()
            self.element_context.current_timestamp = timestamp
            outcome = 0
            if self.procedure is not None:
                outcome = self.procedure.run(value, timestamp)
            if outcome == 0:
                result = self.function(value, self.element_context)
                if result is not None:
                    if not self.is_checked:
                        self.check_first(result)
                    emit_results(self.output, result, timestamp, self.tag_class)
            elif outcome == 2:
                element = self.procedure.taken()  # type: ignore[union-attr]
                emit_result(self.output, element, timestamp, self.tag_class)
            done = True
        finally:
            if not done:
                self.note_failure()
