"""Rows of a batch, filtered column by column, with values that were computed for them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable


class Rows:
    """The rows of a batch, or those of other rows for which a condition is true.

    Columns are filtered when they are read.

    Attributes:
        num_rows: The number of rows.
        values: By key, values that were computed for these rows.
    """

    __slots__ = ("_batch", "_columns", "_from", "_mask", "num_rows", "values")

    def __init__(self, batch: Any) -> None:
        """Create the rows of a batch."""
        self._batch = batch
        self._from: Rows | None = None
        self._mask: Any = None
        self._columns: dict[int, Any] = {}
        self.num_rows: int = batch.num_rows
        self.values: dict[Hashable, Any] = {}

    def filtered(self, mask: Any) -> Rows:
        """Return the rows for which an array of booleans without NULLs is true."""
        number = mask.true_count
        if number == self.num_rows:
            return self
        made = Rows(self._batch)
        made._from, made._mask, made.num_rows = self, mask, number
        return made

    def column(self, index: int) -> Any:
        """Return a column of the batch."""
        if self._from is None:
            return self._batch.column(index)
        found = self._columns.get(index)
        if found is None:
            found = self._columns[index] = self._from.column(index).filter(self._mask)
        return found

    def known(self, key: Hashable) -> Any:
        """Return a value that was computed for these rows or those they are among; else None."""
        found = self.values.get(key)
        if found is None and self._from is not None:
            import pyarrow as pa

            found = self._from.known(key)
            if found is not None:
                if not isinstance(found, pa.Scalar):
                    found = found.filter(self._mask)
                self.values[key] = found
        return found

    def batch(self) -> Any:
        """Return the rows as a batch."""
        return self._batch if self._from is None else self._from.batch().filter(self._mask)


def plain_array(array: Any) -> Any:
    """Return an array, or the chunks of a column, as one array."""
    import pyarrow as pa

    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def without_nulls(mask: Any) -> Any:
    """Return booleans with false in place of NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(mask, pa.Scalar):
        return mask if mask.is_valid else _false()
    return pc.coalesce(mask, _false()) if mask.null_count else mask


@cache
def _false() -> Any:
    import pyarrow as pa

    return pa.scalar(False, pa.bool_())
