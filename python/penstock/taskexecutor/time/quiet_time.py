"""The time in which a source could have emitted and did not: the measure of idleness."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class QuietTime:
    """Measures how much of the time between two checks counts as quiet.

    Time in which back pressure or watermark alignment held a source back says nothing about whether
    it has records: it must not make the source idle.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start measuring.

        Args:
            clock: Clock in seconds that stops during back pressure.
        """
        self._clock = clock
        self._looked_s = clock()
        self._was_held = False

    def passed_s(self, *, is_held: bool = False) -> float:
        """Return the seconds since the last check; 0 if alignment holds the source, or did then."""
        now_s = self._clock()
        passed_s = 0.0 if is_held or self._was_held else max(0.0, now_s - self._looked_s)
        self._looked_s, self._was_held = now_s, is_held
        return passed_s
