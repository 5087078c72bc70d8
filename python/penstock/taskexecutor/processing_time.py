"""Processing-time timers of one task."""

from __future__ import annotations

import heapq
import time
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ProcessingTimeTimer:
    """A registered callback; ``cancel`` makes it never run."""

    __slots__ = ("callback", "timestamp_ms")

    def __init__(self, timestamp_ms: int, callback: Callable[[int], object]) -> None:
        """Keeps what to call with ``timestamp_ms`` when that time has come."""
        self.timestamp_ms = timestamp_ms
        self.callback: Callable[[int], object] | None = callback

    def cancel(self) -> None:
        """Forgets the callback."""
        self.callback = None


def wall_clock_ms() -> int:
    """The time of day, in ms since 1970 UTC."""
    return time.time_ns() // 1_000_000


class ProcessingTimeService:
    """Runs callbacks of the task's thread at given wall-clock times.

    The task's loop calls ``fire_due`` between its steps and waits no longer than
    ``wait_ms`` says.
    """

    def __init__(self, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        """Creates a service without timers.

        Args:
            clock_ms: Gives the processing time in ms; tests give a virtual one.
        """
        self.now = clock_ms
        self._heap: list[tuple[int, int, ProcessingTimeTimer]] = []
        self._sequence = count()
        self._quiesced = False

    def register(self, timestamp_ms: int, callback: Callable[[int], object]) -> ProcessingTimeTimer:
        """Calls ``callback(timestamp_ms)`` once the clock shows at least ``timestamp_ms``.

        After ``quiesce`` the timer is never run.
        """
        timer = ProcessingTimeTimer(timestamp_ms, callback)
        if not self._quiesced:
            heapq.heappush(self._heap, (timestamp_ms, next(self._sequence), timer))
        return timer

    def wait_ms(self, longest_ms: int) -> int:
        """How long the task may wait until the next timer, at most ``longest_ms``."""
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
        if not heap:
            return longest_ms
        return max(0, min(longest_ms, heap[0][0] - self.now()))

    def fire_due(self) -> None:
        """Runs the callbacks whose time has come, earliest first.

        Callbacks registered meanwhile for a time that has come wait for the next call, so that
        a timer that re-registers itself cannot starve the input.
        """
        heap = self._heap
        if not heap:
            return
        now = self.now()
        if heap[0][0] > now:
            return
        due = []
        while heap and heap[0][0] <= now:
            due.append(heapq.heappop(heap)[2])
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback(timer.timestamp_ms)

    def quiesce(self) -> None:
        """Drops all timers and takes no more."""
        self._quiesced = True
        self._heap.clear()
