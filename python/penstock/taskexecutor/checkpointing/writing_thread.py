"""The thread that writes a task's snapshots, which storage may block forever."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class WritingThread:
    """Runs actions one after the other, in a thread that nobody joins.

    A `ThreadPoolExecutor` does not fit: the interpreter joins its threads on exit, so a worker, or
    a program with the target in-process, would hang if its storage does.
    """

    def __init__(self, name: str) -> None:
        """Start the thread.

        Args:
            name: The thread's name.
        """
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_closed = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, action: Callable[[], None]) -> None:
        """Run ``action`` after those submitted before; it must not raise."""
        self._waiting.put(action)

    def close(self) -> None:
        """End the thread after its current action; drop the others.  Return at once."""
        self._is_closed = True
        self._waiting.put(None)

    def _run(self) -> None:
        while (action := self._waiting.get()) is not None and not self._is_closed:
            action()
            # Release the written state before waiting for the next action.
            del action
