"""Sources and sinks whose broker keeps messages until they are acknowledged.

A connection has a thread that receives from the broker; the connection's condition guards the state
that it shares with the task's thread.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from penstock.common.options.checkpointing import INTERVAL
from penstock.errors import SinkError, SourceError
from penstock.formats.dead_letters import Policy, dead_letter, is_decoding_error

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence

    from penstock.connectors.split_source import ReaderOutput, SourceReaderContext
    from penstock.errors import PenstockError

logger = logging.getLogger(__name__)

M = TypeVar("M")

#: How long a wait for the broker lasts before it checks for failures again, in seconds.
_WAIT_S: Final = 0.1


class Inbox(Generic[M]):
    """Messages that have arrived and that the task has not taken; the lock is the connection's.

    Attributes:
        messages: The waiting messages, in order; access requires the lock.
    """

    def __init__(self, condition: threading.Condition) -> None:
        """Create an empty inbox."""
        self.messages: deque[M] = deque()
        self._condition = condition
        self._arrival: Future[None] = Future()
        self._is_over = False

    def put(self, messages: Iterable[M]) -> None:
        """Add messages, and notify the task."""
        with self._condition:
            self.messages.extend(messages)
            self._tell()

    def put_back(self, messages: Sequence[M]) -> None:
        """Add messages that were taken earlier, in order, before those that wait."""
        with self._condition:
            self.messages.extendleft(reversed(messages))
            self._tell()

    def end(self) -> None:
        """Notify the task of another event, such as a failure, from now on."""
        with self._condition:
            self._is_over = True
            self._tell()

    def taken(self, limit: int) -> list[M]:
        """Return some messages, in order."""
        with self._condition:
            messages = self.messages
            found = [messages.popleft() for _ in range(min(limit, len(messages)))]
            self._condition.notify_all()
        return found

    def arrival(self) -> Future[None]:
        """Return a future that completes when there is a message or another event."""
        with self._condition:
            if not self.messages and not self._is_over and self._arrival.done():
                self._arrival = Future()
            return self._arrival

    def _tell(self) -> None:
        if not self._arrival.done():
            self._arrival.set_result(None)


class EmittedMessages(Generic[M]):
    """Messages that were emitted, until a checkpoint that contains them is complete.

    Attributes:
        keeps: Whether the job takes checkpoints, which decide when to acknowledge.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        """Create an empty store."""
        self.keeps = INTERVAL.read(context.get_configuration().to_dict()) is not None
        self._emitted: list[M] = []
        self._by_checkpoint: dict[int, list[M]] = {}

    def add(self, messages: Iterable[M]) -> None:
        """Add emitted messages."""
        self._emitted.extend(messages)

    def snapshot(self, checkpoint_id: int) -> None:
        """Assign the messages emitted so far to the checkpoint."""
        self._by_checkpoint[checkpoint_id], self._emitted = self._emitted, []

    def completed(self, checkpoint_id: int) -> list[M]:
        """Return the checkpoint's messages to acknowledge, in the order of emission."""
        held = sorted(number for number in self._by_checkpoint if number <= checkpoint_id)
        return [message for number in held for message in self._by_checkpoint.pop(number)]


class DeadLetters:
    """Handling of messages that a reader cannot decode."""

    def __init__(self, policy: Policy, remedy: str, context: SourceReaderContext) -> None:
        """Register the counter ``numRecordsInErrors``.

        Args:
            policy: The configured policy.
            remedy: The alternatives to it, for the error.
            context: The reader's context.
        """
        self._policy, self._remedy = policy, remedy
        self._errors = context.metric_group().counter("numRecordsInErrors")

    def bury(
        self,
        output: ReaderOutput,
        failure: Exception,
        what: str,
        origin: str,
        position: int | None,
        data: bytes,
        **record: Any,
    ) -> None:
        """Count a message, and emit a dead letter, or log and skip it.

        Other errors than decoding errors are raised: the function has a bug, or a registry is
        unavailable.

        Args:
            output: The reader's output.
            failure: The error of decoding; raised with a note if it fails the job.
            what: The message, for the note and the log.
            origin: As for `dead_letter`.
            position: As for `dead_letter`.
            data: As for `dead_letter`.
            record: As for `dead_letter`.
        """
        if isinstance(failure, SourceError):
            raise failure  # a registry is unavailable: the record may be valid
        if self._policy.fails:
            failure.add_note(f"{what} cannot be converted to a record; {self._remedy}.")
            raise failure
        if not is_decoding_error(failure):
            failure.add_note(
                f"It was raised for {what}, and is not a decoding error, such as FormatError "
                "or another ValueError: only decoding errors lead to skips and dead letters."
            )
            raise failure
        self._errors.inc()
        if self._policy.tag is None:
            logger.warning("skipped %s, which cannot be converted to a record: %r", what, failure)
        else:
            letter = dead_letter(origin, position, failure, data, **record)
            output.collect_side(self._policy.tag, letter)


class Publisher(Protocol):
    """A connection that publishes.

    Attributes:
        condition: Notified when messages are acknowledged, and of a failure.
        failure: Why the connection cannot be used any more, or None.
    """

    condition: threading.Condition
    failure: PenstockError | None

    def check(self) -> None:
        """Raise an error if the connection failed, or was not established in time."""

    def under_way(self) -> int:
        """Return the number of messages that the broker has not acknowledged."""

    def was_connected(self) -> bool:
        """Return whether a connection was ever established."""


def wait_until(
    publisher: Publisher, holds: Callable[[], bool], timeout_s: float, where: str
) -> None:
    """Wait until a condition on the connection or its acknowledgements holds.

    Args:
        publisher: The connection, which only the caller uses to publish.
        holds: The condition.
        timeout_s: How long to wait for the next acknowledgement; the first connection has a
            separate time limit.
        where: The sink and the broker, for the error.

    Raises:
        SinkError: The broker has acknowledged nothing for too long.
    """
    publisher.check()
    left, deadline_s = publisher.under_way(), time.monotonic() + timeout_s
    while not holds():
        with publisher.condition:
            if not holds() and publisher.failure is None:
                publisher.condition.wait(_WAIT_S)
        publisher.check()
        before, left = left, publisher.under_way()
        if left != before or not publisher.was_connected():
            deadline_s = time.monotonic() + timeout_s
        elif time.monotonic() >= deadline_s:
            raise SinkError(
                f"{where} has acknowledged nothing for {timeout_s:g} s (timeout_ms), "
                f"{left} messages are in flight"
            )
    # Messages refused meanwhile do not count as under way.
    publisher.check()
