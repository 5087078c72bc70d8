"""The mailbox of a task: actions that other threads post to the task's thread.

One thread runs the user code, timers and state accesses of a subtask.  Any other work that touches
them (cancellation, checkpoint triggers, results of asynchronous calls) is posted as a mail, which
the task's thread runs between two steps of its input.

An operator that waits in the middle of a record runs mails meanwhile, but only those of operators
at or behind its own position: those before it are in the middle of that record too. So is the task,
even if the operator is its first: a snapshot would miss the record.

Each mail is posted by a named user with a limit, so the mailbox is bounded, and a full one names
the user whose mails the task does not keep up with.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError, QueueFullError

if TYPE_CHECKING:
    from collections.abc import Callable


#: Number of recent mail latencies kept.
_LATENCIES: Final = 60

#: The position of the task itself, before its first operator.
TASK: Final = -1
#: Position of a mail that ends the wait of any operator.
EVERYWHERE: Final = sys.maxsize


class MailboxClosedError(PenstockError):
    """A mail was posted to a closed mailbox."""


@dataclass(frozen=True, eq=False)
class MailboxUser:
    """A sender of mails: its name, in the plural, and how many of its mails may wait.

    Instances are distinct users, even with equal names.
    """

    name: str
    limit: int


WAKE_UPS: Final = MailboxUser("wake-ups", 1)
#: Splits and events of the sources' enumerators: as many as may wait at the other end of the
#: connection (`rpc.connection.MAX_QUEUED_MESSAGES`), for each of 16 chained sources.
COORDINATORS: Final = MailboxUser("messages of coordinators", 16 * 4096)
#: Triggers and notices: as many as may wait at the other end of the connection.
CHECKPOINTS: Final = MailboxUser("messages of checkpoints", 4096)
#: The next slice, and the notice that a full snapshot was written beside checkpoints.
SLICES: Final = MailboxUser("slices of snapshots", 2)
PINGS: Final = MailboxUser("pings", 1)
LOOKS: Final = MailboxUser("looks at records and states", 256)
MEASUREMENTS: Final = MailboxUser("measurements of the mailbox", 1)


class Mailbox:
    """A queue of actions with the states open, quiesced and closed.

    ``execute`` may be called from any thread, the rest from the task's thread only.

    Attributes:
        processed: Number of mails run so far.
        latencies_ms: Waiting times of some recent mails; one mail is measured at a time.
    """

    def __init__(self, wakeup: Callable[[], None]) -> None:
        """Create an open mailbox.

        Args:
            wakeup: Called after a mail was posted, in the posting thread; it must end any wait of
                the task's thread.
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
        """Number of waiting mails; any thread."""
        return len(self._mails)

    def execute(
        self,
        action: Callable[[], object],
        user: MailboxUser,
        position: int = TASK,
    ) -> None:
        """Run ``action`` soon in the task's thread, after the mails posted before.

        Args:
            action: The action to run.
            user: The sender.
            position: Position in the chain of the operator that the mail concerns.

        Raises:
            MailboxClosedError: The task is ending and accepts no more mails.
            QueueFullError: This user has as many mails waiting as it may.
        """
        with self._lock:
            if not self._open:
                msg = "the task's mailbox is closed"
                raise MailboxClosedError(msg)
            waiting = self._waiting.get(user, 0)
            if waiting >= user.limit:
                raise QueueFullError(
                    f"{user.name}: {waiting} wait for the task's thread already, which is too slow "
                    "or stuck in user code"
                )
            self._waiting[user] = waiting + 1
            self._mails.append((position, action, user))
            if self._measured is None:
                self._measured, self._measured_since_ns = action, time.monotonic_ns()
            if self._is_awaited:
                self._arrived.notify_all()
        self._wakeup()

    def run_pending(self, position: int = TASK) -> None:
        """Run about as many mails as are waiting now, so that mails that post mails return.

        Args:
            position: Position in the chain of the operator that waits; mails for earlier ones stay.
        """
        for _ in range(len(self._mails)):
            # One by one: a mail may itself wait for a later one.
            action = self._take(position)
            if action is None:
                return
            action()

    def wait(self, timeout_ms: float | None, position: int = TASK) -> None:
        """Block until a mail for ``position`` or behind it is waiting, or the time is over."""
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        with self._lock:
            self._is_awaited = True
            self._arrived.wait_for(
                lambda: any(mail[0] >= position for mail in self._mails), timeout_s
            )
            self._is_awaited = False

    def quiesce(self) -> None:
        """Accept no new mail; waiting mails may still run."""
        with self._lock:
            self._open = False

    def drain(self) -> None:
        """Quiesce, then run the waiting mails."""
        self.quiesce()
        while (action := self._take(TASK)) is not None:
            action()

    def close(self) -> None:
        """Accept no new mail and drop the waiting ones."""
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
