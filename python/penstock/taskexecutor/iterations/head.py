"""The head of an iteration: a source of what the tail takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.taskexecutor.iterations.feedback_channel import (
    FeedbackChannel,
    SuperstepEnd,
    close_channel,
    open_channel,
)
from penstock.taskexecutor.iterations.supersteps import superstep_event
from penstock.taskexecutor.loop import (
    END_OF_DATA,
    MAX_TIMESTAMP,
    MORE_AVAILABLE,
    NOTHING_AVAILABLE,
    SourceOperator,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from penstock.taskexecutor.operator_context import OperatorContext

_ATTEMPT_PREFIX_BYTES: Final = 16


def channel_key(context: OperatorContext) -> Hashable:
    """What the head and the tail of one subtask, and nobody else in the process, have in common."""
    environment = context.environment
    return (
        environment.executor_id,
        environment.job_id,
        environment.attempt_id[:_ATTEMPT_PREFIX_BYTES],
        context.descriptor.arguments["iteration"],
        environment.subtask,
        environment.attempt_number,
    )


def create_iteration_head(context: OperatorContext) -> IterationHead:
    """Emits what the tail of ``arguments["iteration"]`` takes."""
    arguments = context.descriptor.arguments
    return IterationHead(arguments["iteration"], arguments["wait_time_ms"], channel_key(context))


class IterationHead(SourceOperator):
    """Emits what comes back, until the loop is at rest or the waiting time is over."""

    def __init__(self, iteration: str, wait_time_ms: int, key: Hashable) -> None:
        """Creates the head.

        Args:
            iteration: The name of the iteration.
            wait_time_ms: The iteration ends when nothing came back for so long; 0 never.
            key: Names the channel.
        """
        super().__init__()
        self.iteration = iteration
        self.wait_time_s = wait_time_ms / 1000
        self.key = key
        self.channel: FeedbackChannel | None = None
        self.superstep = -1
        self.active = False
        self.cancelled = False
        self.last_element_s = 0.0

    def open(self) -> None:
        """Connects to the tail."""
        self.channel = open_channel(self.key)

    def emit_next(self, limit: int) -> int:
        """Emits at most about ``limit`` elements without blocking."""
        if self.cancelled:
            return END_OF_DATA
        assert self.channel is not None, "opened"
        if self.superstep < 0:
            # The loop has no event time of its own: it follows what flows in from outside.
            self.output.emit_watermark(MAX_TIMESTAMP)
            self.last_element_s = time.monotonic()
            self._start_superstep()
        for _ in range(limit):
            item = self.channel.take()
            if item is None:
                return self._nothing_came()
            if isinstance(item, SuperstepEnd):
                # Nobody had sent anything before the first marker, which says nothing then.
                if item.quiet and self.superstep > 0:
                    return END_OF_DATA
                self._start_superstep()
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

    def _start_superstep(self) -> None:
        self.superstep += 1
        self.context.broadcast_event(superstep_event(self.iteration, quiet=not self.active))
        self.active = False

    def _nothing_came(self) -> int:
        waited_s = time.monotonic() - self.last_element_s
        if 0 < self.wait_time_s <= waited_s:
            return END_OF_DATA
        return NOTHING_AVAILABLE
