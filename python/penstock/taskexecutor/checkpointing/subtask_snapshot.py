"""Snapshots of a subtask, and the writer of their asynchronous part (internals M58)."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from penstock.checkpoint_storage.disposal import discard_task_state
from penstock.checkpoint_storage.handles import (
    CheckpointMetrics,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from penstock.common.options.checkpointing import SNAPSHOT_COMPRESSION
from penstock.network.events import data_type_of, serialize_event
from penstock.taskexecutor.checkpointing.channel_state import InFlight, write_in_flight
from penstock.taskexecutor.checkpointing.snapshot_format import OperatorSnapshotWriter
from penstock.taskexecutor.state.backends.keyed_state_backend import no_base

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.network.events import CheckpointBarrier
    from penstock.taskexecutor.checkpointing.barrier_handler import AlignmentFigures
    from penstock.taskexecutor.checkpointing.channel_state import Buffers
    from penstock.taskexecutor.checkpointing.keyed_snapshot_strategies import (
        KeyedSnapshotStrategies,
    )
    from penstock.taskexecutor.checkpointing.snapshot_slices import SlicedSnapshot
    from penstock.taskexecutor.state.snapshots.snapshot import RunningSnapshot
    from penstock.taskexecutor.task.task_environment import TaskEnvironment

#: Longest wait for a barrier to leave before checking again whether the snapshot was discarded.
_WAIT_MS: Final = 100


@dataclass
class SubtaskSnapshot:
    """One checkpoint between its synchronous part and its report.

    Attributes:
        barrier: The barrier to send on where it may overtake data.
        figures: Figures of the alignment.
        started_ns: Start of the synchronous part.
        base_of: Returns an operator's state in an earlier checkpoint, which is not written again.
        operators: Snapshots of the operators.
        slices: The serialisation of the operators' state; None before it starts.
        sync_ms: Duration of the synchronous part.
        inputs: In-flight data by gate; None until it is complete.
        outputs: In-flight data by partition, where the barrier overtook it.
        timeoutable: Partitions in which the barrier may still overtake data after a timeout.
        captures: Whether the checkpoint includes in-flight data.
        is_discarded: Whether the snapshot was given up.
    """

    barrier: CheckpointBarrier
    figures: AlignmentFigures
    started_ns: int
    base_of: Callable[[bytes], Any] = no_base
    operators: Mapping[bytes, RunningSnapshot] = field(default_factory=dict)
    slices: SlicedSnapshot | None = None
    sync_ms: float = 0.0
    inputs: list[Buffers] | None = None
    outputs: dict[int, Buffers] = field(default_factory=dict)
    timeoutable: list[int] = field(default_factory=list)
    captures: bool = False
    is_discarded: bool = False


class WrittenSnapshot(NamedTuple):
    """The written state of a subtask.

    Attributes:
        operators: The handles of each operator that has state.
        metrics: Figures of the snapshot.
    """

    operators: dict[bytes, OperatorSubtaskState]
    metrics: CheckpointMetrics


class _GivenUpError(Exception):
    """The snapshot that is being written was given up."""


class SubtaskSnapshotWriter:
    """Writes the snapshots of one subtask: operators' state and in-flight data."""

    def __init__(
        self,
        environment: TaskEnvironment,
        keyed: KeyedSnapshotStrategies,
        open_stream: Callable[..., StateOutputStream],
        *,
        head_id: bytes,
        tail_ids: Sequence[bytes],
    ) -> None:
        """Create a writer for one subtask.

        Args:
            environment: The subtask.
            keyed: Writes the keyed state.
            open_stream: Opens a stream of state for a barrier's checkpoint; see
                `SubtaskCheckpointCoordinator`.
            head_id: The operator that in-flight input belongs to.
            tail_ids: The operators that the in-flight output of each partition belongs to.
        """
        self._environment = environment
        self._keyed = keyed
        self._open_stream = open_stream
        self._head_id = head_id
        self._tail_ids = tail_ids
        self._compresses = SNAPSHOT_COMPRESSION.read(environment.configuration)

    def write(self, snapshot: SubtaskSnapshot) -> WrittenSnapshot | None:
        """Write a snapshot; return None if it was given up and its files are deleted.

        Raises:
            Exception: A stream or an operator's state fails.
        """
        started_ns = time.monotonic_ns()
        streams: list[StateOutputStream] = []

        def open_stream(is_shared: bool = False, **of: bool) -> StateOutputStream:
            if is_shared and snapshot.is_discarded:
                # The job may have ended, and opening a stream would create its directory again.
                raise _GivenUpError
            stream = self._open_stream(snapshot.barrier, is_shared, **of)
            streams.append(stream)
            return stream

        operators: dict[bytes, OperatorSubtaskState] = {}
        referred_bytes = 0
        try:
            if snapshot.operators:
                with suppress(_GivenUpError):
                    referred_bytes = self._write_operators(snapshot, open_stream, operators)
            self._await_barriers(snapshot)
            if snapshot.is_discarded:
                # The report would be incomplete.
                self._delete(operators)
                return None
            persisted_bytes = self._write_channels(snapshot, operators, open_stream)
        except Exception:
            self._keyed.failed(snapshot.barrier.checkpoint_id)
            if snapshot.is_discarded:
                # The caller that aborted it expects a report of the written files, which now fails.
                # If writing fails, deleting may fail too; report the first error.
                with suppress(OSError):
                    self._delete(operators)
            raise
        written_bytes = sum(stream.position for stream in streams)
        metrics = CheckpointMetrics(
            sync_ms=snapshot.sync_ms,
            async_ms=(time.monotonic_ns() - started_ns) / 1e6,
            alignment_ms=snapshot.figures.alignment_ms,
            start_delay_ms=snapshot.figures.start_delay_ms,
            processed_bytes=snapshot.figures.processed_bytes,
            persisted_bytes=persisted_bytes,
            checkpointed_bytes=written_bytes,
            full_bytes=written_bytes + referred_bytes,
            is_unaligned=snapshot.inputs is not None or bool(snapshot.outputs),
        )
        return WrittenSnapshot(operators, metrics)

    def _delete(self, operators: dict[bytes, OperatorSubtaskState]) -> None:
        """Delete written state that is never reported."""
        discard_task_state(TaskStateSnapshot(operators), self._environment.files)

    def _await_barriers(self, snapshot: SubtaskSnapshot) -> None:
        """Wait until the aligned barriers have left; those that time out overtake the data."""
        barrier = snapshot.barrier
        checkpoint_id = barrier.checkpoint_id
        deadline_ms = barrier.timestamp_ms + barrier.aligned_timeout_ms
        for index in snapshot.timeoutable:
            partition = self._environment.partitions[index]
            has_left = False
            while not has_left and not snapshot.is_discarded:
                left_ms = deadline_ms - time.time_ns() // 1_000_000
                if left_ms <= 0:
                    event, data_type = overtaking(barrier.as_unaligned)
                    overtaken = partition.time_out_barrier(checkpoint_id, event, data_type)
                    if any(overtaken):
                        snapshot.outputs[index] = overtaken
                    break
                has_left = partition.wait_barrier_taken(checkpoint_id, min(left_ms, _WAIT_MS))

    def _write_operators(
        self,
        snapshot: SubtaskSnapshot,
        open_stream: Callable[..., StateOutputStream],
        operators: dict[bytes, OperatorSubtaskState],
    ) -> int:
        """Write the operators' state; return the bytes shared with earlier checkpoints.

        Args:
            snapshot: The snapshot to write.
            open_stream: Opens a stream; it raises if the snapshot was given up.
            operators: Filled with the handles, also if writing fails midway.
        """
        writer = OperatorSnapshotWriter(open_stream, compresses=self._compresses)
        referred_bytes = 0
        for operator_id, operator in snapshot.operators.items():
            if snapshot.is_discarded:
                break
            finished, keyed, referred = self._keyed.write(
                snapshot.barrier,
                operator_id,
                operator,
                snapshot.base_of(operator_id),
                open_stream,
            )
            referred_bytes += referred
            handles = writer.write(finished, keyed)
            if not handles.is_empty:
                operators[operator_id] = handles
        return referred_bytes

    def _write_channels(
        self,
        snapshot: SubtaskSnapshot,
        operators: dict[bytes, OperatorSubtaskState],
        open_stream: Callable[[], StateOutputStream],
    ) -> int:
        """Write in-flight data and add its handles to the operators' states; return its bytes."""
        in_flight = InFlight(snapshot.inputs or [], snapshot.outputs)
        for owner, fields in write_in_flight(
            in_flight, open_stream, self._head_id, self._tail_ids
        ).items():
            operators[owner] = msgspec.structs.replace(
                operators.get(owner, OperatorSubtaskState()), **fields
            )
        return in_flight.size


def overtaking(barrier: CheckpointBarrier) -> tuple[bytes, int]:
    """Return the bytes and the data type of a barrier that overtakes data."""
    return serialize_event(barrier), int(data_type_of(barrier, priority=True))
