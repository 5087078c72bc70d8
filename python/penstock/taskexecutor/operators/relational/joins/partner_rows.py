"""Stored rows of one side that join rows of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.columns.array_types import Booleans, Integers
    from penstock.table.types import DataType
    from penstock.taskexecutor.operators.relational.joins.stored_rows import (
        SelectedRows,
        StoredRows,
    )

#: The approximate number of pairs that are joined at once, which bounds their memory.
MOST_PAIRS: Final = 16_384

#: The number of rows of the other side that are columns at once.
MOST_PLACED: Final = 4 * MOST_PAIRS


class NumberedRows:
    """Rows of the other side that are stored as columns, one for each pair."""

    def __init__(self, stored: StoredRows, rows: Integers) -> None:
        """Wrap stored rows; ``rows`` has the number of each pair's row, as a numpy array."""
        self._stored = stored
        self._rows = rows
        self._selected: dict[tuple[int, int], SelectedRows] = {}

    def keep(self, mask: Booleans) -> None:
        """Keep the pairs for which a boolean numpy array is true."""
        self._rows = self._rows[mask]
        self._selected = {}

    def column(self, index: int, kind: DataType, target: pa.DataType, part: slice) -> pa.Array:
        """Return a column of the rows of some pairs; see `JoinPairs`."""
        del kind, target
        return self.taken(index, part)

    def taken(self, index: int, part: slice) -> pa.Array:
        """Return a column of the rows of some pairs.

        Args:
            index: The position of the column in the rows.
            part: The pairs.
        """
        bounds = part.start, part.stop
        if bounds not in self._selected:
            self._selected = {bounds: self._stored.select(self._rows[part])}
        return self._selected[bounds].column(index)
