"""The mailbox of a task: actions that other threads hand to the task's thread.

One thread runs the user code, timers and state accesses of a subtask.  Everything else that
wants to touch them (cancellation, checkpoint triggers, results of asynchronous calls) posts a
mail, which the task's thread runs between two steps of its input.

An operator that waits in the middle of a record runs mails meanwhile, but only those of the
operators from its own place in the chain on: those before it are in the middle of that record too.
So is the task, even if that operator is its first: a snapshot would miss the record.

Whoever puts mails in does so as a named user with a bound: so the mailbox has one too, and a full
one says whose mails the task does not keep up with.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError, QueueFullError

if TYPE_CHECKING:
    from collections.abc import Callable


#: Latencies of mails that are kept.
_LATENCIES: Final = 60

#: The position of the task itself, before its first operator.
TASK: Final = -1


class MailboxClosedError(PenstockError):
    """A mail was put into a mailbox that takes no more."""


@dataclass(frozen=True, eq=False)
class MailboxUser:
    """Somebody who puts mails in: what they are, in the plural, and how many may wait.

    Each instance is another user, whatever its name.
    """

    name: str
    limit: int


WAKE_UPS: Final = MailboxUser("wake-ups", 1)
#: Splits and events of the sources' enumerators: as many as may wait at the other end of the
#: connection (`rpc.connection.MAX_QUEUED_MESSAGES`), for each of 16 chained sources.
COORDINATORS: Final = MailboxUser("messages of coordinators", 16 * 4096)
#: Triggers and notices: as many as may wait at the other end of the connection.
CHECKPOINTS: Final = MailboxUser("messages of checkpoints", 4096)
#: The next slice, and word that state was written as a whole beside checkpoints.
SLICES: Final = MailboxUser("slices of snapshots", 2)
PINGS: Final = MailboxUser("pings", 1)
LOOKS: Final = MailboxUser("looks at records and states", 256)
MEASUREMENTS: Final = MailboxUser("measurements of the mailbox", 1)


class Mailbox:
    """A queue of actions with the states open, quiesced and closed.

    ``execute`` may be called from any thread, the rest from the task's thread only.

    Attributes:
        processed: How many mails were run until now.
        latencies_ms: How long some of the last mails waited: of those that come while one is
            measured none is.
    """

    def __init__(self, wakeup: Callable[[], None]) -> None:
        """Creates an open mailbox.

        Args:
            wakeup: Called after a mail was put, from the putting thread; it must end whatever
                the task's thread is blocked in.
        """
        self._wakeup = wakeup
        self._mails: deque[tuple[int, Callable[[], object], MailboxUser]] = deque()
        self._waiting: dict[MailboxUser, int] = {}
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._open = True
        self._is_awaited = False
        self.processed = 0
        self._measured: Callable[[], object] | None = None
        self._measured_since_ns = 0
        self.latencies_ms: deque[int] = deque(maxlen=_LATENCIES)

    @property
    def has_mail(self) -> bool:
        """Return whether a mail is waiting."""
        return bool(self._mails)

    @property
    def size(self) -> int:
        """Number of mails that wait; any thread."""
        return len(self._mails)

    def execute(
        self,
        action: Callable[[], object],
        user: MailboxUser,
        position: int = TASK,
    ) -> None:
        """Has the task's thread run ``action`` soon, after those put before it.

        Args:
            action: What to run.
            user: Whose mail it is.
            position: The place in the chain of the operator that it concerns.

        Raises:
            MailboxClosedError: The task is ending and takes no more mails.
            QueueFullError: As many mails of this user wait as may.
        """
        with self._lock:
            if not self._open:
                msg = "the task's mailbox is closed"
                raise MailboxClosedError(msg)
            waiting = self._waiting.get(user, 0)
            if waiting >= user.limit:
                raise QueueFullError(
                    f"{user.name}: {waiting} wait for the task's thread already, which does not "
                    "keep up with them or is held by user code"
                )
            self._waiting[user] = waiting + 1
            self._mails.append((position, action, user))
            if self._measured is None:
                self._measured, self._measured_since_ns = action, time.monotonic_ns()
            if self._is_awaited:
                self._arrived.notify_all()
        self._wakeup()

    def run_pending(self, position: int = TASK) -> None:
        """Runs about as many mails as are waiting now, so that mails that post mails come back.

        Args:
            position: The place in the chain of the operator that waits; mails for those before it
                stay.
        """
        for _ in range(len(self._mails)):
            # One by one: a mail may itself wait for one behind it.
            action = self._take(position)
            if action is None:
                return
            action()

    def wait(self, timeout_ms: float | None, position: int = TASK) -> None:
        """Blocks until a mail for ``position`` or behind it is waiting, or the time is over."""
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        with self._lock:
            self._is_awaited = True
            self._arrived.wait_for(
                lambda: any(mail[0] >= position for mail in self._mails), timeout_s
            )
            self._is_awaited = False

    def quiesce(self) -> None:
        """Takes no new mail; those waiting may still be run."""
        with self._lock:
            self._open = False

    def drain(self) -> None:
        """Quiesces, then runs what is left."""
        self.quiesce()
        while (action := self._take(TASK)) is not None:
            action()

    def close(self) -> None:
        """Takes no new mail and drops those waiting."""
        with self._lock:
            self._open = False
            self._mails.clear()
            self._waiting.clear()
            self._measured = None

    def _take(self, position: int) -> Callable[[], object] | None:
        with self._lock:
            for index, (at, action, user) in enumerate(self._mails):
                if at >= position:
                    del self._mails[index]
                    self._waiting[user] -= 1
                    self.processed += 1
                    if action is self._measured:
                        self._measured = None
                        waited_ns = time.monotonic_ns() - self._measured_since_ns
                        self.latencies_ms.append(waited_ns // 1_000_000)
                    return action
        return None
