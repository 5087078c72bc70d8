"""Gauges of user functions, called in threads of their own that may be lost.

A gauge's function is the user's: it may raise anything, ``SystemExit`` included, or never return.
A reader of metrics waits for all gauges of a scope until a deadline and continues without those
that have not returned by then.  A stuck gauge is not called again before it has returned.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GAUGES_TIME_S: Final = 1.0
"""Time limit for all gauges of a task together."""

MAX_LOST_THREADS: Final = 16
"""Limit of a process's threads that wait for gauges; at the limit no gauge is called."""

_threads: Final = threading.BoundedSemaphore(MAX_LOST_THREADS)


class UserGauge:
    """A function that returns the current value of a gauge.

    Attributes:
        function: The user's function.
        turn: Held while it is called.
        is_stuck: Whether a call of it has not returned in time.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        """Wrap a function, which is not called yet."""
        self.function = function
        self.turn = threading.Lock()
        self.is_stuck = False


class GaugeTurn:
    """One call of each of several gauges."""

    def __init__(
        self,
        gauges: Mapping[str, UserGauge],
        read: Callable[[str, Callable[[], Any]], Any],
        complain: Callable[[str, str], None],
    ) -> None:
        """Create the turn; `run` makes the calls.

        Args:
            gauges: By name.
            read: Calls a gauge's function; never raises, and returns None for no value.
            complain: Called with the name of a skipped gauge, and the reason.
        """
        self._complain = complain
        self._gauges = gauges
        self._read = read
        self._values: dict[str, Any] = {}
        self._current: tuple[str, UserGauge] | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()  # of the following, and of whether the current gauge is stuck
        self._is_given_up = False

    def run(self, until_s: float) -> dict[str, Any]:
        """Call the gauges that are not stuck, in their own thread.

        Args:
            until_s: The deadline for the values, on the monotonic clock.

        Returns:
            The values returned in time.
        """
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            return {}  # another gauge of the task used up the time, which is logged
        threads = _threads
        if not threads.acquire(blocking=False):
            for name in self._gauges:
                self._complain(name, f"is not called: {MAX_LOST_THREADS} others do not return")
            return {}
        try:
            threading.Thread(
                target=self._call_all, args=(threads,), name="gauges", daemon=True
            ).start()
        except BaseException:
            threads.release()
            raise
        if not self._ended.wait(left_s):
            with self._lock:
                self._is_given_up = True
                if (current := self._current) is not None:
                    current[1].is_stuck = True
            if current is not None:
                name, _ = current
                self._complain(name, f"takes more than {GAUGES_TIME_S:g} s: not called meanwhile")
        return dict(self._values)

    def _call_all(self, threads: threading.BoundedSemaphore) -> None:
        try:
            for name, gauge in self._gauges.items():
                if gauge.is_stuck:
                    continue
                with gauge.turn:
                    with self._lock:
                        if self._is_given_up:
                            return
                        self._current = name, gauge
                    value = self._read(name, gauge.function)
                    with self._lock:
                        gauge.is_stuck = False
                        self._current = None
                if value is not None:
                    self._values[name] = value
        finally:
            self._ended.set()
            threads.release()
