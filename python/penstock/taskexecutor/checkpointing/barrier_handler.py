"""Handling of barriers at a task's inputs: when to take the task's snapshot (internals M54).

The task's thread reports barriers, cancellations and ends of channels to a handler, which calls the
task back.  A handler neither copies nor holds back data: a channel that has delivered an aligned
barrier blocks by itself, until the handler resumes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.network.events import Alignment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.network.events import CheckpointBarrier


@dataclass(frozen=True)
class AlignmentFigures:
    """Figures of one checkpoint's alignment.

    Attributes:
        alignment_ms: From the first barrier to the last one, or until now.
        start_delay_ms: From the trigger at the driver to the first barrier.
        processed_bytes: Input processed from the first barrier to the last one.
    """

    alignment_ms: float = 0.0
    start_delay_ms: float = 0.0
    processed_bytes: int = 0


@dataclass(frozen=True)
class FirstBarrier:
    """The first barrier of a checkpoint, if the channels gathered it without reporting it.

    Attributes:
        barrier: The barrier.
        age_ms: Time since it arrived.
        processed_bytes: Bytes that had been processed when it arrived.
    """

    barrier: CheckpointBarrier
    age_ms: float
    processed_bytes: int


class CheckpointableInput(Protocol):
    """The channels of a task, numbered from 0."""

    @property
    def num_channels(self) -> int:
        """Number of channels."""

    def resume_consumption(self, channel: int) -> None:
        """Resume a channel that has delivered an aligned barrier."""

    def resume_all(self, channels: Sequence[int]) -> None:
        """Resume several channels that have delivered aligned barriers."""

    def gather_barriers(self, barrier: CheckpointBarrier | None, left: int) -> None:
        """Report only the last of the aligned barriers that equal this one.

        Args:
            barrier: A barrier that has arrived; None for the next aligned one, whichever it is.
            left: Number of barriers still to arrive.
        """

    def take_gathered(self) -> tuple[list[int], FirstBarrier | None]:
        """Stop gathering and return the channels whose barrier was not reported.

        If gathering began without a barrier, return the first of these barriers as well.
        """

    def prioritize_barrier(self, channel: int, checkpoint_id: int) -> bool:
        """Let an announced barrier overtake the data before it."""

    @property
    def processed_bytes(self) -> int:
        """Bytes processed so far."""


class CheckpointTarget(Protocol):
    """The task."""

    def take_snapshot(self, barrier: CheckpointBarrier, figures: AlignmentFigures) -> None:
        """Take a snapshot: input before the barrier is processed or stored as in-flight data."""

    def barriers_complete(self, checkpoint_id: int, figures: AlignmentFigures) -> None:
        """Complete an unaligned checkpoint: all barriers have arrived."""

    def abort_snapshot(self, checkpoint_id: int, reason: Reason) -> None:
        """Abort the checkpoint in this task and cancel it downstream."""


class BarrierHandler(Protocol):
    """Receiver of channel events from `TaskInput`."""

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Handle a barrier that was read from a channel."""

    def on_announcement(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Handle the announcement of a barrier that is still behind data."""

    def on_cancellation(self, channel: int, checkpoint_id: int) -> None:
        """Handle a cancellation: a task upstream will not take a checkpoint."""

    def on_end_of_partition(self, channel: int) -> None:
        """Handle the end of a channel."""

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """Handle a trigger from the driver, which it sends once all producers have ended."""

    def alignment_until_now_ms(self) -> float | None:
        """Return the duration of the current alignment, None outside of one; any thread."""


class SingleCheckpointBarrierHandler:
    """Exactly-once: one checkpoint at a time, aligned, unaligned, or first one and then the other.

    A checkpoint is pending from its first barrier until its last one has arrived, or until it is
    aborted.
    """

    def __init__(
        self,
        channels: CheckpointableInput,
        target: CheckpointTarget,
        wall_ms: Callable[[], int],
        register_timer: Callable[[int, Callable[[], None]], None],
    ) -> None:
        """Create a handler that waits for the first barrier.

        Args:
            channels: The channels; all of them are open.
            target: The task.
            wall_ms: The clock of barriers' timestamps.
            register_timer: Calls a function in the task's thread after a number of milliseconds.
        """
        self._channels = channels
        self._target = target
        self._wall_ms = wall_ms
        self._register_timer = register_timer
        self._open = set(range(channels.num_channels))
        self._current_id = -1
        self._last_done_id = -1
        self._barrier: CheckpointBarrier | None = None
        self._arrived: set[int] = set()
        self._blocked: set[int] = set()
        self._announced: set[int] = set()
        self._is_triggered = False
        self._has_timed_out = False
        self._is_gathering = False
        self._may_gather_first = False
        self._first_ms = 0.0
        self._first_bytes = 0

    @property
    def is_pending(self) -> bool:
        """Return whether barriers of a checkpoint are still to arrive."""
        return self._current_id > self._last_done_id

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Handle a barrier; its channel has blocked if the barrier is aligned."""
        self._take_gathered()
        if self._is_obsolete(barrier.checkpoint_id):
            if barrier.needs_alignment:
                self._channels.resume_consumption(channel)
            self._gather()
            return
        self._begin_unless_pending(barrier)
        if barrier.needs_alignment:
            self._blocked.add(channel)
        self._note_first()
        self._arrived.add(channel)
        if barrier.alignment is Alignment.UNALIGNED or self._has_timed_out:
            self._overtake(barrier)
        elif self._is_triggered:
            self._release()
        self._complete_if_all_came(barrier)
        self._gather()

    def on_announcement(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Handle an announcement: start the timeout after which the barrier may overtake data."""
        self._take_gathered()
        if self._is_obsolete(barrier.checkpoint_id):
            self._gather()
            return
        self._begin_unless_pending(barrier)
        self._announced.add(channel)
        if self._has_timed_out or self._is_triggered:
            self._channels.prioritize_barrier(channel, barrier.checkpoint_id)

    def on_cancellation(self, channel: int, checkpoint_id: int) -> None:
        """Handle a cancellation: a task upstream will not take a checkpoint."""
        del channel
        self._take_gathered()
        if checkpoint_id > self._current_id or (
            checkpoint_id == self._current_id and self.is_pending
        ):
            if self.is_pending and checkpoint_id > self._current_id:
                self._abort(self._current_id, Reason.DECLINED_SUBSUMED)
            self._abort(checkpoint_id, Reason.DECLINED_ON_CANCELLATION_BARRIER)
        self._gather()

    def on_end_of_partition(self, channel: int) -> None:
        """Handle the end of a channel, which will deliver no more barriers."""
        self._take_gathered()
        self._open.discard(channel)
        if self.is_pending and self._barrier is not None:
            self._complete_if_all_came(self._barrier)
        self._gather()

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """Handle the barrier as if every open channel had delivered it; none blocks.

        The producers have ended with a checkpoint of their own, so the channels hold nothing but
        their end-of-partition events.
        """
        self._take_gathered()
        if self._is_obsolete(barrier.checkpoint_id):
            self._gather()
            return
        self._begin_unless_pending(barrier)
        self._note_first()
        self._arrived |= self._open
        if barrier.alignment is Alignment.UNALIGNED:
            self._overtake(barrier)
        self._complete_if_all_came(barrier)

    def alignment_until_now_ms(self) -> float | None:
        """Return the duration of the current alignment, None outside of one; any thread."""
        first_ms = self._first_ms
        if not self.is_pending or not first_ms:
            return None
        return max(0.0, self._wall_ms() - first_ms)

    # ---- inside ----------------------------------------------------------------------------

    def _note_first(self) -> None:
        if not self._arrived:
            self._first_ms = self._wall_ms()
            self._first_bytes = self._channels.processed_bytes

    def _is_obsolete(self, checkpoint_id: int) -> bool:
        return checkpoint_id < self._current_id or (
            checkpoint_id == self._current_id and not self.is_pending
        )

    def _begin_unless_pending(self, barrier: CheckpointBarrier) -> None:
        if barrier.checkpoint_id == self._current_id:
            return
        if self.is_pending:
            self._abort(self._current_id, Reason.DECLINED_SUBSUMED)
        self._current_id = barrier.checkpoint_id
        self._barrier = barrier
        self._may_gather_first = False
        self._is_triggered = self._has_timed_out = False
        self._first_ms = 0.0
        if barrier.is_timeoutable:
            spent_ms = self._wall_ms() - barrier.timestamp_ms
            delay_ms = max(0, barrier.aligned_timeout_ms - spent_ms)
            self._register_timer(delay_ms, lambda: self._time_out(barrier))

    def _time_out(self, barrier: CheckpointBarrier) -> None:
        if barrier.checkpoint_id != self._current_id or not self.is_pending or self._is_triggered:
            return
        self._take_gathered()
        self._has_timed_out = True
        self._prioritize_announced(barrier)
        if self._arrived:
            self._overtake(barrier)
            self._complete_if_all_came(barrier)

    def _overtake(self, barrier: CheckpointBarrier) -> None:
        """Take the snapshot now unless it is taken: the data in the channels belongs to it."""
        if not self._is_triggered:
            self._is_triggered = True
            self._target.take_snapshot(barrier.as_unaligned, self._figures(barrier))
            if not self._has_timed_out:
                self._prioritize_announced(barrier)
        self._release()

    def _prioritize_announced(self, barrier: CheckpointBarrier) -> None:
        for channel in sorted(self._announced - self._arrived):
            self._channels.prioritize_barrier(channel, barrier.checkpoint_id)

    def _complete_if_all_came(self, barrier: CheckpointBarrier) -> None:
        # The checkpoint may have been aborted while the snapshot was taken.
        if not self.is_pending or not self._open <= self._arrived:
            return
        self._last_done_id = self._current_id
        if self._is_triggered:
            self._target.barriers_complete(self._current_id, self._figures(barrier))
        else:
            self._target.take_snapshot(barrier, self._figures(barrier))
        # No barrier of this checkpoint is outstanding, unless it was triggered from outside.
        self._may_gather_first = _can_be_gathered(barrier) and self._open <= self._blocked
        self._release()
        self._forget()

    def _abort(self, checkpoint_id: int, reason: Reason) -> None:
        self._take_gathered()
        self._current_id = self._last_done_id = max(checkpoint_id, self._current_id)
        self._may_gather_first = False
        self._release()
        self._forget()
        self._target.abort_snapshot(checkpoint_id, reason)

    def _figures(self, barrier: CheckpointBarrier) -> AlignmentFigures:
        return AlignmentFigures(
            alignment_ms=max(0, self._wall_ms() - self._first_ms),
            start_delay_ms=max(0, self._first_ms - barrier.timestamp_ms),
            processed_bytes=self._channels.processed_bytes - self._first_bytes,
        )

    def _gather(self) -> None:
        """Ask for the last aligned barrier only: a thousand channels cost hardly more than one.

        A barrier that may overtake after a timeout, or has overtaken, is handled for each channel.
        The first barrier is reported as well, unless all barriers of the previous checkpoint have
        arrived: a late one has to resume its channel at once.
        """
        barrier = self._barrier
        if self.is_pending:
            if (
                barrier is None
                or self._is_triggered
                or self._has_timed_out
                or not _can_be_gathered(barrier)
            ):
                return
            left = len(self._open - self._arrived)
        elif self._may_gather_first:
            barrier = None
            left = len(self._open)
        else:
            return
        if left > 1:
            self._is_gathering = True
            self._channels.gather_barriers(barrier, left)

    def _take_gathered(self) -> None:
        """Stop gathering and record the barriers that were not reported."""
        if not self._is_gathering:
            return
        self._is_gathering = False
        channels, first = self._channels.take_gathered()
        if first is not None:
            self._begin_unless_pending(first.barrier)
            self._first_ms = self._wall_ms() - first.age_ms
            self._first_bytes = first.processed_bytes
        self._arrived.update(channels)
        self._blocked.update(channels)

    def _release(self) -> None:
        if self._blocked:
            blocked, self._blocked = self._blocked, set()
            self._channels.resume_all(sorted(blocked))

    def _forget(self) -> None:
        self._arrived.clear()
        self._announced.clear()
        self._barrier = None


def _can_be_gathered(barrier: CheckpointBarrier) -> bool:
    """Return whether only the last of these barriers matters."""
    return barrier.needs_alignment and not barrier.is_timeoutable
