"""Decides when workers may be started again after failures.

A state machine without a clock: it is notified of failures and returns the time to wait.  Three
failures within a minute are followed by a pause; while failures continue, each pause is twice as
long as the previous one.  A minute without a failure resets that.
"""

from __future__ import annotations

from collections import deque

WINDOW_S = 60.0
"""Time during which a failure counts."""
MAX_FAILURES = 3
"""Failures within the window before a pause, and in a row before requests are refused."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


class StartFailures:
    """Counts workers that ended before they offered a slot."""

    def __init__(self) -> None:
        self._times_s: deque[float] = deque(maxlen=MAX_FAILURES)
        self._pause_s = 0.0
        self._paused_until_s = 0.0
        self._in_a_row = 0

    def failed(self, now_s: float, *, was_told: bool, hopeless: bool) -> bool:
        """Count a worker that could not be started.

        Args:
            now_s: the time.
            was_told: whether it was started before the waiting jobs were last notified.
            hopeless: whether it counts as the maximum number of failures.

        Returns:
            Whether to notify the waiting jobs that no worker will start.
        """
        if self._times_s and now_s - self._times_s[-1] > WINDOW_S:
            self._pause_s = 0.0
        count = MAX_FAILURES if hopeless else 1
        self._times_s.extend([now_s] * count)
        within = sum(now_s - time_s <= WINDOW_S for time_s in self._times_s)
        failing = self._pause_s > 0 or within == MAX_FAILURES
        if failing and now_s >= self._paused_until_s:
            self._pause_s = min(2 * self._pause_s or FIRST_PAUSE_S, LONGEST_PAUSE_S)
            self._paused_until_s = now_s + self._pause_s
        self._in_a_row += 0 if was_told else count
        if self._in_a_row < MAX_FAILURES:
            return False
        self._in_a_row = 0
        return True

    def succeeded(self) -> None:
        """Reset the count: a worker has offered a slot."""
        self._in_a_row = 0

    def wait_s(self, now_s: float) -> float:
        """Return the time until a worker may start."""
        return max(0.0, self._paused_until_s - now_s)
