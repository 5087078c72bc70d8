"""Tumbling windows that do not all end at once (beyond PyFlink)."""

from __future__ import annotations

import random
from enum import Enum


class WindowStagger(Enum):
    """Offset of a subtask's windows; decided when its first record arrives."""

    #: Not at all: the windows of all subtasks begin and end together.
    ALIGNED = 0
    #: By chance.
    RANDOM = 1
    #: By how far the machine's clock is into a window when the first record comes.
    NATURAL = 2

    def offset_ms(self, now_ms: int, size_ms: int) -> int:
        """The shift of windows of a size, from 0 to it."""
        if self is WindowStagger.RANDOM:
            return random.randrange(size_ms)
        return now_ms % size_ms if self is WindowStagger.NATURAL else 0
