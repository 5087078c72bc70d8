"""The results of the groups of a batch: by group, that before the batch, then that of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.columns.change_pairs import differing
from penstock.columns.group_kernels import MOST, NoKernelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.columns.array_types import Booleans, Integers, Values
    from penstock.columns.groups import Groups


class ResultSlots:
    """Slots of results.  The slot of the result before a row precedes that of the row.

    Attributes:
        heads: By group, the slot of the result before the batch.
        lasts: By group, the slot of its last row.
        ordered: The slots of the rows in the order of `Groups.order`.
        of_rows: The slots of the rows.
    """

    def __init__(self, groups: Groups) -> None:
        """Create the slots of groups, each of which has rows."""
        self._groups = groups
        numbers = np.arange(groups.count)
        self.heads = groups.starts + numbers
        self.lasts = self.heads + groups.sizes
        #: By slot, its group.
        self._owners = np.repeat(numbers, groups.sizes + 1)
        self.ordered = np.arange(len(groups)) + groups.codes[groups.order] + 1
        self.of_rows = np.empty(len(groups), np.int64)
        self.of_rows[groups.order] = self.ordered
        #: By slot, its row; at heads the number of rows.
        self._rows = np.full(len(self._owners), len(groups))
        self._rows[self.ordered] = groups.order

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self._owners)

    def sums(self, more: Sequence[Values], old: Values) -> Values:
        """Return running sums by slot; sums beyond 64 bits wrap around.

        Args:
            more: For each sum, a numpy array of what each row adds: integers or booleans.
            old: For each sum, the sums of the groups before the batch.
        """
        rows = len(self._groups)
        found = np.empty((len(more), len(self)), np.int64)
        added = np.zeros(rows + 1, np.int64)
        for each, place in zip(more, found, strict=True):
            added[:rows] = each
            np.take(added, self._rows, out=place, mode="clip")
        ends = old + np.add.reduceat(found, self.heads, axis=1)
        # At its head, a group replaces the sum of the one before.
        found[:, self.heads] = old
        found[:, self.heads[1:]] -= ends[:, :-1]
        return np.cumsum(found, axis=1, out=found)

    def extremes(
        self, values: Values, mask: Booleans | None, old: Values, known: Booleans, *, is_max: bool
    ) -> tuple[Values, Booleans]:
        """Return running extremes by slot, and the slots whose extreme is NULL.

        Args:
            values: By row, the value, an integer.
            mask: By row, whether it is aggregated; None if all are.
            old: By group, the extreme before the batch.
            known: By group, whether that is not NULL.
            is_max: Whether the largest value is the extreme.

        Raises:
            NoKernelError: The range of the values is too wide.
        """
        counted = values if mask is None else values[mask]
        kept = old[known]
        bounds = [int(f(part)) for part in (counted, kept) if len(part) for f in (np.min, np.max)]
        low, high = (min(bounds), max(bounds)) if bounds else (0, 0)
        width = high - low + 2
        if width * len(self.heads) >= MOST >> 1 or max(abs(low), abs(high)) >= MOST >> 1:
            raise NoKernelError
        # 0 is NULL, and greater numbers are better.
        sign, base = (1, low - 1) if is_max else (-1, -(high + 1))
        marks = values * sign - base
        if mask is not None:
            marks = np.where(mask, marks, 0)
        found = np.empty(len(self), np.int64)
        found[self.ordered] = marks[self._groups.order]
        found[self.heads] = np.where(known, old * sign - base, 0)
        # All numbers of a group are above those of earlier groups.
        shift = self._owners * width
        found += shift
        np.maximum.accumulate(found, out=found)
        found -= shift
        return (found + base) * sign, found == 0

    def spread(self, rows: pa.Array, groups: pa.Array) -> pa.Array:
        """Return Arrow arrays of results of rows, and of groups before the batch, by slot."""
        source = self._rows.copy()
        source[self.heads] += np.arange(len(groups))
        return pa.concat_arrays([rows, groups]).take(pa.array(source))


class ResultColumn:
    """The results of a call by slot."""

    def __init__(
        self,
        values: pa.Array | Values,
        nulls: Booleans | None = None,
        texts: pa.Array | None = None,
    ) -> None:
        """Create a column.

        Args:
            values: A numpy array or an Arrow array.
            nulls: The slots with NULL, as a numpy array of booleans; None if there are none.
            texts: The Arrow array to which a numpy array of values points; None if it does not.
        """
        self._values = values
        self._nulls = nulls if nulls is not None and nulls.any() else None
        self._texts = texts

    def at(self, slots: Integers, target: pa.DataType) -> pa.Array:
        """Return the results in slots as an Arrow array of a type."""
        if isinstance(self._values, pa.Array):
            return self._values.take(pa.array(slots))
        mask = None if self._nulls is None else self._nulls[slots]
        found = pa.array(self._values[slots], mask=mask)
        if self._texts is not None:
            return self._texts.take(found)
        return found if found.type == target else found.cast(target)

    def differing(self, after: Integers, before: Integers) -> Booleans:
        """Return, as a numpy array, whether results in slots differ from those in others."""
        if isinstance(self._values, pa.Array):
            return differing([self._values], after, before)
        found: Booleans = self._values[after] != self._values[before]
        if self._nulls is not None:
            nulls = self._nulls[after]
            found = (found & ~nulls) | (nulls != self._nulls[before])
        return found
