"""Operators of the user's own, adapted to the calls of the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.timestamps import timestamp_of
from penstock.datastream.operators import (
    InternalTimer,
    InternalTimerService,
    OneInputStreamOperator,
    OperatorServices,
    ProcessingTimeService,
    ScheduledTimer,
    StreamOperator,
    TwoInputStreamOperator,
)
from penstock.datastream.operators import Output as OperatorOutput
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.compiled import MIN_TIMESTAMP, Output
from penstock.taskexecutor.operators.two_input import KeyedInputsOperator
from penstock.taskexecutor.state.heap import NoKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.datastream.output_tag import OutputTag
    from penstock.graph import operators
    from penstock.taskexecutor.compiled import InternalTimerService as TimerService
    from penstock.taskexecutor.compiled import StreamOperator as RuntimeOperator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.state.backends.keyed_state_access import KeyedStateAccess
    from penstock.taskexecutor.time.processing_time import (
        OperatorProcessingTime,
        ProcessingTimeTimer,
    )


def create_transform(context: OperatorContext, descriptor: operators.Transform) -> RuntimeOperator:
    """Create the operator that runs a user's operator."""
    return TransformOperator(context, descriptor.function)


class TransformOperator(KeyedInputsOperator):
    """Runs an operator of the user's own."""

    def __init__(self, context: OperatorContext, user_operator: StreamOperator) -> None:
        """Wrap an operator that is set up once the output is known."""
        self.user_operator = user_operator
        takes: tuple[Callable[[Any, int | None], None], ...]
        if isinstance(user_operator, TwoInputStreamOperator):
            takes = (user_operator.process_element1, user_operator.process_element2)
        else:
            assert isinstance(user_operator, OneInputStreamOperator), "transform() checks it"
            takes = (user_operator.process_element,)
        super().__init__(context, takes)
        # Before any state is restored: restored timers need their service.
        self.timers = context.timer_service(self) if context.is_keyed else None

    @property
    def hears_of_completion(self) -> bool:
        """Return whether the user's operator reacts to complete checkpoints."""
        overridden = type(self.user_operator).notify_checkpoint_complete
        return overridden is not StreamOperator.notify_checkpoint_complete

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Pass the user's operator its services."""
        super().setup(context, output)
        self.user_operator.setup(_Services(context, output, self.timers))

    def call(self, function: Callable[..., object], value: object, timestamp: int) -> None:
        """Process a record."""
        function(value, None if timestamp == MIN_TIMESTAMP else timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark of all inputs."""
        self._leave_key("process_watermark")
        self.user_operator.process_watermark(timestamp)

    def process_status(self, idle: bool) -> None:
        """Process a change of idleness of all inputs."""
        self._leave_key("process_watermark_status")
        self.user_operator.process_watermark_status(idle=idle)

    def on_event_time(self, timestamp: int, key: object, namespace: object) -> None:  # noqa: ARG002
        """Process a timer of event time."""
        self.user_operator.on_event_time(self._timer(timestamp, namespace))

    def on_processing_time(self, timestamp: int, key: object, namespace: object) -> None:  # noqa: ARG002
        """Process a timer of the machine's clock."""
        self.user_operator.on_processing_time(self._timer(timestamp, namespace))

    def _timer(self, timestamp: int, namespace: object) -> InternalTimer:
        assert self.state is not None, "only keyed operators have timers"
        return InternalTimer(timestamp, self.state.key, namespace)

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Let the user's operator create or restore its state."""
        self._leave_key("initialize_state")
        self.user_operator.initialize_state(context)

    def open(self) -> None:
        """Open the user's operator."""
        self.opened = True
        self._leave_key("open")
        self.user_operator.open()

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Let the user's operator emit what must precede the barrier."""
        self._leave_key("prepare_snapshot_pre_barrier")
        self.user_operator.prepare_snapshot_pre_barrier(checkpoint_id)

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Let the user's operator bring its states up to date."""
        self._leave_key("snapshot_state")
        self.user_operator.snapshot_state(context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the user's operator of a completed checkpoint."""
        self._leave_key("notify_checkpoint_complete")
        self.user_operator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the user's operator of an aborted checkpoint."""
        self._leave_key("notify_checkpoint_aborted")
        self.user_operator.notify_checkpoint_aborted(checkpoint_id)

    def end_input(self, input_number: int) -> None:
        """Notify the user's operator of the end of an input."""
        self._leave_key("end_input")
        if isinstance(self.user_operator, TwoInputStreamOperator):
            self.user_operator.end_input(input_number + 1)
        elif isinstance(self.user_operator, OneInputStreamOperator):
            self.user_operator.end_input()

    def finish(self) -> None:
        """Let the user's operator emit what it has buffered."""
        self._leave_key("finish")
        self.user_operator.finish()

    def close(self) -> None:
        """Close the user's operator if it was opened."""
        if self.opened:
            self.opened = False
            self._leave_key("close")
            self.user_operator.close()

    def _leave_key(self, method: str) -> None:
        if self.state is not None:
            self.context.leave_key(self.user_operator, method)


class _Services(OperatorServices):
    """Services of the runtime for one operator."""

    def __init__(
        self, context: OperatorContext, output: Output, timers: TimerService | None
    ) -> None:
        self.output = _Output(output)
        self.runtime_context = context.runtime_context
        self._name = context.name
        self._service = timers
        self._timers: InternalTimerService | None = None
        self._state: KeyedStateAccess | None = None
        if timers is not None:
            self._state = context.keyed_state
            self._timers = _Timers(timers)
        self.processing_time = _ProcessingTime(context.processing_time, self._leave_key)

    def timers(self) -> InternalTimerService:
        if self._timers is None:
            raise InvalidProgramError(
                f"operator {self._name!r} has no timers of keys, because no input is keyed: call "
                "key_by() before transform(), or use get_processing_time_service()"
            )
        return self._timers

    def current_key(self) -> object:
        if self._state is None:
            raise InvalidProgramError(
                f"operator {self._name!r} has no current key, because no input is keyed: call "
                "key_by() before transform()"
            )
        return self._state.key

    def advance_watermark(self, timestamp: int) -> None:
        if self._service is not None:
            self._service.advance_watermark(timestamp)
            self._leave_key("what follows the timers of a watermark")

    def _leave_key(self, place: str) -> None:
        if self._state is not None:
            self._state.leave_key(NoKey(self._name, place))


class _Output(OperatorOutput):
    """Output of an operator, with timestamps that may be missing."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def collect(self, value: object, timestamp: int | None = None) -> None:
        self._output.collect(value, _time_or_none(timestamp, "collect"))

    def collect_side(
        self, output_tag: OutputTag, value: object, timestamp: int | None = None
    ) -> None:
        self._output.collect_side(
            output_tag.tag_id, value, _time_or_none(timestamp, "collect_side")
        )

    def emit_watermark(self, timestamp: int) -> None:
        self._output.emit_watermark(timestamp_of(timestamp, "emit_watermark"))

    def emit_watermark_status(self, *, idle: bool) -> None:
        self._output.emit_status(idle)


def _time_or_none(timestamp: int | None, where: str) -> int:
    return MIN_TIMESTAMP if timestamp is None else timestamp_of(timestamp, where)


class _Timers(InternalTimerService):
    """Timers of the current key."""

    def __init__(self, service: TimerService) -> None:
        self._service = service

    def current_processing_time(self) -> int:
        return self._service.current_processing_time()

    def current_watermark(self) -> int:
        return self._service.current_watermark

    def register_event_time_timer(self, namespace: object, time: int) -> None:
        time = timestamp_of(time, "register_event_time_timer")
        self._service.register_event_time_timer(namespace, time)

    def delete_event_time_timer(self, namespace: object, time: int) -> None:
        time = timestamp_of(time, "delete_event_time_timer")
        self._service.delete_event_time_timer(namespace, time)

    def register_processing_time_timer(self, namespace: object, time: int) -> None:
        time = timestamp_of(time, "register_processing_time_timer")
        self._service.register_processing_time_timer(namespace, time)

    def delete_processing_time_timer(self, namespace: object, time: int) -> None:
        time = timestamp_of(time, "delete_processing_time_timer")
        self._service.delete_processing_time_timer(namespace, time)


class _ProcessingTime(ProcessingTimeService):
    """Processing time, with timers that belong to no key."""

    def __init__(self, clock: OperatorProcessingTime, leave_key: Callable[[str], None]) -> None:
        self._clock = clock
        self._leave_key = leave_key

    def get_current_processing_time(self) -> int:
        return self._clock.now()

    def register_timer(self, timestamp: int, target: Callable[[int], object]) -> ScheduledTimer:
        def fire(time: int) -> None:
            self._leave_key("a processing-time callback")
            target(time)

        return _ScheduledTimer(
            self._clock.register(timestamp_of(timestamp, "register_timer"), fire)
        )


class _ScheduledTimer(ScheduledTimer):
    """A registered call."""

    def __init__(self, timer: ProcessingTimeTimer) -> None:
        self._timer = timer

    def cancel(self) -> None:
        self._timer.cancel()
