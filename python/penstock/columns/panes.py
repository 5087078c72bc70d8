"""Window arithmetic on columns of times, shared by windows of streams and of tables."""

from __future__ import annotations

from typing import Any


def tumbling_starts(times: Any, size: int, offset: int) -> Any:
    """Return the start of the window of each time.

    Args:
        times: Milliseconds, as a numpy array of int64.
        size: The size of the windows in ms.
        offset: How far they are shifted in ms.
    """
    return times - (times - offset) % size


def sliding_windows(times: Any, size: int, slide: int, offset: int) -> tuple[Any, Any]:
    """Return the windows of each time, one time after the other, the latest window first.

    Args:
        times: Milliseconds, as a numpy array of int64.
        size: The size of the windows in ms.
        slide: The distance between window starts in ms, at most ``size``.
        offset: How far they are shifted in ms.

    Returns:
        The positions of the times, and the starts of their windows.
    """
    import numpy as np

    latest = tumbling_starts(times, slide, offset)
    counts = (size - (times - latest) + slide - 1) // slide
    rows = np.repeat(np.arange(len(times)), counts)
    numbers = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, latest[rows] - numbers * slide
