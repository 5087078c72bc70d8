"""Number of buffers that may wait for a reader: at most what it reads in a second.

A reader that is quick has the whole quota.  What waits for a slow one is in the way of checkpoint
barriers, and nothing is won by it: two buffers keep a reader busy that needs half a second for
each.
"""

from typing import Final

MAX_BUFFERS_PER_CHANNEL: Final = 10
"""Quota of a subpartition: at this many buffers the partition counts as unavailable."""

MIN_BUFFERS_PER_CHANNEL: Final = 2
"""The least quota: one buffer that is read and one that is written."""

TARGET_NS: Final = 1_000_000_000
"""Time within which a reader should read the buffers that wait for it."""


class ReaderPace:
    """Follows one reader; pure arithmetic: the caller counts full buffers and knows the time."""

    def __init__(self) -> None:
        self._since_ns: int | None = None
        self._taken = 0
        self._quota = MAX_BUFFERS_PER_CHANNEL
        self._changed = False

    def on_taken(self, now_ns: int) -> None:
        """The reader has taken a full buffer."""
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
        """The quota, if it has changed since this was asked last."""
        changed, self._changed = self._changed, False
        return self._quota if changed else None

    def restart(self) -> None:
        """The time since the last buffer was not the reader's own."""
        self._since_ns = None

    @property
    def is_slow(self) -> bool:
        """Return whether less may wait than for a quick reader."""
        return self._quota < MAX_BUFFERS_PER_CHANNEL
