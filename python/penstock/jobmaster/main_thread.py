"""The JobMaster's main thread: everything that changes a job's state runs here, one at a time.

Connections, timers and callers post callables; the thread runs them in order.  State machines
therefore need no locks and never see two events at once.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Timer:
    """A scheduled call; `cancel` keeps it from running."""

    __slots__ = ("action", "cancelled")

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        """Keeps the call from running, if it has not run."""
        self.cancelled = True


class MainThread:
    """Runs posted calls and timers in one thread.

    Args:
        on_error: called with whatever a posted call raised; the thread goes on.
    """

    def __init__(self, name: str, on_error: Callable[[BaseException], None]) -> None:
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, Timer]] = []
        self._sequence = itertools.count()
        self._on_error = on_error
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def post(self, action: Callable[[], object]) -> None:
        """Runs ``action`` in the main thread, after what was posted before.  Any thread."""
        self._queue.put(action)

    def call(self, action: Callable[[], T], timeout_s: float) -> T:
        """Runs ``action`` in the main thread and returns its result; not from that thread.

        Raises:
            TimeoutError: it did not run within ``timeout_s``.
        """
        return self.submit(action).result(timeout_s)

    def submit(self, action: Callable[[], T]) -> Future[T]:
        """Runs ``action`` in the main thread; the future has its result.  Any thread.

        An action whose future was cancelled before its turn is not run.
        """
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return  # who asked has given up
            try:
                future.set_result(action())
            except BaseException as error:
                future.set_exception(error)

        self.post(run)
        return future

    def schedule(self, delay_s: float, action: Callable[[], object]) -> Timer:
        """Runs ``action`` in the main thread after a delay.  Any thread."""
        timer = Timer(action)
        due_s = time.monotonic() + delay_s
        self.post(lambda: heapq.heappush(self._timers, (due_s, next(self._sequence), timer)))
        return timer

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends the thread after what was posted before; timers that wait are dropped."""
        self._queue.put(None)
        if threading.current_thread() is not self._thread and self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            action = self._next()
            if action is None:
                return
            try:
                action()
            except BaseException as error:
                logger.exception("a call in the main thread failed")
                self._on_error(error)

    def _next(self) -> Callable[[], object] | None:
        """The next due timer or posted call; None at the end."""
        while True:
            wait_s: float | None = None
            if self._timers:
                due_s, _, timer = self._timers[0]
                wait_s = due_s - time.monotonic()
                if timer.cancelled or wait_s <= 0:
                    heapq.heappop(self._timers)
                    if timer.cancelled:
                        continue
                    return timer.action
            try:
                return self._queue.get(timeout=wait_s)
            except queue.Empty:
                continue
