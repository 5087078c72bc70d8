"""The head of an iteration: a source of the records that its tail feeds back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    MAX_TIMESTAMP,
    MORE_AVAILABLE,
    NOTHING_AVAILABLE,
    SourceOperator,
)
from penstock.taskexecutor.iterations.feedback_channel import (
    FeedbackChannel,
    SuperstepEnd,
    close_channel,
    open_channel,
)
from penstock.taskexecutor.iterations.supersteps import superstep_event

if TYPE_CHECKING:
    from collections.abc import Hashable

    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_ATTEMPT_PREFIX_BYTES: Final = 16


def channel_key(context: OperatorContext, iteration: str) -> Hashable:
    """Return the key of the channel that only the head and the tail of one subtask share."""
    environment = context.environment
    return (
        environment.executor_id,
        environment.job_id,
        environment.attempt_id[:_ATTEMPT_PREFIX_BYTES],
        iteration,
        environment.subtask,
        environment.attempt_number,
    )


def create_iteration_head(
    context: OperatorContext, descriptor: operators.IterationHead
) -> IterationHead:
    """Create the head, which emits the records fed back by the tail of the same iteration."""
    return IterationHead(
        descriptor.group,
        descriptor.group_size,
        descriptor.wait_time_ms,
        channel_key(context, descriptor.iteration),
    )


class IterationHead(SourceOperator):
    """Emits the fed-back records, until the loop is at rest or the waiting time is over."""

    def __init__(self, group: str, group_size: int, wait_time_ms: int, key: Hashable) -> None:
        """Create the head.

        Args:
            group: The iterations that end together.
            group_size: The number of these iterations.
            wait_time_ms: The iteration ends if no record returns for this time; 0 for never.
            key: Key of the feedback channel.
        """
        super().__init__()
        self.group = group
        self.group_size = group_size
        self.wait_time_s = wait_time_ms / 1000
        self.key = key
        self.channel: FeedbackChannel | None = None
        self.has_started = False
        self.has_seen_tail = False
        self.active = False
        self.cancelled = False
        self.last_element_s = 0.0

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Start the channel's snapshot before the barrier enters the loop; the tail writes it.

        After the barrier has left it would be too late: the tail may already have it.
        """
        if self.channel is not None:
            self.channel.begin_snapshot(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Drop the snapshot of an aborted checkpoint."""
        if self.channel is not None:
            self.channel.abort_snapshot(checkpoint_id)

    def open(self) -> None:
        """Open the channel to the tail."""
        self.channel = open_channel(self.key)

    def emit_next(self, limit: int) -> int:
        """Emit about ``limit`` records at most, without blocking."""
        if self.cancelled:
            return END_OF_DATA
        assert self.channel is not None, "opened"
        if not self.has_started:
            self.has_started = True
            # The loop has no event time of its own: it follows the outer input.
            self.output.emit_watermark(MAX_TIMESTAMP)
            self.last_element_s = time.monotonic()
            # No record could be sent before, so the first superstep does not count as quiet.
            self._start_superstep(0)
        for _ in range(limit):
            item = self.channel.take()
            if item is None:
                return self._nothing_came()
            if isinstance(item, SuperstepEnd):
                if item.quiet_steps >= self.group_size:
                    return END_OF_DATA
                self._start_superstep(0 if self.active else item.quiet_steps + 1)
                continue
            self.active = True
            self.last_element_s = time.monotonic()
            self.output.collect(item[0], item[1])
        return MORE_AVAILABLE

    def wait_available(self, timeout_ms: int) -> None:
        """Block until a record has returned, or the time is over."""
        assert self.channel is not None, "opened"
        timeout_s = timeout_ms / 1000
        if self.wait_time_s > 0:
            timeout_s = min(timeout_s, self.last_element_s + self.wait_time_s - time.monotonic())
        self.channel.wait(max(0.0, timeout_s))

    def wakeup(self) -> None:
        """End a wait; any thread."""
        if self.channel is not None:
            self.channel.wakeup()

    def cancel(self) -> None:
        """End the source early; any thread."""
        self.cancelled = True
        self.wakeup()

    def close(self) -> None:
        """Close the channel to the tail; records that still return are dropped."""
        if self.channel is not None:
            self.channel = None
            close_channel(self.key)

    def _start_superstep(self, quiet_steps: int) -> None:
        self.context.broadcast_event(superstep_event(self.group, quiet_steps))
        self.active = False

    def _nothing_came(self) -> int:
        assert self.channel is not None, "opened"
        if not self.has_seen_tail:
            # The tail may restore records of a snapshot, even since `take` returned None.
            self.has_seen_tail = self.channel.has_tail
            self.last_element_s = time.monotonic()
            return NOTHING_AVAILABLE
        waited_s = time.monotonic() - self.last_element_s
        if 0 < self.wait_time_s <= waited_s:
            return END_OF_DATA
        return NOTHING_AVAILABLE
