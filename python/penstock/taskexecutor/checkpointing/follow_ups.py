"""Work of state backends after a snapshot, in a share of the task thread's time."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.taskexecutor.checkpointing.snapshot_slices import SLICE_NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedPart

#: Records get so many times a slice's duration before the next slice.
_SHARE: Final = 3


class FollowUps:
    """Runs follow-ups one after the other, in slices that leave time for records.

    Nothing waits for them, so they must not delay work that something waits for.
    """

    def __init__(self, register_timer: Callable[[int, Callable[[], None]], None]) -> None:
        """Create an empty queue.

        Args:
            register_timer: Runs a function in the task's thread after a number of milliseconds.
        """
        self._register_timer = register_timer
        self._left: deque[SlicedPart] = deque()

    def start(self, part: SlicedPart) -> None:
        """Schedule a follow-up after those already scheduled."""
        self._left.append(part)
        if len(self._left) == 1:
            self._wait(SLICE_NS)

    def close(self) -> None:
        """Discard all follow-ups."""
        while self._left:
            self._left.popleft().close()

    def _run(self) -> None:
        begin_ns = time.monotonic_ns()
        if self._left and self._left[0].advance(begin_ns + SLICE_NS):
            self._left.popleft()
        if self._left:
            self._wait(time.monotonic_ns() - begin_ns)

    def _wait(self, slice_ns: int) -> None:
        self._register_timer(1 + _SHARE * slice_ns // 1_000_000, self._run)
