"""For how long a source could have emitted and did not: what idleness is measured by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class QuietTime:
    """Tells how much of the time between two looks counts as quiet.

    Time in which a source was held back, by back pressure or by the alignment of watermarks, says
    nothing about whether it has records: it must not make the source idle.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begins to measure.

        Args:
            clock: Seconds, without those of back pressure.
        """
        self._clock = clock
        self._looked_s = clock()
        self._was_held = False

    def passed_s(self, *, is_held: bool = False) -> float:
        """The seconds since the last look; 0 if alignment holds the source now or did then."""
        now_s = self._clock()
        passed_s = 0.0 if is_held or self._was_held else max(0.0, now_s - self._looked_s)
        self._looked_s, self._was_held = now_s, is_held
        return passed_s
