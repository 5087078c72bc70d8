"""Relays a checkpoint's message to the tasks of a worker, a few at a time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.rpc.messages import ForCheckpoints
    from penstock.taskexecutor.task.task import Task

#: Tasks woken for it at a time.
AT_A_TIME: Final = 2

#: Time for a few tasks before the others are woken as well: they are busy, or sleep.
PATIENCE_S: Final = 0.005
FEW: Final = 3


def relay(message: ForCheckpoints, tasks: Sequence[Task], patience_s: float = PATIENCE_S) -> None:
    """Let tasks handle a message; return when all have received it.

    Awake threads wait for the single interpreter lock, and wake up every 5 ms to request it:
    hundreds of them would spend more time on that than on the message.
    """
    chain = _Relay(message, tasks)
    for _ in range(AT_A_TIME):
        chain.tell_next()
    chain.await_last(patience_s)


class _Relay:
    """The thread that handled a message wakes the next one."""

    def __init__(self, message: ForCheckpoints, tasks: Sequence[Task]) -> None:
        self._message = message
        #: Held while a task is notified; when the queue is empty, all have been.
        self._lock = threading.Lock()
        self._left = iter(tasks)
        self._num_told = 0
        self._all_told = threading.Event()

    def tell_next(self) -> None:
        """Notify tasks until one of them is woken; any thread."""
        with self._lock:
            self._num_told += 1
            for task in self._left:
                if task.handle_checkpoint_message(self._message, self.tell_next):
                    return
            self._all_told.set()

    def await_last(self, patience_s: float) -> None:
        """Wait until all tasks are notified; notify the rest at once if progress is too slow."""
        while not self._all_told.wait(patience_s):
            if self._num_told < FEW:
                while not self._all_told.is_set():
                    self.tell_next()
            self._num_told = 0
