"""Checkpointing in a subtask: snapshots, acknowledgements and notifications (internals M58)."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.checkpoint_storage.handles import TaskStateSnapshot
from penstock.common.exception_deadline import described_in_time
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.common.options.checkpointing import INLINE_THRESHOLD
from penstock.errors import IllegalStateError
from penstock.network.events import (
    Alignment,
    CancelCheckpointMarker,
    SnapshotKind,
    data_type_of,
    serialize_event,
)
from penstock.rpc.messages import AcknowledgeCheckpoint, DeclineCheckpoint
from penstock.taskexecutor.checkpointing.barrier_handler import AlignmentFigures
from penstock.taskexecutor.checkpointing.channel_state import ChannelStateWriter
from penstock.taskexecutor.checkpointing.follow_ups import FollowUps
from penstock.taskexecutor.checkpointing.keyed_snapshot_strategies import KeyedSnapshotStrategies
from penstock.taskexecutor.checkpointing.snapshot_slices import SlicedSnapshot, SnapshotSlices
from penstock.taskexecutor.checkpointing.subtask_snapshot import (
    SubtaskSnapshot,
    SubtaskSnapshotWriter,
    overtaking,
)
from penstock.taskexecutor.checkpointing.writing_thread import WritingThread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.network.events import CheckpointBarrier
    from penstock.rpc.checkpoint_messages import Stage as TaskStage
    from penstock.rpc.message import Message
    from penstock.taskexecutor.state.backends.keyed_state_backend import KeyedSnapshot
    from penstock.taskexecutor.task.operator_chain import OperatorChain
    from penstock.taskexecutor.task.task_environment import TaskEnvironment

logger = logging.getLogger(__name__)

#: Number of aborted checkpoints remembered, whose late barriers are ignored.
_REMEMBERED_ABORTS: Final = 128


@dataclass(frozen=True)
class OutputEdge:
    """Output partition of a task, as its checkpoints see it.

    Attributes:
        operator_id: The operator that in-flight output belongs to.
        supports_unaligned: Whether barriers may overtake its data.
    """

    operator_id: bytes
    supports_unaligned: bool


class SubtaskCheckpointCoordinator:
    """Takes the snapshots of one subtask.

    All methods run in the task's thread; a thread of its own, which starts with the first snapshot,
    writes and reports.
    """

    def __init__(
        self,
        chain: OperatorChain,
        environment: TaskEnvironment,
        open_stream: Callable[..., StateOutputStream],
        report: Callable[[Message], None],
        execute: Callable[[Callable[[], object]], None],
        register_timer: Callable[[int, Callable[[], None]], None],
        *,
        head_id: bytes,
        outputs: Sequence[OutputEdge],
        unconsumed: Callable[[int], bytes],
        is_finished: bool,
    ) -> None:
        """Create a coordinator for one subtask.

        Args:
            chain: The operators.
            environment: The subtask.
            open_stream: Opens a stream of state for a barrier's checkpoint or, given True, one that
                later checkpoints may refer to; with ``is_log``, a stream of the change log. The
                barrier is None for state written beside checkpoints.
            report: Sends a message to the JobMaster, from any thread.
            execute: Runs a function in the task's thread between two records.
            register_timer: Runs a function in the task's thread after a number of milliseconds.
            head_id: The operator that in-flight input belongs to.
            outputs: The output partitions, by index.
            unconsumed: Returns the bytes that the task has read from a channel and not processed.
            is_finished: Whether the restored task had already finished.
        """
        self._chain = chain
        self._environment = environment
        self._report = report
        self._outputs = outputs
        self._is_finished = is_finished
        self._capture = ChannelStateWriter([gate for _, gate in environment.gates], unconsumed)
        self.last_figures = AlignmentFigures()
        self._last_id = -1
        self._taken_id = -1
        self._final_id: int | None = None
        self._data_has_ended = False
        self._last_complete_id = -1
        self._synchronous_id = -1
        self._aborted: OrderedDict[int, None] = OrderedDict()
        self._under_way: dict[int, SubtaskSnapshot] = {}
        self._slices = SnapshotSlices(execute)
        self._follow_ups = FollowUps(register_timer)
        self._writer: WritingThread | None = None
        self._keyed = KeyedSnapshotStrategies(environment)
        if not is_finished:
            self._keyed.materialize(
                open_snapshots=self._open_wholes,
                slices=self._slices,
                open_stream=lambda: open_stream(None, True),
                write=self._submit,
                execute=execute,
                register_timer=register_timer,
            )
        self._snapshot_writer = SubtaskSnapshotWriter(
            environment,
            self._keyed,
            open_stream,
            head_id=head_id,
            tail_ids=[output.operator_id for output in outputs],
        )
        self._inline_bytes = INLINE_THRESHOLD.read(environment.configuration)

    def data_ended(self) -> None:
        """Note that every later snapshot contains the end of the task."""
        self._data_has_ended = True

    @property
    def is_end_complete(self) -> bool:
        """Return whether a checkpoint that holds the end of the task is complete.

        A checkpoint from before this attempt does not count, though the task may be notified of it.
        """
        return self._final_id is not None and self._last_complete_id >= self._final_id

    @property
    def last_complete_id(self) -> int:
        """The latest checkpoint known to be complete; -1 before the first."""
        return self._last_complete_id

    @property
    def synchronous_id(self) -> int:
        """The savepoint with which the job stops; -1 for none."""
        return self._synchronous_id

    @property
    def hears_of_completion(self) -> bool:
        """Return whether this subtask acts on completed checkpoints."""
        return (
            self._keyed.refers
            or self._environment.local_state is not None
            or self._synchronous_id >= 0
            or (not self._is_finished and self._chain.hears_of_completion)
        )

    def take_snapshot(self, barrier: CheckpointBarrier, figures: AlignmentFigures) -> None:
        """Forward the barrier and take the operators' snapshots.

        Raises:
            Exception: Raised by an operator or a user function.
        """
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id <= self._last_id:
            self._capture.stop(checkpoint_id)
            return
        self._last_id = checkpoint_id
        self.last_figures = figures
        if checkpoint_id in self._aborted:
            self._capture.stop(checkpoint_id)
            self._cancel_downstream(checkpoint_id)
            return
        if barrier.kind in (SnapshotKind.SAVEPOINT_SUSPEND, SnapshotKind.SAVEPOINT_TERMINATE):
            self._synchronous_id = checkpoint_id
        if self._data_has_ended and self._final_id is None:
            self._final_id = checkpoint_id
        # Inputs were aligned where required; where outputs need no alignment, the barrier
        # overtakes.
        snapshot = SubtaskSnapshot(barrier.as_before_it_was_forced, figures, time.monotonic_ns())
        captures = snapshot.captures = barrier.alignment is Alignment.UNALIGNED
        if captures and not self._start_capture(checkpoint_id):
            return
        if not self._is_finished:
            self._chain.prepare_snapshot_pre_barrier(checkpoint_id)
        self._send_barrier(snapshot)
        if not self._is_finished:
            snapshot.base_of = self._keyed.begin(barrier)
            snapshot.operators = self._chain.snapshot_state(
                checkpoint_id, barrier.timestamp_ms, snapshot.base_of
            )
        snapshot.sync_ms = (time.monotonic_ns() - snapshot.started_ns) / 1e6
        self._under_way[checkpoint_id] = snapshot
        self._taken_id = checkpoint_id
        if not captures:
            self._serialise(snapshot)
        elif self._capture.is_complete:
            self.barriers_complete(checkpoint_id, figures)

    def stage_of(self, checkpoint_id: int) -> TaskStage:
        """Return the subtask's progress with a checkpoint; any thread."""
        snapshot = self._under_way.get(checkpoint_id)
        if snapshot is not None:
            return "WAITING" if snapshot.captures and snapshot.inputs is None else "WRITING"
        if checkpoint_id <= self._taken_id:
            return "WRITTEN"
        return "TAKING" if checkpoint_id == self._last_id else "WAITING"

    def barriers_complete(self, checkpoint_id: int, figures: AlignmentFigures) -> None:
        """Write an unaligned checkpoint whose barriers have all arrived."""
        snapshot = self._under_way.get(checkpoint_id)
        if snapshot is not None and snapshot.inputs is None:
            snapshot.figures = self.last_figures = figures
            snapshot.inputs = self._capture.take()
            self._capture.stop(checkpoint_id)
            self._serialise(snapshot)

    def abort_snapshot(self, checkpoint_id: int, reason: Reason) -> None:
        """Abort the checkpoint, cancel it downstream and decline it."""
        self._capture.stop(checkpoint_id)
        self._discard(checkpoint_id)
        self._remember_aborted(checkpoint_id)
        if checkpoint_id > self._last_id:
            self._last_id = checkpoint_id
            self._cancel_downstream(checkpoint_id)
        self.decline(checkpoint_id, reason, self._environment.task_name)

    def decline(self, checkpoint_id: int, reason: Reason, detail: str) -> None:
        """Decline a checkpoint at the JobMaster."""
        self._report(
            DeclineCheckpoint(
                self._environment.job_id,
                self._environment.attempt_id,
                checkpoint_id,
                reason.name,
                detail,
            )
        )

    def notify_complete(self, checkpoint_id: int) -> None:
        """Handle the completion of a checkpoint and all before it; once each, in order."""
        if checkpoint_id <= self._last_complete_id:
            return
        self._last_complete_id = checkpoint_id
        if self._environment.local_state is not None:
            self._environment.local_state.completed(checkpoint_id)
        self._keyed.completed(checkpoint_id)
        if not self._is_finished:
            self._chain.notify_checkpoint_complete(checkpoint_id)

    def note_complete(self, checkpoint_id: int) -> None:
        """Record a complete checkpoint on which nothing here acts; any thread, in order."""
        self._last_complete_id = max(self._last_complete_id, checkpoint_id)

    def notify_aborted(self, checkpoint_id: int, latest_completed_id: int) -> None:
        """Handle an aborted checkpoint, and the latest complete one if there is any."""
        self._capture.stop(checkpoint_id)
        self._remember_aborted(checkpoint_id)
        self._discard(checkpoint_id)
        if latest_completed_id >= 0:
            self.notify_complete(latest_completed_id)
        if not self._is_finished:
            self._chain.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Discard the snapshots being written, without waiting.

        Full snapshots beside a change log stay, since the writing thread may be about to report
        state that refers to them; the end of the job deletes those that were never reported.
        """
        for checkpoint_id in list(self._under_way):
            self._stop_writing(checkpoint_id)
        self._follow_ups.close()
        if self._writer is not None:
            self._writer.close()
        self._keyed.close()

    # ---- inside ----------------------------------------------------------------------------

    def _start_capture(self, checkpoint_id: int) -> bool:
        """Start capturing in-flight data; return False if a later checkpoint has arrived."""
        try:
            self._capture.start(checkpoint_id)
        except IllegalStateError as error:
            self._capture.stop(checkpoint_id)
            self._cancel_downstream(checkpoint_id)
            self.decline(checkpoint_id, Reason.DECLINED_SUBSUMED, str(error))
            return False
        return True

    def _send_barrier(self, snapshot: SubtaskSnapshot) -> None:
        """Send the barrier to each partition, in the way its edge allows."""
        for index, output in enumerate(self._outputs):
            partition = self._environment.partitions[index]
            barrier = snapshot.barrier
            if not output.supports_unaligned:
                barrier = barrier.as_forced_aligned
            if barrier.alignment is Alignment.UNALIGNED:
                snapshot.outputs[index] = partition.overtake(*overtaking(barrier))
            else:
                partition.broadcast_event(serialize_event(barrier), int(data_type_of(barrier)))
                if not barrier.is_timeoutable:
                    # Readers are notified of the data before the barrier together with it.
                    continue
                snapshot.timeoutable.append(index)
            # Needed after overtaking too: it finishes the last buffer without notifying readers.
            partition.flush_all()

    def _cancel_downstream(self, checkpoint_id: int) -> None:
        self._chain.broadcast_event(CancelCheckpointMarker(checkpoint_id))
        self._chain.flush()

    def _remember_aborted(self, checkpoint_id: int) -> None:
        if checkpoint_id > self._last_id:
            self._aborted[checkpoint_id] = None
            while len(self._aborted) > _REMEMBERED_ABORTS:
                self._aborted.popitem(last=False)

    def _discard(self, checkpoint_id: int) -> None:
        self._stop_writing(checkpoint_id)
        self._keyed.aborted(checkpoint_id)

    def _stop_writing(self, checkpoint_id: int) -> None:
        snapshot = self._under_way.pop(checkpoint_id, None)
        if snapshot is not None:
            snapshot.is_discarded = True
            if snapshot.slices is not None:
                self._slices.stop(snapshot.slices)
            for operator in snapshot.operators.values():
                operator.close()
        if self._environment.local_state is not None:
            self._environment.local_state.aborted(checkpoint_id)

    def _serialise(self, snapshot: SubtaskSnapshot) -> None:
        """Serialise the operators' state in slices, then write it."""
        if not snapshot.operators:
            self._write_later(snapshot)
            return

        def write(failure: Exception | None) -> None:
            if failure is None:
                self._write_later(snapshot)
                self._follow_up(snapshot)
            else:
                self._under_way.pop(snapshot.barrier.checkpoint_id, None)
                self._fail(snapshot, failure)

        snapshot.slices = SlicedSnapshot(snapshot.operators.values(), write)
        self._slices.start(snapshot.slices)

    def _follow_up(self, snapshot: SubtaskSnapshot) -> None:
        for operator in snapshot.operators.values():
            # The task may have ended while a small state was written.
            part = None if snapshot.is_discarded else operator.follow_up()
            if part is not None:
                self._follow_ups.start(part)

    def _write_later(self, snapshot: SubtaskSnapshot) -> None:
        if self._needs_no_file(snapshot):
            self._write(snapshot)
            return
        self._submit(partial(self._write, snapshot))

    def _open_wholes(self, snapshot_id: int) -> Mapping[bytes, KeyedSnapshot]:
        return self._chain.open_wholes(snapshot_id)

    def _submit(self, action: Callable[[], None]) -> None:
        """Run ``action`` in the writing thread."""
        if self._writer is None:
            self._writer = WritingThread(f"{self._environment.task_name} checkpoints")
        self._writer.submit(action)

    def _needs_no_file(self, snapshot: SubtaskSnapshot) -> bool:
        """Return whether the report holds all state, so that no storage can block the task.

        Most tasks of most jobs have so little state; a writing thread for each would make them wait
        for the interpreter's lock once more.
        """
        return (
            len(self._under_way) == 1
            and snapshot.inputs is None
            and not snapshot.outputs
            and not snapshot.timeoutable
            and not self._keyed.refers
            and self._environment.local_state is None
            and all(
                operator.is_little(self._inline_bytes) for operator in snapshot.operators.values()
            )
        )

    def _write(self, snapshot: SubtaskSnapshot) -> None:
        """Run the asynchronous part, in the writing thread if there is a file to write."""
        if snapshot.is_discarded:
            return
        checkpoint_id = snapshot.barrier.checkpoint_id
        try:
            written = self._snapshot_writer.write(snapshot)
        except Exception as error:
            self._fail(snapshot, error)
            return
        finally:
            self._under_way.pop(checkpoint_id, None)
            for operator in snapshot.operators.values():
                operator.release()
        if written is None:
            return
        state = TaskStateSnapshot(written.operators, self._is_finished)
        copies = self._environment.local_state
        if copies is not None and not snapshot.barrier.kind.is_savepoint:
            copies.written(checkpoint_id, state)
        # A checkpoint aborted meanwhile is reported all the same: the caller that aborted it
        # deletes its files.
        self._report(
            AcknowledgeCheckpoint(
                self._environment.job_id,
                self._environment.attempt_id,
                checkpoint_id,
                written.metrics,
                state if written.operators or self._is_finished else None,
            )
        )

    def _fail(self, snapshot: SubtaskSnapshot, error: Exception) -> None:
        checkpoint_id = snapshot.barrier.checkpoint_id
        reason = Reason.IO_EXCEPTION if isinstance(error, OSError) else Reason.ASYNC_EXCEPTION
        text = described_in_time(error)
        if snapshot.is_discarded:
            # The caller that gave it up deletes its files, perhaps before they are written.
            logger.debug("checkpoint %d was given up: %s", checkpoint_id, text)
            return
        # The driver warns unless it has aborted the checkpoint: then it may have deleted the
        # directory before this task, busy with records, was notified.
        logger.info("checkpoint %d cannot be written: %s", checkpoint_id, text)
        self.decline(checkpoint_id, reason, f"{self._environment.task_name}: {text}")
