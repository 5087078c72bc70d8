"""Time limits of a source's step, and steps that check the clock."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: A step in which records become slow at once ends after this time, and shorter ones follow one
#: that took as long: timers, mails and barriers wait for it.
LONG_STEP_NS: Final = 10_000_000

#: It is looked at the clock behind so many records as should take this time, so that looking
#: costs little.
TURN_NS: Final = 30_000

#: The same of batches of columns, of which small ones cost as much as larger ones.
BATCH_TURN_NS: Final = 3_000_000

#: The size at which batches of columns start.
_FIRST_BATCH: Final = 64

#: Batches of at most this size cost mostly the fixed part of kernels.  Halving one saves little
#: time, so a busy machine would shrink them down to single records.
_SMALL_BATCH: Final = 4096

#: Turns of small batches that are halved nevertheless: a function needs this time for them.
_SLOW_BATCH_NS: Final = 50_000_000

#: Records of a batch of columns for each record that a step may emit.
_BATCH_RECORDS: Final = 16


def batch_limit(limit: int) -> int:
    """Return how many records in columns a step may emit that may emit so many records.

    A step of few records, as after a pause for want of buffers, emits a small batch all the same:
    `BatchTurns` finds out where even that takes long.
    """
    return max(_SMALL_BATCH, limit * _BATCH_RECORDS)


class Turns:
    """Emits the records of a step a few at a time: as many as should take a turn's time."""

    def __init__(self) -> None:
        """Begins with one record."""
        self._size = 1

    def emit(self, limit: int, some: Callable[[int], int]) -> None:
        """Emits at most ``limit`` records, fewer where they have become slow.

        Args:
            limit: The most records.
            some: Emits at most so many records and returns their number, 0 if there are none.
        """
        began_ns = now_ns = monotonic_ns()
        while limit > 0 and now_ns - began_ns < LONG_STEP_NS:
            number = some(min(self._size, limit))
            if number == 0:
                return
            limit -= number
            before_ns, now_ns = now_ns, monotonic_ns()
            if self._is_slow(now_ns - before_ns):
                self._size = max(1, self._size // 2)
            elif number == self._size:
                self._size *= 2

    def _is_slow(self, elapsed_ns: int) -> bool:
        """Return whether fewer records should be emitted at a time."""
        return elapsed_ns > TURN_NS


class BatchTurns(Turns):
    """Emits the records of a step as batches of columns."""

    def __init__(self) -> None:
        """Begins with a small batch."""
        super().__init__()
        self._size = _FIRST_BATCH

    def _is_slow(self, elapsed_ns: int) -> bool:
        limit_ns = BATCH_TURN_NS if self._size > _SMALL_BATCH else _SLOW_BATCH_NS
        return elapsed_ns > limit_ns
