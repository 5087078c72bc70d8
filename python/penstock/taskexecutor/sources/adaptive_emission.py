"""Sizes and time limits of a source's steps, and steps that check the clock."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: A step ends after this time, even if its records have suddenly become slow: timers, mails and
#: barriers wait for its end.
LONG_STEP_NS: Final = 10_000_000

#: A step shorter than this is followed by a longer one.
_SHORT_STEP_NS: Final = 5_000_000

#: Most records per step, between two checks of mails, timers and outputs.
_LARGEST_STEP: Final = 1024

#: The time of a slice: the clock is read only after each slice, so that reading it costs little.
SLICE_NS: Final = 30_000

#: The size at which batches of columns start.
_FIRST_BATCH: Final = 64

#: The time of batches of at most this size is mostly the fixed cost of kernels.  Halving them saves
#: little, so a busy machine would shrink them down to single records.
_SMALL_BATCH: Final = 4096

#: Small batches are halved only if a slice takes this long: then a function is slow.
_SLOW_BATCH_NS: Final = 50_000_000

#: Records of a batch of columns for each record that a step may emit.
_BATCH_RECORDS: Final = 16


def next_step(step: int, took_ns: int) -> int:
    """Return the number of records of a source's next step, given the last step's duration."""
    if took_ns > LONG_STEP_NS:
        return max(1, step // 2)
    return min(_LARGEST_STEP, step * 2) if took_ns < _SHORT_STEP_NS else step


def batch_limit(limit: int) -> int:
    """Return the most records that a step emits as batches of columns.

    A step that may emit only a few records, as after a pause for want of buffers, may still emit a
    small batch: `AdaptiveBatches` shrinks batches if even that takes long.

    Args:
        limit: The most records that the step may emit one by one.
    """
    return max(_SMALL_BATCH, limit * _BATCH_RECORDS)


class AdaptiveEmission:
    """Emits the records of a step a few at a time: as many as should take a slice's time."""

    def __init__(self) -> None:
        """Start with one record."""
        self._size = 1

    def emit(self, limit: int, some: Callable[[int], int]) -> None:
        """Emit at most ``limit`` records, fewer if they have become slow.

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
        return elapsed_ns > SLICE_NS


class AdaptiveBatches(AdaptiveEmission):
    """Emits the records of a step as batches of columns.

    A batch may take as long as a step: the fixed cost of kernels and of the exchange is half of
    what a batch of 4,096 records takes.
    """

    def __init__(self) -> None:
        """Start with a small batch."""
        super().__init__()
        self._size = _FIRST_BATCH

    def _is_slow(self, elapsed_ns: int) -> bool:
        limit_ns = LONG_STEP_NS if self._size > _SMALL_BATCH else _SLOW_BATCH_NS
        return elapsed_ns > limit_ns


class AdaptiveMerging(AdaptiveEmission):
    """Emits batches of a table's rows, as many merged into one as a step has time for."""

    def _is_slow(self, elapsed_ns: int) -> bool:
        return elapsed_ns > LONG_STEP_NS
