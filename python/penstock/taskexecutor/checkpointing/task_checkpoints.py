"""Checkpointing of one task: barrier handler, snapshots, and the checkpoint its end waits for."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from penstock.checkpoint_storage.storage import (
    checkpoint_directory,
    configured_directory,
    log_base,
    log_directory,
    shared_directory,
)
from penstock.checkpoint_storage.streams import (
    TOO_LONG_LOG,
    DriverStateStream,
    StateOutputStream,
)
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.common.options import checkpointing
from penstock.network.events import (
    Alignment,
    CheckpointBarrier,
    SavepointFormat,
    SnapshotKind,
    StopMode,
)
from penstock.rpc.messages import (
    AwaitFinalCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from penstock.taskexecutor.checkpointing.barrier_handler import (
    AlignmentFigures,
    SingleCheckpointBarrierHandler,
)
from penstock.taskexecutor.checkpointing.barrier_tracker import CheckpointBarrierTracker
from penstock.taskexecutor.checkpointing.final_checkpoint import awaits_final_checkpoint
from penstock.taskexecutor.checkpointing.local_state import CopiedStateStream
from penstock.taskexecutor.checkpointing.subtask_coordinator import (
    OutputEdge,
    SubtaskCheckpointCoordinator,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.graph.job_graph import ChainConfig
    from penstock.rpc.checkpoint_messages import Stage
    from penstock.rpc.messages import ForCheckpoints
    from penstock.taskexecutor.checkpointing.barrier_handler import BarrierHandler
    from penstock.taskexecutor.task.operator_chain import OperatorChain
    from penstock.taskexecutor.task.task_environment import TaskEnvironment
    from penstock.taskexecutor.task.task_input import TaskInput

_STOP_MODES: Final = {
    SnapshotKind.SAVEPOINT_TERMINATE: StopMode.DRAIN,
    SnapshotKind.SAVEPOINT_SUSPEND: StopMode.NO_DRAIN,
}


class TaskCheckpoints:
    """The checkpoints of one task; all but ``notes`` and ``stage_of`` run in its thread.

    Attributes:
        handler: Handles barriers; None in a task without inputs.
        stop_mode: How a savepoint ends the task; None if none does.
    """

    def __init__(
        self,
        config: ChainConfig,
        chain: OperatorChain,
        environment: TaskEnvironment,
        channels: TaskInput | None,
        register_timer: Callable[[int, Callable[[], None]], None],
        execute: Callable[[Callable[[], object]], None],
    ) -> None:
        """Create the checkpointing of one task.

        Args:
            config: The configuration of the operators.
            chain: The operators.
            environment: The subtask.
            channels: The task's input; None if it has none.
            register_timer: Runs a function in the task's thread after a number of milliseconds.
            execute: Runs a function in the task's thread between two records.
        """
        self._environment = environment
        restored = environment.restored
        configuration = environment.configuration
        self._inline_threshold_bytes = checkpointing.INLINE_THRESHOLD.read(configuration)
        self._write_buffer_bytes = checkpointing.WRITE_BUFFER_SIZE.read(configuration)
        self._folder = configured_directory(configuration)
        self._log_base = log_base(configuration)
        outputs = {
            leaving.partition: OutputEdge(operator.id, leaving.supports_unaligned_checkpoints)
            for operator in config.operators
            for leaving in operator.network_outputs
        }
        self._coordinator = SubtaskCheckpointCoordinator(
            chain,
            environment,
            self._open_stream,
            environment.report_checkpoint,
            execute,
            register_timer,
            head_id=config.operators[0].id,
            outputs=[outputs[index] for index in range(len(environment.partitions))],
            unconsumed=_nothing if channels is None else channels.unconsumed,
            is_finished=restored is not None and restored.state.is_finished,
        )
        self.handler: BarrierHandler | None = None
        self._buffer = None if channels is None else channels.barrier_buffer
        if self._buffer is not None:
            self._buffer.target = self._coordinator
        elif channels is not None:
            if checkpointing.MODE.read(configuration) == "AT_LEAST_ONCE":
                self.handler = CheckpointBarrierTracker(channels, self._coordinator, _wall_ms)
            else:
                self.handler = SingleCheckpointBarrierHandler(
                    channels, self._coordinator, _wall_ms, register_timer
                )
        self.stop_mode: StopMode | None = None
        self._stop_barrier: CheckpointBarrier | None = None
        self._awaits_final = awaits_final_checkpoint(configuration)
        self._has_ended = False

    def handle(self, message: ForCheckpoints) -> None:
        """Handle the trigger, completion or abort of a checkpoint."""
        if isinstance(message, NotifyCheckpointComplete):
            self._coordinator.notify_complete(message.checkpoint_id)
        elif isinstance(message, NotifyCheckpointAborted):
            self._coordinator.notify_aborted(message.checkpoint_id, message.latest_completed_id)
        else:
            self._trigger(message)

    def notes(self, message: ForCheckpoints) -> bool:
        """Record a message on which the task need not act and return True; any thread.

        Most tasks do nothing when a checkpoint completes.
        """
        if (
            self._has_ended
            or not isinstance(message, NotifyCheckpointComplete)
            or self._coordinator.hears_of_completion
        ):
            return False
        self._coordinator.note_complete(message.checkpoint_id)
        return True

    def stage_of(self, checkpoint_id: int) -> Stage:
        """Return how far the task is with a checkpoint; any thread."""
        return self._coordinator.stage_of(checkpoint_id)

    def begin_end(self) -> None:
        """Note that the operators have finished and the end of data has been sent.

        If a savepoint has stopped this source, it takes that savepoint now.
        """
        self._has_ended = True
        self._coordinator.data_ended()
        if self._stop_barrier is not None:
            barrier, self._stop_barrier = self._stop_barrier, None
            self._coordinator.take_snapshot(barrier, AlignmentFigures())
        elif self._awaits_final:
            environment = self._environment
            environment.report_checkpoint(
                AwaitFinalCheckpoint(environment.job_id, environment.attempt_id)
            )

    @property
    def may_end(self) -> bool:
        """Return whether the task waits for no checkpoint of its last state."""
        if self._coordinator.last_complete_id < self._coordinator.synchronous_id:
            return False
        return not self._awaits_final or self._coordinator.is_end_complete

    @property
    def last_figures(self) -> AlignmentFigures:
        """Figures of the last checkpoint's alignment."""
        return self._coordinator.last_figures

    @property
    def alignment_ms(self) -> float:
        """Duration of the last alignment, or of the current one until now, in ms."""
        present_ms = None if self.handler is None else self.handler.alignment_until_now_ms()
        return self.last_figures.alignment_ms if present_ms is None else present_ms

    def inputs_stopped(self, mode: StopMode) -> None:
        """Note that a savepoint has stopped the producers."""
        if mode is StopMode.NO_DRAIN:
            self.stop_mode = mode

    def close(self) -> None:
        """Discard the snapshots being written and the stored input."""
        self._coordinator.close()
        if self._buffer is not None:
            self._buffer.cleanup()

    def _trigger(self, message: TriggerCheckpoint) -> None:
        barrier = _barrier(
            message.checkpoint_id,
            message.timestamp_ms,
            message.kind,
            message.savepoint_format,
            message.location,
            message.alignment,
            message.aligned_timeout_ms,
        )
        if self._buffer is not None:
            self._buffer.on_trigger(barrier)
            return
        if self.handler is not None:
            self.handler.on_trigger(barrier)
            return
        mode = _STOP_MODES.get(barrier.kind)
        if mode is None or self._has_ended:
            delay_ms = max(0, _wall_ms() - barrier.timestamp_ms)
            self._coordinator.take_snapshot(barrier, AlignmentFigures(0, delay_ms))
        elif self.stop_mode is not None:
            self._coordinator.decline(
                barrier.checkpoint_id, Reason.DECLINED_TASK_CLOSING, self._environment.task_name
            )
        else:
            self.stop_mode, self._stop_barrier = mode, barrier

    def _open_stream(
        self, barrier: CheckpointBarrier | None, is_shared: bool, is_log: bool = False
    ) -> StateOutputStream:
        """Open a stream of state.

        Args:
            barrier: The checkpoint's barrier; None beside checkpoints, where streams are shared.
            is_shared: Whether several checkpoints may refer to it.
            is_log: Whether it belongs to the change log.
        """
        if is_log and self._log_base is None:
            return DriverStateStream(TOO_LONG_LOG)
        files, threshold = self._environment.files, self._inline_threshold_bytes
        buffered = self._write_buffer_bytes
        if is_log and self._log_base is not None:
            location = log_directory(self._log_base, self._environment.job_id)
            files.of(location).make_directory(location)
        elif barrier is not None and barrier.location is not None:
            location = barrier.location.decode()
        else:
            directory = self._folder
            if directory is None:
                return DriverStateStream()
            job_id = self._environment.job_id
            if is_shared:
                location = shared_directory(directory, job_id)
                files.of(location).make_directory(location)
            else:
                assert barrier is not None, "streams beside checkpoints are shared"
                location = checkpoint_directory(directory, job_id, barrier.checkpoint_id)
        copies = self._environment.local_state
        if copies is not None and barrier is not None and barrier.location is None:
            return CopiedStateStream(
                files.of(location), location, threshold, buffered, copies, barrier.checkpoint_id
            )
        return StateOutputStream(files.of(location), location, threshold, buffered)


@lru_cache(maxsize=16)
def _barrier(
    checkpoint_id: int,
    timestamp_ms: int,
    kind: int,
    savepoint_format: int,
    location: bytes | None,
    alignment: int,
    aligned_timeout_ms: int,
) -> CheckpointBarrier:
    """Return the barrier of a message; immutable, and cached for all tasks of a worker."""
    snapshot_kind = SnapshotKind(kind)
    return CheckpointBarrier(
        checkpoint_id,
        timestamp_ms,
        snapshot_kind,
        SavepointFormat(savepoint_format),
        location if snapshot_kind.is_savepoint else None,
        Alignment(alignment),
        aligned_timeout_ms,
    )


def _nothing(channel: int) -> bytes:
    del channel
    return b""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
