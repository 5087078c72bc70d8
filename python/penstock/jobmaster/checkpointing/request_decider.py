"""Decides which checkpoint request is served next, and which must wait or fail (M52)."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason

if TYPE_CHECKING:
    from penstock.jobmaster.checkpointing.properties import CheckpointProperties

#: Capacity of the queue.
MAX_QUEUED_REQUESTS: Final = 1000


@dataclass(frozen=True)
class CheckpointRequest:
    """A request for a checkpoint.

    Attributes:
        number: Identifies the request; later requests have higher numbers.
        at_ms: When it was made.
        properties: The properties of the checkpoint.
        is_periodic: Whether the coordinator made it because the interval has passed.
    """

    number: int
    at_ms: int
    properties: CheckpointProperties
    is_periodic: bool = False

    @property
    def rank(self) -> tuple[bool, bool, bool, int, int]:
        """Return the sort key: savepoints first, then forced ones, the user's, the older."""
        properties = self.properties
        return (
            not properties.is_savepoint,
            not properties.forced,
            self.is_periodic,
            self.at_ms,
            self.number,
        )


@dataclass(frozen=True)
class Decision:
    """The next step.

    Attributes:
        start: The request to serve, if any.
        refused: Requests that have failed, and why.
        retry_at_ms: When a periodic request that the pause refused may be made again.
    """

    start: CheckpointRequest | None = None
    refused: tuple[tuple[CheckpointRequest, CheckpointFailureReason], ...] = ()
    retry_at_ms: int | None = None


@dataclass
class CheckpointRequestDecider:
    """Queues requests and chooses the next one.

    Attributes:
        max_concurrent: Limit of pending checkpoints; forced requests ignore it.
        min_pause_ms: Pause between a completion and the start of a periodic request.
    """

    max_concurrent: int
    min_pause_ms: int
    _queue: list[CheckpointRequest] = field(default_factory=list)

    def add(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Queue a request; return the one that the full queue drops, if any."""
        bisect.insort(self._queue, request, key=lambda queued: queued.rank)
        return self._queue.pop() if len(self._queue) > MAX_QUEUED_REQUESTS else None

    def choose(
        self, *, pending: int, cleaning: int, last_completion_ms: int | None, now_ms: int
    ) -> Decision:
        """Choose the request to start now.

        Args:
            pending: Number of pending checkpoints.
            cleaning: Number of checkpoints that are being deleted.
            last_completion_ms: When the last one was complete; None before the first.
            now_ms: The time.
        """
        if not self._queue or cleaning > self.max_concurrent:
            return Decision()
        head = self._queue[0]
        if pending >= self.max_concurrent and not head.properties.forced:
            return Decision()
        if head.is_periodic and not head.properties.forced and last_completion_ms is not None:
            next_ms = last_completion_ms + self.min_pause_ms
            if now_ms < next_ms:
                del self._queue[0]
                reason = CheckpointFailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
                return Decision(refused=((head, reason),), retry_at_ms=next_ms)
        del self._queue[0]
        return Decision(start=head)

    @property
    def has_periodic(self) -> bool:
        """Return whether a periodic request waits."""
        return any(request.is_periodic for request in self._queue)

    def drain(self) -> list[CheckpointRequest]:
        """Remove and return all requests."""
        drained, self._queue = self._queue, []
        return drained

    def __len__(self) -> int:
        return len(self._queue)
