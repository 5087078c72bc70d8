"""Processing-time timers of one task."""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING

from penstock.taskexecutor.task.mailbox import TASK

if TYPE_CHECKING:
    from collections.abc import Callable


class ProcessingTimeTimer:
    """A registered callback; ``cancel`` makes it never run."""

    __slots__ = ("_service", "callback", "position", "timestamp_ms")

    def __init__(
        self,
        timestamp_ms: int,
        callback: Callable[[int], object],
        position: int,
        service: ProcessingTimeService,
    ) -> None:
        """Keeps what to call with ``timestamp_ms`` when that time has come."""
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
    """The time of day, in ms since 1970 UTC."""
    return time.time_ns() // 1_000_000


class ProcessingTimeService:
    """Runs callbacks of the task's thread at given wall-clock times.

    The task's loop calls ``fire_due`` between its steps and waits no longer than
    ``wait_ms`` says.  So does an operator that waits in the middle of a record, for the timers
    of the operators from its own position in the chain on.
    """

    def __init__(self, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        """Creates a service without timers.

        Args:
            clock_ms: Gives the processing time in ms; tests give a virtual one.
        """
        self.now = clock_ms
        self._heap: list[tuple[int, int, ProcessingTimeTimer]] = []
        self._registered = 0
        self._cancelled = 0
        self._quiesced = False

    @property
    def num_timers(self) -> int:
        """Number of timers in memory: those that wait, and at most as many cancelled ones."""
        return len(self._heap)

    def register(
        self, timestamp_ms: int, callback: Callable[[int], object], position: int = TASK
    ) -> ProcessingTimeTimer:
        """Calls ``callback(timestamp_ms)`` once the clock shows at least ``timestamp_ms``.

        After ``quiesce`` the timer is never run.
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
        """Runs the callbacks whose time has come, earliest first.

        Callbacks registered meanwhile for a time that has come wait for the next call, so that
        a timer that re-registers itself cannot starve the input.
        """
        heap = self._heap
        if not heap:
            return
        now, registered = self.now(), self._registered
        # One by one: a callback may itself wait for a timer behind its own.
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
        """Drops all timers and takes no more."""
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
        """Registers timers of the operator at a position in the chain."""
        self.now = service.now
        self._service = service
        self._position = position

    def register(self, timestamp_ms: int, callback: Callable[[int], object]) -> ProcessingTimeTimer:
        """As `ProcessingTimeService.register`."""
        return self._service.register(timestamp_ms, callback, self._position)
