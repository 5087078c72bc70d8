"""The groups of a batch: records with equal keys, each group with a number from 0.

Groups are numbered in the order of their first records.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Bound below which products of numbers of distinct values fit into 64 bits.
_MOST: Final = 1 << 62


class Groups:
    """The groups of some records of a batch.

    Attributes:
        codes: The numbers of the records' groups, as a numpy array of integers.
        count: The number of groups of the batch; a group may have none of these records.
        rows: The positions of these records in the batch, ascending; None for all.
    """

    def __init__(self, codes: Any, count: int, rows: Any = None) -> None:
        """Create groups from their numbers."""
        self.codes = codes
        self.count = count
        self.rows = rows

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.codes)

    def where(self, mask: Any) -> Groups:
        """Return the groups of the records for which a boolean numpy array is true.

        Args:
            mask: A value for each record of the batch.
        """
        import numpy as np

        rows = np.flatnonzero(mask)
        return Groups(self.codes[rows], self.count, rows)

    @cached_property
    def sizes(self) -> Any:
        """The number of records of each group."""
        import numpy as np

        return np.bincount(self.codes, minlength=self.count)

    @cached_property
    def firsts(self) -> Any:
        """The first record of each group, counted among these; -1 without one."""
        import numpy as np

        found = np.full(self.count, -1, np.int64)
        # Of several assignments to one place, the last one counts.
        found[self.codes[::-1]] = np.arange(len(self.codes) - 1, -1, -1)
        return found

    @cached_property
    def lasts(self) -> Any:
        """The last record of each group, counted among these; -1 without one."""
        import numpy as np

        found = np.full(self.count, -1, np.int64)
        found[self.codes] = np.arange(len(self.codes))
        return found

    @cached_property
    def order(self) -> Any:
        """These records by group, in their order within one."""
        import numpy as np

        # numpy sorts 16 bits by radix.
        codes = self.codes.astype(np.uint16) if self.count <= 1 << 16 else self.codes
        return np.argsort(codes, kind="stable")

    @property
    def previous(self) -> Any:
        """The record before each one in its group, counted among these; -1 without one."""
        import numpy as np

        order = self.order
        found = np.full(len(order), -1, np.int64)
        is_same = self.codes[order[1:]] == self.codes[order[:-1]]
        found[order[1:][is_same]] = order[:-1][is_same]
        return found

    @cached_property
    def starts(self) -> Any:
        """The place in `order` at which each group begins."""
        import numpy as np

        return np.cumsum(self.sizes) - self.sizes


def numbered(columns: Sequence[Any], within: Groups | None = None) -> Groups:
    """Return the groups of the records of a batch by the values of some columns.

    Args:
        columns: Arrow arrays of integers, booleans, texts or times; a null is a value of its own.
        within: Groups of all records, which the values divide; None for one group.
    """
    import pyarrow as pa

    if within is None and len(columns) > 1:
        combined = _combined(columns)
        if combined is not None:
            return Groups(*_codes(pa.array(combined)))
    encoded = [_codes(column) for column in columns]
    if within is not None:
        encoded.insert(0, (within.codes, within.count))
    # A column with one value divides nothing.
    codes, count = encoded[0]
    is_product = False
    for other, size in encoded[1:]:
        if size == 1:
            continue
        if count == 1:
            codes, count = other, size
            continue
        if count * size >= _MOST:
            codes, count = _codes(pa.array(codes))
        codes = codes * size + other
        count *= size
        is_product = True
    if is_product:
        codes, count = _codes(pa.array(codes))
    return Groups(codes, count)


def spread(starts: Any, sizes: Any) -> Any:
    """Return the integers of ranges, range by range, as a numpy array.

    Args:
        starts: By range, its first integer, as a numpy array.
        sizes: By range, the number of its integers.
    """
    import numpy as np

    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + sizes, sizes)


def _combined(columns: Sequence[Any]) -> Any:
    """Return a number for each combination of values as a numpy array.

    Returns:
        None if a column has no integers or has NULLs, or if the values spread too far.
    """
    import numpy as np
    import pyarrow.types as at

    found: Any = 0
    count = 1
    for column in columns:
        if not at.is_signed_integer(column.type) or column.null_count:
            return None
        values = numpy_values(column).astype(np.int64, copy=False)
        if not len(values):
            return None
        least = int(values.min())
        size = int(values.max()) - least + 1
        count *= size
        if count >= _MOST:
            return None
        found = found * size + (values - least)
    return found


def _codes(column: Any) -> tuple[Any, int]:
    """Return a number for each value of a column, and the number of distinct values."""
    import numpy as np

    found = column.dictionary_encode(null_encoding="encode")
    return numpy_values(found.indices).astype(np.int64), len(found.dictionary)
