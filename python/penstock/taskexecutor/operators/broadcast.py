"""Process functions of a stream and a broadcast stream, whose state is equal in all subtasks."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast

from penstock.datastream.functions.broadcast import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.compiled import MIN_TIMESTAMP, KeyedTimerService, StreamOperator
from penstock.taskexecutor.operators.function_timers import ResultEmitter, function_timers
from penstock.taskexecutor.operators.two_input import TwoInputOperator
from penstock.taskexecutor.state.heap import NoKey
from penstock.taskexecutor.state.opened_states import OpenedStates
from penstock.taskexecutor.time.timer_service import TimeOnlyService

if TYPE_CHECKING:
    from penstock.datastream.state import MapStateDescriptor
    from penstock.datastream.time_domain import TimeDomain
    from penstock.datastream.timerservice import TimerService
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_broadcast_process(
    context: OperatorContext, descriptor: operators.BroadcastProcess
) -> StreamOperator:
    """Create the operator of a BroadcastProcessFunction."""
    del context
    return BroadcastProcessOperator(descriptor.function)


def create_keyed_broadcast_process(
    context: OperatorContext, descriptor: operators.KeyedBroadcastProcess
) -> StreamOperator:
    """Create the operator of a KeyedBroadcastProcessFunction.

    Raises:
        InvalidProgramError: The first input is not keyed.
    """
    if context.key_selector(0) is None:
        msg = f"{context.name!r} is a keyed broadcast function, but its stream is not keyed"
        raise InvalidProgramError(msg)
    return KeyedBroadcastProcessOperator(context, descriptor.function)


class _Times:
    """Times of the current record, for both inputs."""

    operator: BroadcastProcessOperator

    def __init__(self, operator: BroadcastProcessOperator) -> None:
        self.operator = operator
        self.current_timestamp = MIN_TIMESTAMP
        self.timers: TimerService = TimeOnlyService(
            self.current_processing_time, self.current_watermark
        )
        self._opened = OpenedStates(self.open_state)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> Any:
        """Return the state of a descriptor."""
        return self._opened.view("broadcast", state_descriptor)

    @abstractmethod
    def open_state(self, kind: str, descriptor: MapStateDescriptor) -> object:
        """Return a view of a broadcast state."""

    def timestamp(self) -> int:
        """Return the record's timestamp in ms, -2**63 if it has none."""
        return self.current_timestamp

    def current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""
        return self.operator.context.processing_time.now()

    def current_watermark(self) -> int:
        """Return the current watermark, in ms."""
        return self.operator.combined.watermark

    def timer_service(self) -> TimerService:
        """Return the timer service; without a key it only tells the time."""
        return self.timers


class BroadcastSideContext(
    _Times, BroadcastProcessFunction.Context, KeyedBroadcastProcessFunction.Context
):
    """Context of the broadcast side: it may change the state."""

    def open_state(self, kind: str, descriptor: MapStateDescriptor) -> object:
        """Open the state for `get_broadcast_state`."""
        del kind
        context = self.operator.context
        return context.operator_state.broadcast_state(
            descriptor,
            context.isolation.of_map(descriptor),
            is_private=context.isolation.is_wanted,
        )


class ReadOnlySideContext(
    _Times,
    BroadcastProcessFunction.ReadOnlyContext,
    KeyedBroadcastProcessFunction.OnTimerContext,
):
    """Context of the other side, with read-only state and, on keyed streams, timers."""

    domain: TimeDomain

    def open_state(self, kind: str, descriptor: MapStateDescriptor) -> object:
        """Open a read-only view of the state for `get_broadcast_state`."""
        del kind
        context = self.operator.context
        return context.operator_state.read_only_broadcast_state(
            descriptor,
            context.isolation.of_map(descriptor),
            is_private=context.isolation.is_wanted,
        )

    def time_domain(self) -> TimeDomain:
        """Return the time domain of the timer that fires."""
        return self.domain

    def get_current_key(self) -> object:
        """Return the key of the record or timer."""
        return self.operator.context.keyed_state.key


class BroadcastProcessOperator(TwoInputOperator):
    """Runs a BroadcastProcessFunction; the second input is the broadcast one."""

    def __init__(self, function: Any) -> None:
        """Create the operator."""
        self.process_element = function.process_element
        self.process_broadcast_element = function.process_broadcast_element
        super().__init__(function)
        self.element_side = ReadOnlySideContext(self)
        self.broadcast_side = BroadcastSideContext(self)

    def process1(self, value: object, timestamp: int) -> None:
        """Process a record of the first input."""
        self.element_side.current_timestamp = timestamp
        result = self.process_element(value, self.element_side)
        if result is not None and not self.is_checked:
            self.check_first(result)
        ResultEmitter.emit(self.output, result, timestamp)

    def process2(self, value: object, timestamp: int) -> None:
        """Process a record of the second input."""
        self.broadcast_side.current_timestamp = timestamp
        result = self.process_broadcast_element(value, self.broadcast_side)
        if result is not None and not self.is_checked:
            self.check_first(result)
        ResultEmitter.emit(self.output, result, timestamp)


class KeyedBroadcastProcessOperator(BroadcastProcessOperator):
    """Runs a KeyedBroadcastProcessFunction, with keyed state and timers on the first input."""

    def __init__(self, context: OperatorContext, function: Any) -> None:
        """Create the operator."""
        self.state = context.keyed_state
        self.keys: Any = context.key_reader(0)
        self.no_key = NoKey(
            context.name,
            f"{type(function).__name__}.process_broadcast_element()",
            "a broadcast record has no key; use get_broadcast_state, or keep it for "
            "process_element",
        )
        super().__init__(function)
        self.timers = function_timers(self, context)
        self.timers.call_with(self.element_side)
        self.element_side.timers = cast("TimerService", KeyedTimerService(self.timers.service))

    def process1(self, value: object, timestamp: int) -> None:
        """Process a record of the first input."""
        self.state.select_key(self.keys.read(value))
        super().process1(value, timestamp)

    def process2(self, value: object, timestamp: int) -> None:
        """Process a record of the second input, which has no key."""
        self.state.leave_key(self.no_key)
        super().process2(value, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark of the input."""
        self.timers.service.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)
