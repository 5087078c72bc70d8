"""Exactly-once alignment as in Flink 1.5, which buffers the data behind a barrier (internals M55).

A channel that has delivered its barrier is still read, so its producer never waits for the
alignment.
The buffer stores the data in memory or on disk until the last barrier has arrived, and replays it
before any new data.  `SingleCheckpointBarrierHandler` buffers nothing: it blocks channels.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.errors import CorruptStreamError
from penstock.network.data_type import DataType
from penstock.network.events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfPartition,
    parse_event,
)
from penstock.taskexecutor.checkpointing.barrier_handler import AlignmentFigures
from penstock.taskexecutor.checkpointing.buffer_blocker import BufferOrEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.network import InputGate
    from penstock.taskexecutor.checkpointing.barrier_handler import CheckpointTarget
    from penstock.taskexecutor.checkpointing.buffer_blocker import BufferBlocker, BufferSequence

NO_LIMIT = -1


class BarrierBuffer:
    """Reads a gate, buffers blocked channels, and tells the task when to take its snapshot.

    Attributes:
        target: The task; set before the first element is read.
        idle_ns: Nanoseconds spent waiting for input.
    """

    def __init__(
        self,
        gate: InputGate,
        blocker: BufferBlocker,
        wall_ms: Callable[[], int],
        limit_bytes: int = NO_LIMIT,
    ) -> None:
        """Create a buffer on ``gate``, whose own `next_buffer` must not be called any more.

        Args:
            gate: The channels; all of them are open.
            blocker: Stores the data of blocked channels.
            wall_ms: The clock of barriers' timestamps.
            limit_bytes: Most bytes to store before an alignment is aborted; -1 for no limit.
        """
        self.target: CheckpointTarget | None = None
        self.idle_ns = 0
        self._gate = gate
        self._blocker = blocker
        self._wall_ms = wall_ms
        self._limit_bytes = limit_bytes
        self._blocked = [False] * gate.num_channels
        self._current_id = -1
        self._num_barriers = 0
        self._num_closed = 0
        self._first_ms = 0
        self._first_bytes = 0
        self._passed_bytes = 0
        self._replayed: BufferSequence | None = None
        self._queued: deque[BufferSequence] = deque()
        self._has_ended = False

    @property
    def is_empty(self) -> bool:
        """Return whether no data is stored."""
        return not self._blocker.size and self._replayed is None and not self._queued

    @property
    def is_finished(self) -> bool:
        """Return whether every channel has ended and all stored data was returned."""
        return self._has_ended and self.is_empty

    @property
    def current_checkpoint_id(self) -> int:
        """The checkpoint of the latest barrier; -1 before the first."""
        return self._current_id

    def is_blocked(self, channel: int) -> bool:
        """Return whether the data of a channel is stored."""
        return self._blocked[channel]

    def get_next_non_blocked(self, timeout_ms: int) -> BufferOrEvent | None:
        """Return the next buffer or event to process, waiting for each that arrives.

        Return None if the time is over, the gate was woken, or everything has been read.

        Raises:
            CorruptStreamError: A channel delivered a barrier twice.
            CancelTaskError: The gate was closed.
            NetworkError: A channel failed.
        """
        while True:
            came, element = self.step(timeout_ms)
            if element is not None or not came:
                return element

    def step(self, timeout_ms: int) -> tuple[bool, BufferOrEvent | None]:
        """Read at most one buffer or event.

        Returns:
            Whether one arrived, and the item itself if it is to be processed.

        Raises:
            CorruptStreamError: A channel delivered a barrier twice.
            CancelTaskError: The gate was closed.
            NetworkError: A channel failed.
        """
        element = self._next_replayed()
        if element is None:
            began_ns = time.monotonic_ns()
            taken = None if self._has_ended else self._gate.next_buffer(timeout_ms)
            self.idle_ns += time.monotonic_ns() - began_ns
            if taken is None:
                return self._end_with_the_gate(), None
            channel, data_type, data = taken
            element = BufferOrEvent(channel, DataType(data_type), data)
            if element.data_type.is_blocking_upstream and data_type != DataType.RECOVERY_COMPLETION:
                # Resume the producer: its data is stored here.
                self._gate.resume_consumption(channel)
        if self._blocked[element.channel]:
            self._blocker.add(element)
            self._check_size()
            return True, None
        if element.data_type.is_buffer:
            self._passed_bytes += len(element.data)
            return True, element
        event = parse_event(element.data)
        if isinstance(event, CheckpointBarrier):
            if not self._has_ended:
                self._process_barrier(element.channel, event)
            return True, None
        if isinstance(event, CancelCheckpointMarker):
            self._process_cancellation(event.checkpoint_id)
            return True, None
        if isinstance(event, EndOfPartition):
            self._process_end_of_partition()
        return True, element

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """Handle a trigger from the driver, which it sends once all producers have ended."""
        if barrier.checkpoint_id <= self._current_id:
            return
        if self._num_barriers:
            self._give_up(Reason.DECLINED_SUBSUMED)
        self._current_id = barrier.checkpoint_id
        self._first_ms, self._first_bytes = self._wall_ms(), self._passed_bytes
        self._take_snapshot(barrier)

    def cleanup(self) -> None:
        """Drop all stored data; no file is left on disk."""
        self._blocker.close()
        if self._replayed is not None:
            self._replayed.cleanup()
            self._replayed = None
        while self._queued:
            self._queued.popleft().cleanup()

    # ---- events --------------------------------------------------------------------------

    def _process_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        checkpoint_id = barrier.checkpoint_id
        if self._gate.num_channels == 1:
            if checkpoint_id > self._current_id:
                self._note_first(barrier)
                self._take_snapshot(barrier)
            return
        if self._num_barriers and checkpoint_id == self._current_id:
            self._block(channel)
        elif checkpoint_id > self._current_id:
            if self._num_barriers:
                self._give_up(Reason.DECLINED_SUBSUMED)
            self._note_first(barrier)
            self._block(channel)
        else:
            # The checkpoint is complete, was aborted, or was never started here.
            return
        if self._num_barriers + self._num_closed == self._gate.num_channels:
            self._release()
            self._take_snapshot(barrier)

    def _process_cancellation(self, checkpoint_id: int) -> None:
        if self._num_barriers and checkpoint_id == self._current_id:
            self._give_up(Reason.DECLINED_ON_CANCELLATION_BARRIER)
        elif checkpoint_id > self._current_id:
            if self._num_barriers:
                self._give_up(Reason.DECLINED_SUBSUMED)
            self._current_id = checkpoint_id
            self._abort(checkpoint_id, Reason.DECLINED_ON_CANCELLATION_BARRIER)

    def _process_end_of_partition(self) -> None:
        self._num_closed += 1
        if self._num_barriers:
            self._give_up(Reason.DECLINED_INPUT_END_OF_STREAM)

    def _end_with_the_gate(self) -> bool:
        """Return whether the gate has just ended and stored data is left to process."""
        if self._has_ended or not self._gate.is_finished():
            return False
        self._has_ended = True
        self._release()
        return not self.is_empty

    # ---- inside ----------------------------------------------------------------------------

    def _note_first(self, barrier: CheckpointBarrier) -> None:
        self._current_id = barrier.checkpoint_id
        self._first_ms, self._first_bytes = self._wall_ms(), self._passed_bytes

    def _block(self, channel: int) -> None:
        if self._blocked[channel]:
            raise CorruptStreamError(
                f"repeated barrier of checkpoint {self._current_id} on channel {channel}"
            )
        self._blocked[channel] = True
        self._num_barriers += 1

    def _check_size(self) -> None:
        if self._limit_bytes < 0:
            return
        waiting = self._blocker.size + sum(sequence.size for sequence in self._queued)
        if waiting > self._limit_bytes:
            self._give_up(Reason.ALIGNMENT_LIMIT_EXCEEDED)

    def _give_up(self, reason: Reason) -> None:
        checkpoint_id = self._current_id
        self._release()
        self._abort(checkpoint_id, reason)

    def _release(self) -> None:
        """Unblock all channels and replay their data before the data being replayed."""
        self._blocked = [False] * len(self._blocked)
        self._num_barriers = 0
        sequence = self._blocker.roll_over()
        if sequence is not None:
            if self._replayed is not None:
                self._queued.appendleft(self._replayed)
            self._replayed = sequence

    def _next_replayed(self) -> BufferOrEvent | None:
        while self._replayed is not None:
            element = self._replayed.get_next()
            if element is not None:
                return element
            self._replayed = self._queued.popleft() if self._queued else None
        return None

    def _take_snapshot(self, barrier: CheckpointBarrier) -> None:
        assert self.target is not None, "set before the first element"
        now_ms = self._wall_ms()
        figures = AlignmentFigures(
            alignment_ms=max(0, now_ms - self._first_ms),
            start_delay_ms=max(0, self._first_ms - barrier.timestamp_ms),
            processed_bytes=self._passed_bytes - self._first_bytes,
        )
        self.target.take_snapshot(barrier, figures)

    def _abort(self, checkpoint_id: int, reason: Reason) -> None:
        assert self.target is not None, "set before the first element"
        self.target.abort_snapshot(checkpoint_id, reason)
