"""The number of buffers that may wait for a reader: at most as many as it reads in a second.

A fast reader has the whole quota.  Buffers that wait for a slow reader delay checkpoint barriers
without any gain: two buffers keep a reader busy that needs half a second for each.
"""

from typing import Final

MAX_BUFFERS_PER_CHANNEL: Final = 10
"""Quota of a subpartition: at this many buffers the partition counts as unavailable."""

MIN_BUFFERS_PER_CHANNEL: Final = 2
"""The least quota: one buffer that is being read and one that is being written."""

TARGET_NS: Final = 1_000_000_000
"""Time within which a reader should read the buffers that wait for it."""


class ReaderPace:
    """Measures one reader: the caller counts full buffers and passes the time."""

    def __init__(self) -> None:
        self._since_ns: int | None = None
        self._taken = 0
        self._quota = MAX_BUFFERS_PER_CHANNEL
        self._changed = False

    def on_taken(self, now_ns: int) -> None:
        """Count a full buffer that the reader took."""
        if self._since_ns is None:
            self._since_ns, self._taken = now_ns, 0
            return
        self._taken += 1
        elapsed_ns = now_ns - self._since_ns
        if elapsed_ns < TARGET_NS and self._taken < MAX_BUFFERS_PER_CHANNEL:
            return
        within_target = -(-TARGET_NS * self._taken // max(1, elapsed_ns))
        self._since_ns, self._taken = now_ns, 0
        quota = min(max(within_target, MIN_BUFFERS_PER_CHANNEL), MAX_BUFFERS_PER_CHANNEL)
        self._changed |= quota != self._quota
        self._quota = quota

    def take_change(self) -> int | None:
        """Return the quota if it has changed since the last call."""
        changed, self._changed = self._changed, False
        return self._quota if changed else None

    def restart(self) -> None:
        """Restart the measurement, since the reader did not cause the last delay."""
        self._since_ns = None

    @property
    def is_slow(self) -> bool:
        """Return whether fewer buffers may wait than for a fast reader."""
        return self._quota < MAX_BUFFERS_PER_CHANNEL
