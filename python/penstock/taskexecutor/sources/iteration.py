"""Feedback edges: the tail of an iteration hands elements to its head in the same process.

Head and tail of one subtask are co-located, so that a queue in memory connects them.  The queue
has no bound of its own: a bound would let head and tail wait for each other for ever.  What it
can hold is what the loop has in flight.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.loop import (
    END_OF_DATA,
    MORE_AVAILABLE,
    NOTHING_AVAILABLE,
    SourceOperator,
    StreamOperator,
)

if TYPE_CHECKING:
    from penstock.taskexecutor.operator_context import OperatorContext


class FeedbackQueue:
    """Elements on their way from a tail to its head."""

    def __init__(self) -> None:
        """Starts empty."""
        self.elements: deque[tuple[Any, int]] = deque()
        self.arrived = threading.Event()

    def put(self, value: Any, timestamp: int) -> None:
        """Hands an element over."""
        self.elements.append((value, timestamp))
        self.arrived.set()


_queues: Final[dict[tuple[bytes, int, str, int], FeedbackQueue]] = {}
_lock: Final = threading.Lock()


def feedback_queue(context: OperatorContext) -> FeedbackQueue:
    """The queue of the context's iteration and subtask; whoever comes first makes it."""
    with _lock:
        return _queues.setdefault(_identity(context), FeedbackQueue())


def forget_feedback_queue(context: OperatorContext) -> None:
    """Drops the queue once the head has ended."""
    with _lock:
        _queues.pop(_identity(context), None)


def _identity(context: OperatorContext) -> tuple[bytes, int, str, int]:
    environment = context.environment
    iteration = context.descriptor.arguments["iteration"]
    return environment.job_id, environment.attempt_number, iteration, environment.subtask


def create_iteration_head(context: OperatorContext) -> StreamOperator:
    """The source of an iteration."""
    return IterationHead(context)


def create_iteration_tail(context: OperatorContext) -> StreamOperator:
    """The sink of an iteration."""
    return IterationTail(context)


class IterationHead(SourceOperator):
    """Emits what the tail fed back; ends when nothing came for ``wait_time_ms``.

    With a wait time of 0 it never ends by itself.
    """

    def __init__(self, context: OperatorContext) -> None:
        """Creates the head."""
        super().__init__()
        self.queue = feedback_queue(context)
        self.wait_time_s = (context.descriptor.arguments.get("wait_time_ms") or 0) / 1000
        self.cancelled = False
        self.quiet_since = time.monotonic()

    def emit_next(self, limit: int) -> int:
        """Emits at most ``limit`` elements of the queue."""
        if self.cancelled:
            return END_OF_DATA
        elements = self.queue.elements
        self.queue.arrived.clear()
        if not elements:
            quiet_s = time.monotonic() - self.quiet_since
            return END_OF_DATA if 0 < self.wait_time_s <= quiet_s else NOTHING_AVAILABLE
        for _ in range(min(limit, len(elements))):
            self.output.collect(*elements.popleft())
        self.quiet_since = time.monotonic()
        return MORE_AVAILABLE

    def wait_available(self, timeout_ms: int) -> None:
        """Blocks until an element was fed back, ``wakeup``, or the end of a time."""
        timeout_s = timeout_ms / 1000
        if self.wait_time_s > 0:
            timeout_s = min(timeout_s, self.wait_time_s)
        if not self.queue.elements:
            self.queue.arrived.wait(timeout_s)

    def wakeup(self) -> None:
        """Ends a wait from another thread."""
        self.queue.arrived.set()

    def cancel(self) -> None:
        """Ends the iteration early, from any thread."""
        self.cancelled = True
        self.queue.arrived.set()

    def close(self) -> None:
        """Forgets the queue."""
        forget_feedback_queue(self.context)


class IterationTail(StreamOperator):
    """Feeds elements back; event time ends here."""

    def __init__(self, context: OperatorContext) -> None:
        """Creates the tail."""
        super().__init__()
        self.queue = feedback_queue(context)

    def process(self, value: Any, timestamp: int) -> None:
        """Feeds one element back."""
        self.queue.put(value, timestamp)
