"""Slices of time: parts of windows, such that every window consists of whole slices."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from penstock.columns.groups import spread
from penstock.columns.panes import tumbling_starts

if TYPE_CHECKING:
    from penstock.columns.array_types import Integers
    from penstock.table.plan.nodes import Window


class Slices:
    """The slices of windows, each known by its end in ms of local time."""

    def __init__(self, window: Window, *, is_attached: bool) -> None:
        """Create the slices of windows.

        Args:
            window: The windows.
            is_attached: Whether each window is a slice of its own, because rows have windows.
        """
        self._window = window
        self._is_attached = is_attached
        #: Whether each slice is in one window only.
        self.have_one_window = is_attached or window.kind == "TUMBLE"
        size, slide = window.size_ms, window.slide_ms
        self._step = {"TUMBLE": size, "CUMULATE": slide}.get(window.kind) or gcd(size, slide)

    def ends(self, times: Integers) -> Integers:
        """Return the slices of local times, or of the ends of windows that rows have."""
        if self._is_attached:
            return times
        starts: Integers = tumbling_starts(times, self._step, self._window.offset_ms)
        return starts + self._step

    def windows(self, ends: Integers) -> tuple[Integers, Integers]:
        """Return the windows of some slices, in the order of the slices and of their ends.

        Returns:
            The positions of the slices, and the ends of their windows.
        """
        positions = np.arange(len(ends))
        if self.have_one_window:
            return positions, ends
        size, step, offset = self._window.size_ms, self._window.slide_ms, self._window.offset_ms
        if self._window.kind == "CUMULATE":
            firsts = ends
            counts = (tumbling_starts(ends - 1, size, offset) + size - ends) // step + 1
        else:
            firsts = ends + (size + offset - ends) % step
            counts = np.maximum((ends + size - firsts + step - 1) // step, 0)
        taken = np.repeat(positions, counts)
        return taken, firsts[taken] + spread(np.zeros_like(counts), counts) * step

    def starts(self, ends: Integers) -> Integers:
        """Return the starts of windows, given their ends."""
        if self._window.kind == "CUMULATE":
            starts: Integers = tumbling_starts(
                ends - 1, self._window.size_ms, self._window.offset_ms
            )
            return starts
        return ends - self._window.size_ms

    def merged(self, ends: Integers, last: Integers) -> Integers:
        """Return slices, those that all open windows share merged into one.

        Args:
            ends: The slices.
            last: The end of the last window that has ended, in an array.
        """
        if self._is_attached or self._window.kind != "CUMULATE":
            return ends
        # Windows that share a start and end later have all slices since that start.
        shares = self.starts(ends) == self.starts(last)
        return np.where(shares, np.maximum(ends, last), ends)
