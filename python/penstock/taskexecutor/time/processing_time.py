"""Processing-time timers of one task."""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING

from penstock.taskexecutor.task.mailbox import TASK

if TYPE_CHECKING:
    from collections.abc import Callable


class ProcessingTimeTimer:
    """A registered callback; ``cancel`` prevents its run."""

    __slots__ = ("_service", "callback", "position", "timestamp_ms")

    def __init__(
        self,
        timestamp_ms: int,
        callback: Callable[[int], object],
        position: int,
        service: ProcessingTimeService,
    ) -> None:
        """Create a timer that calls ``callback(timestamp_ms)`` at that time."""
        self.timestamp_ms = timestamp_ms
        self.position = position
        self.callback: Callable[[int], object] | None = callback
        self._service = service

    def cancel(self) -> None:
        """Remove the timer, unless it has fired."""
        if self.callback is not None:
            self.callback = None
            self._service.note_cancelled()


def wall_clock_ms() -> int:
    """Return the time of day, in ms since 1970 UTC."""
    return time.time_ns() // 1_000_000


class ProcessingTimeService:
    """Runs callbacks of the task's thread at given wall-clock times.

    The task's loop calls ``fire_due`` between its steps and waits no longer than ``wait_ms``
    returns. An operator that waits in the middle of a record does the same, for the timers of
    operators from its own position in the chain on.
    """

    def __init__(self, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        """Create a service without timers.

        Args:
            clock_ms: Returns the processing time in ms; tests use a virtual clock.
        """
        self.now = clock_ms
        self._heap: list[tuple[int, int, ProcessingTimeTimer]] = []
        self._registered = 0
        self._cancelled = 0
        self._quiesced = False

    @property
    def num_timers(self) -> int:
        """Number of timers in memory: waiting ones, and at most as many cancelled ones."""
        return len(self._heap)

    def register(
        self, timestamp_ms: int, callback: Callable[[int], object], position: int = TASK
    ) -> ProcessingTimeTimer:
        """Call ``callback(timestamp_ms)`` once the clock shows at least ``timestamp_ms``.

        After ``quiesce`` the timer never runs.
        """
        timer = ProcessingTimeTimer(timestamp_ms, callback, position, self)
        if not self._quiesced:
            heapq.heappush(self._heap, (timestamp_ms, self._registered, timer))
            self._registered += 1
        return timer

    def wait_ms(self, longest_ms: int, position: int = TASK) -> int:
        """Return the time until the next timer, at most ``longest_ms``."""
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        if not heap:
            return longest_ms
        next_ms, now = heap[0][0], self.now()
        if position > TASK:
            waiting = (at for at, _, timer in heap if timer.callback and timer.position >= position)
            next_ms = min(waiting, default=now + longest_ms)
        return max(0, min(longest_ms, next_ms - now))

    def fire_due(self, position: int = TASK) -> None:
        """Run the callbacks that are due, earliest first.

        Due callbacks registered meanwhile wait for the next call, so that a timer that registers
        itself again cannot starve the input.
        """
        heap = self._heap
        if not heap:
            return
        now, registered = self.now(), self._registered
        # One by one: a callback may itself wait for a later timer.
        while (timer := self._take_due(now, registered, position)) is not None:
            callback, timer.callback = timer.callback, None
            assert callback is not None, "not cancelled"
            callback(timer.timestamp_ms)

    def note_cancelled(self) -> None:
        """Remove the cancelled timers from the heap if they are more than half of it."""
        self._cancelled += 1
        heap = self._heap
        if 2 * self._cancelled > len(heap):
            heap[:] = [entry for entry in heap if entry[2].callback is not None]
            heapq.heapify(heap)
            self._cancelled = 0

    def quiesce(self) -> None:
        """Drop all timers and accept no more."""
        self._quiesced = True
        self._heap.clear()
        self._cancelled = 0

    def _take_due(self, now: int, registered: int, position: int) -> ProcessingTimeTimer | None:
        heap, found = self._heap, None
        passed: list[tuple[int, int, ProcessingTimeTimer]] = []
        while found is None and heap and heap[0][0] <= now:
            entry = heapq.heappop(heap)
            if entry[2].callback is None:
                self._cancelled -= 1
            elif entry[1] < registered and entry[2].position >= position:
                found = entry[2]
            else:
                passed.append(entry)
        for entry in passed:
            heapq.heappush(heap, entry)
        return found


class OperatorProcessingTime:
    """The clock and the timers of one operator of the task."""

    def __init__(self, service: ProcessingTimeService, position: int) -> None:
        """Create the timers of the operator at a position in the chain."""
        self.now = service.now
        self._service = service
        self._position = position

    def register(self, timestamp_ms: int, callback: Callable[[int], object]) -> ProcessingTimeTimer:
        """Register a timer, as `ProcessingTimeService.register` does."""
        return self._service.register(timestamp_ms, callback, self._position)
