"""Operators with several inputs, and those of connected streams without broadcast state."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.taskexecutor.compiled import (
    ElementContext,
    FunctionOperator,
    Input,
    KeyedElementContext,
    KeyedTimerService,
    StreamOperator,
)
from penstock.taskexecutor.operators.function_timers import ResultEmitter, function_timers
from penstock.taskexecutor.state.heap import NoKey
from penstock.taskexecutor.time.timer_service import TimeOnlyService
from penstock.taskexecutor.time.watermark_valve import CombinedWatermarkStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.datastream.functions.process import CoProcessFunction, KeyedCoProcessFunction
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_co_map(context: OperatorContext, descriptor: operators.CoMap) -> StreamOperator:
    """Create the operator of a CoMapFunction, whose None results are not emitted."""
    function = descriptor.function
    return CoMapOperator(context, (function.map1, function.map2))


def create_co_flat_map(context: OperatorContext, descriptor: operators.CoFlatMap) -> StreamOperator:
    """Create the operator of a CoFlatMapFunction."""
    function = descriptor.function
    return CoFlatMapOperator(context, (function.flat_map1, function.flat_map2))


def create_co_process(context: OperatorContext, descriptor: operators.CoProcess) -> StreamOperator:
    """Create the operator of a CoProcessFunction, with state and timers on keyed streams."""
    return _co_process(context, descriptor.function)


def create_keyed_co_process(
    context: OperatorContext, descriptor: operators.KeyedCoProcess
) -> StreamOperator:
    """Create the operator of a KeyedCoProcessFunction.

    Raises:
        InvalidProgramError: An input is not keyed.
    """
    if context.key_selector(0) is None or context.key_selector(1) is None:
        msg = f"{context.name!r} is a keyed function of two streams, but one is not keyed"
        raise InvalidProgramError(msg)
    return _co_process(context, descriptor.function)


def _co_process(
    context: OperatorContext, function: CoProcessFunction | KeyedCoProcessFunction
) -> StreamOperator:
    return CoProcessOperator(context, (function.process_element1, function.process_element2))


def create_multiple_input_process(
    context: OperatorContext, descriptor: operators.MultipleInputProcess
) -> StreamOperator:
    """Create the operator of a MultipleInputProcessFunction, keyed or not.

    Raises:
        InvalidProgramError: An input of a keyed one is not keyed.
    """
    function = descriptor.function
    numbers = range(descriptor.num_inputs)
    is_keyed = isinstance(descriptor, operators.KeyedMultipleInputProcess)
    if is_keyed and any(context.key_selector(number) is None for number in numbers):
        msg = f"{context.name!r} is a keyed function of several streams, but one is not keyed"
        raise InvalidProgramError(msg)
    return CoProcessOperator(
        context, [partial(function.process_element, number) for number in numbers]
    )


class OperatorInput(Input):
    """One of the inputs of an operator."""

    def __init__(
        self, operator: MultipleInputOperator, number: int, take: Callable[[object, int], None]
    ) -> None:
        """Create input ``number``, counted from 0; ``take`` processes its records."""
        self.operator = operator
        self.number = number
        self.take = take

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        self.take(value, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark of the input."""
        operator = self.operator
        if operator.combined.update_watermark(self.number, timestamp):
            operator.process_watermark(operator.combined.watermark)

    def process_status(self, idle: bool) -> None:
        """Process a change of idleness."""
        operator = self.operator
        was_idle = operator.combined.all_idle
        if operator.combined.update_status(self.number, idle):
            operator.process_watermark(operator.combined.watermark)
        if operator.combined.all_idle != was_idle:
            operator.process_status(not was_idle)

    def process_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Forward a latency marker."""
        self.operator.process_latency_marker(
            marked_time, operator_id_lower, operator_id_upper, subtask
        )


class MultipleInputOperator(FunctionOperator):
    """Base of operators with several inputs; event time is the smallest of theirs."""

    def __init__(
        self, user_function: object, takes: Sequence[Callable[[object, int], None]]
    ) -> None:
        """Create the operator.

        Args:
            user_function: A function object, or None.
            takes: By input, the function called with its records and their timestamps.
        """
        super().__init__(user_function, None)
        self.combined = CombinedWatermarkStatus(len(takes))
        self.inputs = [OperatorInput(self, number, take) for number, take in enumerate(takes)]

    def get_input(self, input_number: int) -> Input:
        """Return an input by its number, counted from 0."""
        return self.inputs[input_number]


class TwoInputOperator(MultipleInputOperator):
    """Base of operators with two inputs that each have their own method."""

    def __init__(self, user_function: object) -> None:
        """Create the operator around a function object, or None."""
        super().__init__(user_function, (self.process1, self.process2))

    def process1(self, value: object, timestamp: int) -> None:
        """Process a record of the first input."""
        raise NotImplementedError(type(self).__name__ + ".process1")

    def process2(self, value: object, timestamp: int) -> None:
        """Process a record of the second input."""
        raise NotImplementedError(type(self).__name__ + ".process2")


class KeyedInputsOperator(MultipleInputOperator):
    """Sets the current key before the function of an input, if the inputs are keyed."""

    def __init__(
        self, context: OperatorContext, functions: Sequence[Callable[..., object]]
    ) -> None:
        numbers = range(len(functions))
        self.functions = functions
        self.state = context.keyed_state if context.is_keyed else None
        self.keys = [context.key_reader(number) for number in numbers]
        self.no_key = NoKey(context.name, "the function of an input without keys")
        super().__init__(
            context.descriptor.user_function, [partial(self._process, number) for number in numbers]
        )

    def _process(self, number: int, value: object, timestamp: int) -> None:
        keys = self.keys[number]
        if self.state is not None:
            if keys is not None:
                self.state.select_key(keys.read(value))
            else:
                self.state.leave_key(self.no_key)
        self.call(self.functions[number], value, timestamp)

    def call(self, function: Callable[..., object], value: object, timestamp: int) -> None:
        """Call the function of an input and emit its result."""
        raise NotImplementedError(type(self).__name__ + ".call")


class CoMapOperator(KeyedInputsOperator):
    """Emits one record or none for each."""

    def call(self, function: Callable[..., object], value: object, timestamp: int) -> None:
        """Call the function of an input and emit its result."""
        result = function(value)
        if result is not None:
            self.output.collect(result, timestamp)


class CoFlatMapOperator(KeyedInputsOperator):
    """Emits any number of records for each."""

    def call(self, function: Callable[..., Any], value: object, timestamp: int) -> None:
        """Call the function of an input and emit its result."""
        result = function(value)
        if result is not None:
            if not self.is_checked:
                self.check_first(result)
            for element in result:
                self.output.collect(element, timestamp)


class CoProcessOperator(KeyedInputsOperator):
    """Emits any number of records and side outputs for each; timers on keyed streams."""

    def __init__(
        self, context: OperatorContext, functions: Sequence[Callable[..., object]]
    ) -> None:
        """Create the operator with a function for each input."""
        super().__init__(context, functions)
        self.timers = function_timers(self, context) if context.is_keyed else None
        if self.timers is not None:
            self.element_context: ElementContext = KeyedElementContext(
                KeyedTimerService(self.timers.service), self.state
            )
            self.timers.call_with(self.element_context)
        else:
            self.element_context = ElementContext(
                TimeOnlyService(context.processing_time.now, lambda: self.combined.watermark)
            )

    def call(self, function: Callable[..., object], value: object, timestamp: int) -> None:
        """Call the function of an input and emit its result."""
        self.element_context.current_timestamp = timestamp
        result = function(value, self.element_context)
        if result is not None and not self.is_checked:
            self.check_first(result)
        ResultEmitter.emit(self.output, result, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark of the input."""
        if self.timers is not None:
            self.timers.service.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)
