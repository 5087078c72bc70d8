"""Sources and sinks whose broker keeps messages until they are acknowledged.

A connection has a thread that hears the broker; what it shares with the task's thread is guarded by
the connection's condition.
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
    from collections.abc import Callable, Iterable

    from penstock.connectors.split_source import ReaderOutput, SourceReaderContext
    from penstock.errors import PenstockError

logger = logging.getLogger(__name__)

M = TypeVar("M")

#: How long a wait for the broker is before it looks at failures again, in seconds.
_WAIT_S: Final = 0.1


class Inbox(Generic[M]):
    """Messages that have come and that the task has not taken; the lock is the connection's.

    Attributes:
        messages: What waits, in its order; for who holds the lock.
    """

    def __init__(self, condition: threading.Condition) -> None:
        """Create an empty one."""
        self.messages: deque[M] = deque()
        self._condition = condition
        self._arrival: Future[None] = Future()
        self._is_over = False

    def put(self, messages: Iterable[M]) -> None:
        """Adds messages, and tells the task."""
        with self._condition:
            self.messages.extend(messages)
            self._tell()

    def end(self) -> None:
        """Tells the task that there is something else to look at, a failure, from now on."""
        with self._condition:
            self._is_over = True
            self._tell()

    def taken(self, limit: int) -> list[M]:
        """Some messages, in their order."""
        with self._condition:
            messages = self.messages
            found = [messages.popleft() for _ in range(min(limit, len(messages)))]
            self._condition.notify_all()
        return found

    def arrival(self) -> Future[None]:
        """Done when there is a message, or something else to look at."""
        with self._condition:
            if not self.messages and not self._is_over and self._arrival.done():
                self._arrival = Future()
            return self._arrival

    def _tell(self) -> None:
        if not self._arrival.done():
            self._arrival.set_result(None)


class EmittedMessages(Generic[M]):
    """Messages that were emitted, until a complete checkpoint holds them.

    Attributes:
        keeps: Whether the job takes checkpoints: without any, none says when to acknowledge.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        """Has none yet."""
        self.keeps = INTERVAL.read(context.get_configuration().to_dict()) is not None
        self._emitted: list[M] = []
        self._by_checkpoint: dict[int, list[M]] = {}

    def add(self, messages: Iterable[M]) -> None:
        """Messages were emitted."""
        self._emitted.extend(messages)

    def snapshot(self, checkpoint_id: int) -> None:
        """The checkpoint holds all that was emitted so far."""
        self._by_checkpoint[checkpoint_id], self._emitted = self._emitted, []

    def completed(self, checkpoint_id: int) -> list[M]:
        """Return the checkpoint's messages to acknowledge, in the order of emission."""
        held = sorted(number for number in self._by_checkpoint if number <= checkpoint_id)
        return [message for number in held for message in self._by_checkpoint.pop(number)]


class DeadLetters:
    """Handling of messages that a reader cannot decode."""

    def __init__(self, policy: Policy, remedy: str, context: SourceReaderContext) -> None:
        """Registers the counter ``numRecordsInErrors``.

        Args:
            policy: What was chosen.
            remedy: What may be chosen instead, for the error.
            context: The reader's.
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
        """Counts, and makes a dead letter, or leaves out and logs.

        What is no decoding error is raised: it is a mistake of the function, or a registry is away.

        Args:
            output: The reader's.
            failure: Why no record can be made; raised with a note where it fails the job.
            what: What it cannot be made of, for the note and the log.
            origin: As in `dead_letter`.
            position: As in `dead_letter`.
            data: As in `dead_letter`.
            record: As in `dead_letter`.
        """
        if isinstance(failure, SourceError):
            raise failure  # a registry is away: this record is none the worse for it
        if self._policy.fails:
            failure.add_note(f"No element can be made of {what}; {self._remedy}.")
            raise failure
        if not is_decoding_error(failure):
            failure.add_note(
                f"It was raised for {what}, and is no decoding error, as FormatError and other "
                "ValueErrors are: such a record alone is left out or a dead letter."
            )
            raise failure
        self._errors.inc()
        if self._policy.tag is None:
            logger.warning("left out %s, of which no element can be made: %r", what, failure)
        else:
            letter = dead_letter(origin, position, failure, data, **record)
            output.collect_side(self._policy.tag, letter)


class Publisher(Protocol):
    """A connection that publishes.

    Attributes:
        condition: Notified when messages are acknowledged, and of a failure.
        failure: Why it is of no use any more, or None.
    """

    condition: threading.Condition
    failure: PenstockError | None

    def check(self) -> None:
        """Raises why the connection is of no use, or that there was none in time."""

    def under_way(self) -> int:
        """Number of messages that the broker has not acknowledged."""

    def was_connected(self) -> bool:
        """Return whether there was a connection already."""


def wait_until(
    publisher: Publisher, holds: Callable[[], bool], timeout_s: float, where: str
) -> None:
    """Waits until something holds, which has to do with connection and acknowledgements.

    Args:
        publisher: The connection, of which nobody else publishes.
        holds: What is waited for.
        timeout_s: How long to wait for the next acknowledgement; the first connection has a time
            limit of its own.
        where: The sink and the broker, for the error.

    Raises:
        SinkError: The broker has acknowledged nothing for so long.
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
                f"{left} messages are under way"
            )
    # What was refused meanwhile is under way no more.
    publisher.check()
