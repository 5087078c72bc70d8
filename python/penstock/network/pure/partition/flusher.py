"""Flushes result partitions some time after their first unflushed record (internals M10)."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from typing import Protocol


class TimedFlush(Protocol):
    """Target of the flusher."""

    def _timed_flush(self) -> None:
        """Make every committed byte readable."""


class OutputFlusher:
    """One daemon thread for all partitions of an environment; it sleeps until a flush is due.

    A partition schedules itself with its first record after a flush, so that partitions without
    data cost nothing and no record waits longer than the timeout.
    """

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, TimedFlush]] = []
        self._order = itertools.count()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def schedule(self, partition: TimedFlush, timeout_ms: int) -> None:
        """Flush ``partition`` once, ``timeout_ms`` from now."""
        entry = (time.monotonic() + timeout_ms / 1000, next(self._order), partition)
        with self._changed:
            heapq.heappush(self._due, entry)
            if self._due[0] is entry:
                self._changed.notify()

    def close(self) -> None:
        """End the thread and wait for it."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._is_due():
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
                if self._closed:
                    return
                partition = heapq.heappop(self._due)[2]
            partition._timed_flush()

    def _is_due(self) -> bool:
        return bool(self._due) and self._due[0][0] <= time.monotonic()
