"""Work of state backends after a snapshot, in the task's thread, with a share of its time."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.taskexecutor.checkpointing.snapshot_slices import SLICE_NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.state.sliced_parts import SlicedPart

#: Records have so many times as long as a slice before the next one.
_SHARE: Final = 3


class FollowUps:
    """Does them one after the other, in slices between which there is time for records.

    Nobody waits for them, so that they must not take the time of those that somebody waits for.
    """

    def __init__(self, register_timer: Callable[[int, Callable[[], None]], None]) -> None:
        """Prepares.

        Args:
            register_timer: Has the task's thread call something after a number of milliseconds.
        """
        self._register_timer = register_timer
        self._left: deque[SlicedPart] = deque()

    def start(self, part: SlicedPart) -> None:
        """Begins, or does it later than those that were begun before."""
        self._left.append(part)
        if len(self._left) == 1:
            self._wait(SLICE_NS)

    def close(self) -> None:
        """Gives all up."""
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
