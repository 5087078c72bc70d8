"""The rows of both sides of a join in keyed state, by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from penstock.columns.groups import Groups, spread
from penstock.columns.record_batches import rows_of
from penstock.taskexecutor.operators.relational.joins.inner_join import keys_of
from penstock.taskexecutor.operators.relational.joins.join_pairs import PlacedRows

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.columns.array_types import Integers
    from penstock.taskexecutor.operators.relational.expiring_rows import KeyedRows
    from penstock.taskexecutor.operators.relational.joins.inner_join import Partners

_Row = tuple[Any, ...]


class KeyedSides:
    """The rows of both sides in keyed state: by the text of a key, a list in order of arrival."""

    def __init__(
        self,
        sides: tuple[KeyedRows, ...],
        widths: tuple[int, ...],
        keys: tuple[tuple[int, ...], tuple[int, ...]],
    ) -> None:
        """Wrap the state of both sides.

        Args:
            sides: The state.
            widths: By side, the number of its columns.
            keys: By side, the positions of the columns of the key.
        """
        self._sides = sides
        self._widths = widths
        self._keys = keys

    def named(self, side: int, batch: pa.RecordBatch) -> tuple[Groups, list[str]]:
        """Return the groups of a batch, and the texts of their keys; see `Sides`."""
        groups, texts = keys_of(batch, self._keys[side], has_texts=True)
        return groups, cast("list[str]", texts)

    def partners(self, side: int, names: list[str]) -> Partners:
        """Return the rows of a side that have some keys; see `Sides`."""
        state = self._sides[side]
        return _ListedPartners([plain_rows(state.get(text)) for text in names])

    def keep(self, side: int, batch: pa.RecordBatch, groups: Groups, names: list[str]) -> None:
        """Add the rows of a batch; see `Sides`."""
        state = self._sides[side]
        rows = rows_of(batch, self._widths[side])
        ordered = [rows[place] for place in groups.order.tolist()]
        starts, sizes = groups.starts.tolist(), groups.sizes.tolist()
        for text, start, size in zip(names, starts, sizes, strict=True):
            found = plain_rows(state.get(text))
            found += ordered[start : start + size]
            state.put(text, found)


class _ListedPartners:
    """Partners as lists of rows, by key."""

    def __init__(self, found: list[list[_Row]]) -> None:
        self._found = found
        self.counts = np.fromiter(map(len, found), np.int64, len(found))

    def of(self, codes: Integers, sizes: Integers) -> PlacedRows:
        """Return the partners of some rows; see `Partners`."""
        keys = np.unique(codes)
        starts = np.zeros(len(self.counts), np.int64)
        starts[keys] = np.cumsum(self.counts[keys]) - self.counts[keys]
        rows = [row for key in keys.tolist() for row in self._found[key]]
        return PlacedRows(rows, spread(starts[codes], sizes))


def plain_rows(kept: Any) -> list[_Row]:
    """Return the rows of a key; state of another plan has records of rows, see `JoinOperator`."""
    if kept is None:
        return []
    if isinstance(kept, dict):
        return [record[0] for record in kept.values() for _ in range(record[1])]
    rows: list[_Row] = kept
    return rows
