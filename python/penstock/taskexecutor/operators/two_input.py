"""Operators with two inputs, and those of connected streams without broadcast state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.output_tag import OutputTag
from penstock.datastream.time_domain import TimeDomain
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.loop import (
    ElementContext,
    FunctionOperator,
    Input,
    KeyedElementContext,
    StreamOperator,
)
from penstock.taskexecutor.timer_service import KeyedTimerService, TimeOnlyService
from penstock.taskexecutor.watermark_valve import CombinedWatermarkStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.operator_context import OperatorContext


def create_co_map(context: OperatorContext) -> StreamOperator:
    """A CoMapFunction: results of None are not emitted."""
    function: Any = context.descriptor.function
    return CoMapOperator(context, (function.map1, function.map2))


def create_co_flat_map(context: OperatorContext) -> StreamOperator:
    """A CoFlatMapFunction."""
    function: Any = context.descriptor.function
    return CoFlatMapOperator(context, (function.flat_map1, function.flat_map2))


def create_co_process(context: OperatorContext) -> StreamOperator:
    """A CoProcessFunction, on keyed streams with state and timers."""
    function: Any = context.descriptor.function
    return CoProcessOperator(context, (function.process_element1, function.process_element2))


def create_keyed_co_process(context: OperatorContext) -> StreamOperator:
    """A KeyedCoProcessFunction.

    Raises:
        InvalidProgramError: An input is not keyed.
    """
    if context.key_selector(0) is None or context.key_selector(1) is None:
        msg = f"{context.name!r} is a keyed function of two streams, but one is not keyed"
        raise InvalidProgramError(msg)
    return create_co_process(context)


class OperatorInput(Input):
    """One of the two inputs of an operator."""

    def __init__(self, operator: TwoInputOperator, number: int) -> None:
        """Creates input ``number``, counted from 0."""
        self.operator = operator
        self.number = number
        self.take = operator.process1 if number == 0 else operator.process2

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            self.take(value, timestamp)
        except BaseException as error:
            self.operator.failed_with = error
            raise

    def process_watermark(self, timestamp: int) -> None:
        """Event time of the input has advanced."""
        operator = self.operator
        if operator.combined.update_watermark(self.number, timestamp):
            operator.process_watermark(operator.combined.watermark)

    def process_status(self, idle: bool) -> None:
        """The input became idle or active."""
        operator = self.operator
        was_idle = operator.combined.all_idle
        if operator.combined.update_status(self.number, idle):
            operator.process_watermark(operator.combined.watermark)
        if operator.combined.all_idle != was_idle:
            operator.output.emit_status(not was_idle)

    def process_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Passes a latency marker on."""
        self.operator.process_latency_marker(
            marked_time, operator_id_lower, operator_id_upper, subtask
        )


class TwoInputOperator(FunctionOperator):
    """Base of the operators with two inputs; event time is the smaller of both."""

    def __init__(self, user_function: Any) -> None:
        """Creates the operator around a function object, or None."""
        super().__init__(user_function, None)
        self.combined = CombinedWatermarkStatus(2)
        self.inputs = (OperatorInput(self, 0), OperatorInput(self, 1))

    def get_input(self, input_number: int) -> Input:
        """The first or the second input."""
        return self.inputs[input_number]

    def process1(self, value: Any, timestamp: int) -> None:
        """Takes an element of the first input."""
        raise NotImplementedError(type(self).__name__ + ".process1")

    def process2(self, value: Any, timestamp: int) -> None:
        """Takes an element of the second input."""
        raise NotImplementedError(type(self).__name__ + ".process2")


class _CoFunctionOperator(TwoInputOperator):
    """Sets the current key before the function, when the inputs are keyed."""

    def __init__(
        self,
        context: OperatorContext,
        functions: tuple[Callable[..., Any], Callable[..., Any]],
    ) -> None:
        self.functions = functions
        self.state = context.keyed_state if context.is_keyed else None
        self.selectors = (context.key_selector(0), context.key_selector(1))
        super().__init__(context.descriptor.function)

    def process1(self, value: Any, timestamp: int) -> None:
        """Takes an element of the first input."""
        self._process(0, value, timestamp)

    def process2(self, value: Any, timestamp: int) -> None:
        """Takes an element of the second input."""
        self._process(1, value, timestamp)

    def _process(self, number: int, value: Any, timestamp: int) -> None:
        selector = self.selectors[number]
        if selector is not None and self.state is not None:
            self.state.current_key = selector(value)
        self.call(self.functions[number], value, timestamp)

    def call(self, function: Callable[..., Any], value: Any, timestamp: int) -> None:
        """Calls the function of an input and emits its result."""
        raise NotImplementedError(type(self).__name__ + ".call")


class CoMapOperator(_CoFunctionOperator):
    """One element or none for each."""

    def call(self, function: Callable[..., Any], value: Any, timestamp: int) -> None:
        """Calls the function of an input and emits its result."""
        result = function(value)
        if result is not None:
            self.output.collect(result, timestamp)


class CoFlatMapOperator(_CoFunctionOperator):
    """Any number of elements for each."""

    def call(self, function: Callable[..., Any], value: Any, timestamp: int) -> None:
        """Calls the function of an input and emits its result."""
        result = function(value)
        if result is not None:
            for element in result:
                self.output.collect(element, timestamp)


class ResultEmitter:
    """Emits what process functions return: elements, and pairs of tag and value."""

    @staticmethod
    def emit(output: Any, result: Any, timestamp: int) -> None:
        """Emits an iterable; None emits nothing."""
        if result is None:
            return
        for element in result:
            if (
                isinstance(element, tuple)
                and len(element) == 2
                and isinstance(element[0], OutputTag)
            ):
                output.collect_side(element[0].tag_id, element[1], timestamp)
            else:
                output.collect(element, timestamp)


class CoProcessOperator(_CoFunctionOperator):
    """Any number of elements and side outputs for each, and timers on keyed streams."""

    def __init__(
        self,
        context: OperatorContext,
        functions: tuple[Callable[..., Any], Callable[..., Any]],
    ) -> None:
        """Creates the operator."""
        super().__init__(context, functions)
        self.timers = context.timer_service(self) if context.is_keyed else None
        self.on_timer = getattr(context.descriptor.function, "on_timer", None)
        if self.timers is not None:
            self.element_context: ElementContext = KeyedElementContext(
                KeyedTimerService(self.timers), self.state
            )
        else:
            self.element_context = ElementContext(
                TimeOnlyService(context.processing_time.now, lambda: self.combined.watermark)
            )

    def call(self, function: Callable[..., Any], value: Any, timestamp: int) -> None:
        """Calls the function of an input and emits its result."""
        self.element_context.current_timestamp = timestamp
        ResultEmitter.emit(self.output, function(value, self.element_context), timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Event time of the input has advanced."""
        if self.timers is not None:
            self.timers.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        """An event-time timer fired."""
        del key, namespace
        self._fire(timestamp, TimeDomain.EVENT_TIME)

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        """A processing-time timer fired."""
        del key, namespace
        self._fire(timestamp, TimeDomain.PROCESSING_TIME)

    def _fire(self, timestamp: int, domain: TimeDomain) -> None:
        """Calls the function; what it emits carries the timer's time, of either kind."""
        if self.on_timer is None:
            return
        context = self.element_context
        assert isinstance(context, KeyedElementContext)
        context.current_timestamp = timestamp
        context.domain = domain
        try:
            ResultEmitter.emit(self.output, self.on_timer(timestamp, context), timestamp)
        except BaseException as error:
            self.failed_with = error
            raise
        finally:
            context.domain = None
