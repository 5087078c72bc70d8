"""The head of an iteration: a source of what the tail takes."""

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
    from penstock.taskexecutor.task.operator_context import OperatorContext

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
    """Emits what the tail of the same iteration takes."""
    return IterationHead(
        descriptor.group,
        descriptor.group_size,
        descriptor.wait_time_ms,
        channel_key(context, descriptor.iteration),
    )


class IterationHead(SourceOperator):
    """Emits what comes back, until the loop is at rest or the waiting time is over."""

    def __init__(self, group: str, group_size: int, wait_time_ms: int, key: Hashable) -> None:
        """Creates the head.

        Args:
            group: The iterations that come to rest together.
            group_size: How many they are.
            wait_time_ms: The iteration ends when nothing came back for so long; 0 never.
            key: Names the channel.
        """
        super().__init__()
        self.group = group
        self.group_size = group_size
        self.wait_time_s = wait_time_ms / 1000
        self.key = key
        self.channel: FeedbackChannel | None = None
        self.has_started = False
        self.active = False
        self.cancelled = False
        self.last_element_s = 0.0

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """The barrier is about to leave for the loop; the tail writes what is in it.

        Not once it has left: the tail may have it before this thread gets on.
        """
        if self.channel is not None:
            self.channel.begin_snapshot(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will not be completed."""
        if self.channel is not None:
            self.channel.abort_snapshot(checkpoint_id)

    def open(self) -> None:
        """Connects to the tail."""
        self.channel = open_channel(self.key)

    def emit_next(self, limit: int) -> int:
        """Emits at most about ``limit`` records without blocking."""
        if self.cancelled:
            return END_OF_DATA
        assert self.channel is not None, "opened"
        if not self.has_started:
            self.has_started = True
            # The loop has no event time of its own: it follows what flows in from outside.
            self.output.emit_watermark(MAX_TIMESTAMP)
            self.last_element_s = time.monotonic()
            # Nothing was there to be sent yet, so the first superstep says nothing about quiet.
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
        """Blocks until something came back, or the time is over."""
        assert self.channel is not None, "opened"
        timeout_s = timeout_ms / 1000
        if self.wait_time_s > 0:
            timeout_s = min(timeout_s, self.last_element_s + self.wait_time_s - time.monotonic())
        self.channel.wait(max(0.0, timeout_s))

    def wakeup(self) -> None:
        """Ends a wait from another thread."""
        if self.channel is not None:
            self.channel.wakeup()

    def cancel(self) -> None:
        """Ends the source early, from any thread."""
        self.cancelled = True
        self.wakeup()

    def close(self) -> None:
        """Disconnects from the tail; what still comes back is dropped."""
        if self.channel is not None:
            self.channel = None
            close_channel(self.key)

    def _start_superstep(self, quiet_steps: int) -> None:
        self.context.broadcast_event(superstep_event(self.group, quiet_steps))
        self.active = False

    def _nothing_came(self) -> int:
        assert self.channel is not None, "opened"
        if not self.channel.has_tail:
            # It may have records of a snapshot to begin with.
            self.last_element_s = time.monotonic()
        waited_s = time.monotonic() - self.last_element_s
        if 0 < self.wait_time_s <= waited_s:
            return END_OF_DATA
        return NOTHING_AVAILABLE
