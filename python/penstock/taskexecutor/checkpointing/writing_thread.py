"""The thread that writes a task's snapshots, which storage may hold up for ever."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class WritingThread:
    """Runs one thing after the other, in a thread that nobody waits for.

    A `ThreadPoolExecutor` is of no use here: the interpreter waits for its threads when it ends,
    so that a worker, or a program with the target in-process, would hang with its storage.
    """

    def __init__(self, name: str) -> None:
        """Starts the thread.

        Args:
            name: Of the thread.
        """
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_closed = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, action: Callable[[], None]) -> None:
        """Runs ``action`` after what was submitted before; it must not raise."""
        self._waiting.put(action)

    def close(self) -> None:
        """Ends the thread after what it is doing; what waits is dropped.  Returns at once."""
        self._is_closed = True
        self._waiting.put(None)

    def _run(self) -> None:
        while (action := self._waiting.get()) is not None and not self._is_closed:
            action()
            # What was written is not kept until there is more to write.
            del action
