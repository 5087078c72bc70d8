"""Tumbling windows that end at different times in each subtask (beyond PyFlink)."""

from __future__ import annotations

import random
from enum import Enum


class WindowStagger(Enum):
    """The shift of a subtask's windows, determined when its first record arrives."""

    #: No shift: the windows of all subtasks start and end together.
    ALIGNED = 0
    #: A random shift.
    RANDOM = 1
    #: The position of the machine's clock in a window when the first record arrives.
    NATURAL = 2

    def offset_ms(self, now_ms: int, size_ms: int) -> int:
        """Return the shift of a subtask's windows, from 0 to less than `size_ms`."""
        if self is WindowStagger.RANDOM:
            return random.randrange(size_ms)
        return now_ms % size_ms if self is WindowStagger.NATURAL else 0
