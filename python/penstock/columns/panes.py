"""Window arithmetic on columns of times, shared by windows of streams and of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.columns.groups import spread
from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from penstock.columns.column_batch import ColumnBatch

#: Bounds of times for which the starts and ends of windows fit into 64 bits.
FIRST_TIME: Final = -(1 << 61)
LAST_TIME: Final = 1 << 61


def times_of(batch: ColumnBatch) -> Any:
    """Return the timestamps of a batch in ms, as a numpy array of int64."""
    import numpy as np

    stamps = batch.timestamps
    return (
        np.full(len(batch), stamps, np.int64) if isinstance(stamps, int) else numpy_values(stamps)
    )


def pane_starts(batch: ColumnBatch, size: int, offset: int) -> Any:
    """Return the start of each record's pane, as an array of Arrow.

    Args:
        batch: The records, at least one.
        size: The size of the panes in ms.
        offset: The offset of the panes in ms.

    Returns:
        None if a record has no timestamp, or one whose windows may need more than 64 bits.
    """
    import pyarrow as pa

    times = times_of(batch)
    if times.min() < FIRST_TIME or times.max() > LAST_TIME or size > LAST_TIME:
        return None
    return pa.array(tumbling_starts(times, size, offset))


def tumbling_starts(times: Any, size: int, offset: int) -> Any:
    """Return the start of the window of each time.

    Args:
        times: Milliseconds, as a numpy array of int64.
        size: The size of the windows in ms.
        offset: The offset of the windows in ms.
    """
    return times - (times - offset) % size


def sliding_windows(times: Any, size: int, slide: int, offset: int) -> tuple[Any, Any]:
    """Return the windows of each time, one time after another, the latest window first.

    Args:
        times: Milliseconds, as a numpy array of int64.
        size: The size of the windows in ms.
        slide: The distance between window starts in ms.  If it exceeds ``size``, times between two
            windows have none.
        offset: The offset of the windows in ms.

    Returns:
        The positions of the times, and the starts of their windows.
    """
    import numpy as np

    latest = tumbling_starts(times, slide, offset)
    counts = (size - (times - latest) + slide - 1) // slide
    rows = np.repeat(np.arange(len(times)), counts)
    return rows, latest[rows] - spread(np.zeros_like(counts), counts) * slide
