"""At-least-once: barriers are counted, no channel is blocked (internals M56)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.taskexecutor.checkpointing.barrier_handler import AlignmentFigures

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.network.events import CheckpointBarrier
    from penstock.taskexecutor.checkpointing.barrier_handler import (
        CheckpointableInput,
        CheckpointTarget,
    )

#: Checkpoints tracked at a time; the oldest is dropped.
MAX_TRACKED: Final = 50


@dataclass
class _Tracked:
    checkpoint_id: int
    barrier: CheckpointBarrier | None
    awaited: set[int]
    first_ms: int = 0
    first_bytes: int = 0
    is_aborted: bool = False

    @property
    def is_complete(self) -> bool:
        return not self.awaited


class CheckpointBarrierTracker:
    """Takes a snapshot when the last barrier of a checkpoint has arrived."""

    def __init__(
        self,
        channels: CheckpointableInput,
        target: CheckpointTarget,
        wall_ms: Callable[[], int],
    ) -> None:
        """Create a tracker that waits for the first barrier.

        Args:
            channels: The channels; all of them are open.
            target: The task.
            wall_ms: The clock of barriers' timestamps.
        """
        self._channels = channels
        self._target = target
        self._wall_ms = wall_ms
        self._open = set(range(channels.num_channels))
        self._pending: deque[_Tracked] = deque()
        self._latest_id = -1

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Count a barrier that was read from a channel."""
        if barrier.needs_alignment:
            # A savepoint's barrier is aligned; here it is counted like any other.
            self._channels.resume_consumption(channel)
        tracked = self._tracked(barrier.checkpoint_id)
        if tracked is None:
            if barrier.checkpoint_id <= self._latest_id:
                return
            tracked = self._track(barrier.checkpoint_id, barrier)
        tracked.barrier = tracked.barrier or barrier
        tracked.awaited.discard(channel)
        self._complete(tracked)

    def on_announcement(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Ignore the announcement: no barrier overtakes data here."""

    def on_cancellation(self, channel: int, checkpoint_id: int) -> None:
        """Abort a checkpoint that a task upstream will not take, and all older ones."""
        while self._pending and self._pending[0].checkpoint_id < checkpoint_id:
            older = self._pending.popleft()
            if not older.is_aborted:
                self._target.abort_snapshot(older.checkpoint_id, Reason.DECLINED_SUBSUMED)
        tracked = self._tracked(checkpoint_id)
        if tracked is None:
            if checkpoint_id <= self._latest_id:
                return
            tracked = self._track(checkpoint_id, None)
        tracked.awaited.discard(channel)
        if not tracked.is_aborted:
            tracked.is_aborted = True
            self._target.abort_snapshot(checkpoint_id, Reason.DECLINED_ON_CANCELLATION_BARRIER)
        self._complete(tracked)

    def on_end_of_partition(self, channel: int) -> None:
        """Count every barrier of an ended channel as delivered."""
        self._open.discard(channel)
        for tracked in self._pending:
            tracked.awaited.discard(channel)
        for tracked in reversed(self._pending):
            if tracked.is_complete:
                self._complete(tracked)
                return

    def alignment_until_now_ms(self) -> None:
        """Return None: no channel is blocked."""

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """Count the barrier as if every open channel had delivered it."""
        for channel in sorted(self._open) or [-1]:
            tracked = self._tracked(barrier.checkpoint_id)
            if tracked is None:
                if barrier.checkpoint_id <= self._latest_id:
                    return
                tracked = self._track(barrier.checkpoint_id, barrier)
            tracked.awaited.discard(channel)
            self._complete(tracked)

    def _tracked(self, checkpoint_id: int) -> _Tracked | None:
        return next((t for t in self._pending if t.checkpoint_id == checkpoint_id), None)

    def _track(self, checkpoint_id: int, barrier: CheckpointBarrier | None) -> _Tracked:
        tracked = _Tracked(
            checkpoint_id,
            barrier,
            set(self._open),
            self._wall_ms(),
            self._channels.processed_bytes,
        )
        self._latest_id = checkpoint_id
        self._pending.append(tracked)
        if len(self._pending) > MAX_TRACKED:
            self._pending.popleft()
        return tracked

    def _complete(self, tracked: _Tracked) -> None:
        if not tracked.is_complete:
            return
        # Older checkpoints cannot complete any more: their barriers are overdue.
        while self._pending:
            if self._pending.popleft() is tracked:
                break
        if not tracked.is_aborted and tracked.barrier is not None:
            figures = AlignmentFigures(
                max(0, self._wall_ms() - tracked.first_ms),
                max(0, tracked.first_ms - tracked.barrier.timestamp_ms),
                self._channels.processed_bytes - tracked.first_bytes,
            )
            self._target.take_snapshot(tracked.barrier, figures)
