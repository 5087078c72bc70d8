"""Custom operators, for ``transform`` of streams, with Flink's names (beyond PyFlink).

An operator sees more than a function: watermarks and idleness of its inputs, timers with
namespaces, the barrier of a checkpoint, and the end of each input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.datastream.functions.runtime_context import RuntimeContext
    from penstock.datastream.output_tag import OutputTag

__all__ = [
    "InternalTimer",
    "InternalTimerService",
    "OneInputStreamOperator",
    "OperatorServices",
    "Output",
    "ProcessingTimeService",
    "ScheduledTimer",
    "StreamOperator",
    "TwoInputStreamOperator",
]


class Output(ABC):
    """Output of an operator."""

    @abstractmethod
    def collect(self, value: Any, timestamp: int | None = None) -> None:
        """Emit a record.

        Args:
            value: The record.
            timestamp: Its timestamp in ms; None for a record without one.
        """

    @abstractmethod
    def collect_side(self, output_tag: OutputTag, value: Any, timestamp: int | None = None) -> None:
        """Emit a record to a side output; it is dropped if nobody reads that output.

        Args:
            output_tag: The side output.
            value: The record.
            timestamp: Its timestamp in ms; None for a record without one.
        """

    @abstractmethod
    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark, in ms: no record with this or an earlier timestamp follows."""

    @abstractmethod
    def emit_watermark_status(self, *, idle: bool) -> None:
        """Declare the stream idle or active for the watermarks of its receivers."""


class InternalTimer(NamedTuple):
    """A timer that fires.

    Attributes:
        timestamp: The time that it was registered for, in ms.
        key: The key that it was registered for.
        namespace: The namespace that it was registered with.
    """

    timestamp: int
    key: Any
    namespace: Any


class InternalTimerService(ABC):
    """Timers of the current key, which checkpoints store.

    There is at most one timer of each kind for a key, a namespace and a time.  A namespace is any
    value that can be hashed and serialised, such as None, a string or a window.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the event time reached, in ms; -2**63 before the first watermark."""

    @abstractmethod
    def register_event_time_timer(self, namespace: Any, time: int) -> None:
        """Call `StreamOperator.on_event_time` when event time reaches ``time``, in ms."""

    @abstractmethod
    def delete_event_time_timer(self, namespace: Any, time: int) -> None:
        """Delete an event-time timer; do nothing if there is none."""

    @abstractmethod
    def register_processing_time_timer(self, namespace: Any, time: int) -> None:
        """Call `StreamOperator.on_processing_time` when the clock reaches ``time``, in ms."""

    @abstractmethod
    def delete_processing_time_timer(self, namespace: Any, time: int) -> None:
        """Delete a processing-time timer; do nothing if there is none."""


class ScheduledTimer(ABC):
    """A registered call of `ProcessingTimeService.register_timer`."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the call; do nothing if it was made."""


class ProcessingTimeService(ABC):
    """Calls at times of the machine's clock, without key and state, and not in checkpoints."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""

    @abstractmethod
    def register_timer(self, timestamp: int, target: Callable[[int], object]) -> ScheduledTimer:
        """Call ``target(timestamp)`` in the task's thread when the clock reaches ``timestamp``.

        Args:
            timestamp: The time, in ms.
            target: Called between two records, while no key is current.
        """


class OperatorServices(ABC):
    """Services of the runtime for one operator of one subtask.

    Attributes:
        output: The operator's output.
        runtime_context: The subtask, its metrics and, if the operator is keyed, its state.
        processing_time: The machine's clock.
    """

    output: Output
    runtime_context: RuntimeContext
    processing_time: ProcessingTimeService

    @abstractmethod
    def timers(self) -> InternalTimerService:
        """Return the operator's timers.

        Raises:
            InvalidProgramError: No input is keyed.
        """

    @abstractmethod
    def current_key(self) -> Any:
        """Return the current key.

        Raises:
            InvalidProgramError: No key is current.
        """

    @abstractmethod
    def advance_watermark(self, timestamp: int) -> None:
        """Set event time, in ms, and fire the timers that are due."""


class StreamOperator(ABC):  # noqa: B024 (its subclasses have abstract methods)
    """Base of `OneInputStreamOperator` and `TwoInputStreamOperator`.

    Life cycle of each subtask: `setup`, `initialize_state`, `open`, records, the ends of the
    inputs, `finish`, `close`.  A checkpoint lies between two records:
    `prepare_snapshot_pre_barrier` may emit, `snapshot_state` must not.

    The operator is pickled when it is added to the program: create whatever cannot travel in
    `open`.  All methods run in the task's thread.
    """

    _services: OperatorServices | None = None

    def setup(self, services: OperatorServices) -> None:
        """Receive the services of the runtime; called once, before anything else."""
        self._services = services

    @property
    def output(self) -> Output:
        """The operator's output."""
        return self._required().output

    def get_runtime_context(self) -> RuntimeContext:
        """Return the subtask, its metrics and, if the operator is keyed, its state."""
        return self._required().runtime_context

    def get_internal_timer_service(self) -> InternalTimerService:
        """Return the timers of the current key.

        Raises:
            InvalidProgramError: No input is keyed.
        """
        return self._required().timers()

    def get_processing_time_service(self) -> ProcessingTimeService:
        """Return the machine's clock, with calls that belong to no key."""
        return self._required().processing_time

    def get_current_key(self) -> Any:
        """Return the key of the record or timer being processed.

        Raises:
            InvalidProgramError: No key is current.
        """
        return self._required().current_key()

    def _required(self) -> OperatorServices:
        if self._services is None:
            raise RuntimeError(
                f"{type(self).__name__} has no services yet: use them in open() or later, and "
                "call super().setup(services) if setup() is overridden"
            )
        return self._services

    # Life cycle -------------------------------------------------------------------------------

    def initialize_state(self, context: StateInitializationContext) -> None:  # noqa: B027
        """Create or restore operator state; called once, before `open`."""

    def open(self) -> None:  # noqa: B027
        """Prepare for records."""

    def finish(self) -> None:  # noqa: B027
        """Emit buffered records; all inputs have ended, and no record follows."""

    def close(self) -> None:  # noqa: B027
        """Release resources; called once however the task ends.  Must not emit."""

    # Checkpoints ------------------------------------------------------------------------------

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: B027
        """Emit what must precede the barrier of a checkpoint."""

    def snapshot_state(self, context: StateSnapshotContext) -> None:  # noqa: B027
        """Update the states; the checkpoint stores their content afterwards.  Must not emit."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027
        """React to a complete checkpoint; a later one also completes those before it."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027
        """React to an aborted checkpoint."""

    # Time -------------------------------------------------------------------------------------

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark, in ms; with two inputs, the smaller of their watermarks.

        This method fires the timers that are due, then emits the watermark.  An override calls it,
        or emits its own watermarks.
        """
        self._required().advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    def process_watermark_status(self, *, idle: bool) -> None:
        """Emit a change of idleness; with two inputs, `idle` is True if both are idle."""
        self.output.emit_watermark_status(idle=idle)

    def on_event_time(self, timer: InternalTimer) -> None:
        """Process an event-time timer that fires; its key is current."""
        raise NotImplementedError(f"{type(self).__name__} has timers, but no on_event_time()")

    def on_processing_time(self, timer: InternalTimer) -> None:
        """Process a processing-time timer that fires; its key is current."""
        raise NotImplementedError(f"{type(self).__name__} has timers, but no on_processing_time()")


class OneInputStreamOperator(StreamOperator):
    """An operator with one input, for `DataStream.transform`."""

    @abstractmethod
    def process_element(self, value: Any, timestamp: int | None) -> None:
        """Process a record; on a keyed stream its key is current.

        Args:
            value: The record.
            timestamp: Its timestamp in ms; None for a record without one.
        """

    def end_input(self) -> None:
        """React to the end of the input, before `finish`; may emit."""


class TwoInputStreamOperator(StreamOperator):
    """An operator with two inputs, for `ConnectedStreams.transform`."""

    @abstractmethod
    def process_element1(self, value: Any, timestamp: int | None) -> None:
        """Process a record of the first input, as `OneInputStreamOperator.process_element`."""

    @abstractmethod
    def process_element2(self, value: Any, timestamp: int | None) -> None:
        """Process a record of the second input."""

    def end_input(self, input_id: int) -> None:
        """React to the end of an input, 1 or 2, before `finish`; may emit."""
