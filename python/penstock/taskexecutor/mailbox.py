"""The mailbox of a task: actions that other threads hand to the task's thread.

One thread runs the user code, timers and state accesses of a subtask.  Everything else that
wants to touch them (cancellation, checkpoint triggers, results of asynchronous calls) posts a
mail, which the task's thread runs between two steps of its input.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable


class MailboxClosedError(PenstockError):
    """A mail was put into a mailbox that takes no more."""


class Mailbox:
    """A queue of actions with the states open, quiesced and closed.

    ``execute`` may be called from any thread, the rest from the task's thread only.
    """

    def __init__(self, wakeup: Callable[[], None]) -> None:
        """Creates an open mailbox.

        Args:
            wakeup: Called after a mail was put, from the putting thread; it must end whatever
                the task's thread is blocked in.
        """
        self._wakeup = wakeup
        self._mails: deque[Callable[[], object]] = deque()
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._open = True

    @property
    def has_mail(self) -> bool:
        """Whether a mail is waiting."""
        return bool(self._mails)

    def execute(self, action: Callable[[], object]) -> None:
        """Has the task's thread run ``action`` soon, after those put before it.

        Raises:
            MailboxClosedError: The task is ending and takes no more mails.
        """
        with self._lock:
            if not self._open:
                msg = "the task's mailbox is closed"
                raise MailboxClosedError(msg)
            self._mails.append(action)
            self._arrived.notify_all()
        self._wakeup()

    def run_pending(self) -> bool:
        """Runs the mails that are waiting now, not those that they post; whether any ran."""
        count = len(self._mails)
        for _ in range(count):
            self._mails.popleft()()
        return count > 0

    def wait(self, timeout_ms: float | None) -> bool:
        """Blocks until a mail is waiting or the time is over; whether one is waiting."""
        with self._lock:
            if not self._mails:
                self._arrived.wait(None if timeout_ms is None else timeout_ms / 1000)
            return bool(self._mails)

    def quiesce(self) -> None:
        """Takes no new mail; those waiting may still be run."""
        with self._lock:
            self._open = False

    def drain(self) -> None:
        """Quiesces, then runs what is left."""
        self.quiesce()
        while self._mails:
            self._mails.popleft()()

    def close(self) -> None:
        """Takes no new mail and drops those waiting."""
        with self._lock:
            self._open = False
            self._mails.clear()
