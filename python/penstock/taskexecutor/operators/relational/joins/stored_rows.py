"""Rows that a join keeps: columns in the order of arrival, and the row numbers of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.columns.groups import spread
from penstock.columns.record_batches import batch_bytes, one_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.columns.array_types import Integers
    from penstock.columns.groups import Groups

#: This many consecutive batches of about one size are merged.
_MERGED: Final = 16

#: Batches that reach this size are not merged: offsets into their texts fit into 32 bits.
_MOST_BYTES: Final = 1 << 26

#: A key with more runs gets a single one when its rows are looked up.
_MOST_RUNS: Final = 16


class StoredRows:
    """Rows that are only added, as Arrow columns; a row is named by its number from 0.

    A row is copied about once for each factor of 16 in the number of rows, up to 64 MiB.
    """

    def __init__(self, schema: pa.Schema) -> None:
        """Start without rows."""
        self.schema = schema
        self._batches: list[Any] = []
        #: By batch: how often its rows were merged; -1 if they never are again.
        self._ranks: list[int] = []
        self._starts = np.zeros(0, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch, which has at least one."""
        self._count += batch.num_rows
        self._batches.append(batch)
        self._ranks.append(0)
        while self._ranks[-1] >= 0 and self._ranks[-_MERGED:] == [self._ranks[-1]] * _MERGED:
            merged = one_batch(self._batches[-_MERGED:], self.schema)
            rank = self._ranks[-1] + 1 if merged.nbytes < _MOST_BYTES else -1
            self._batches[-_MERGED:], self._ranks[-_MERGED:] = [merged], [rank]
        sizes = [each.num_rows for each in self._batches]
        self._starts = np.cumsum([0, *sizes[:-1]])

    def select(self, rows: Integers, schema: pa.Schema | None = None) -> SelectedRows:
        """Return rows by a numpy array of their numbers, in its order.

        Args:
            rows: The numbers.
            schema: The first columns, if the others are not needed.
        """
        schema = schema or self.schema
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        if not len(rows):
            return SelectedRows([], None, schema)
        if (owners == owners[0]).all():
            first = int(owners[0])
            return SelectedRows([self._part(first, rows)], None, schema)
        order = np.argsort(owners.astype(np.uint16), kind="stable")
        owners, rows = owners[order], rows[order]
        bounds = np.flatnonzero(np.diff(owners)) + 1
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        firsts = owners[np.concatenate(([0], bounds))].tolist()
        parts = [
            self._part(owner, part)
            for owner, part in zip(firsts, np.split(rows, bounds), strict=True)
        ]
        return SelectedRows(parts, pa.array(places), schema)

    def _part(self, owner: int, rows: Integers) -> tuple[pa.RecordBatch, pa.Array]:
        return self._batches[owner], pa.array(rows - self._starts[owner])


class SelectedRows:
    """Some rows of `StoredRows`; columns are copied when they are asked for."""

    def __init__(
        self,
        parts: list[tuple[pa.RecordBatch, pa.Array]],
        places: pa.Array | None,
        schema: pa.Schema,
    ) -> None:
        """Select rows.

        Args:
            parts: Batches, and the positions of the rows in each.
            places: By row, its position among those of all parts; None for their order.
            schema: The columns.
        """
        self._parts = parts
        self._places = places
        self._schema = schema

    def column(self, index: int) -> pa.Array:
        """Return a column of the rows."""
        found = [batch.column(index).take(rows) for batch, rows in self._parts]
        if not found:
            return pa.array([], self._schema.field(index).type)
        joined = found[0] if len(found) == 1 else pa.concat_arrays(found)
        return joined if self._places is None else joined.take(self._places)

    def batch(self) -> pa.RecordBatch:
        """Return the rows as a batch."""
        columns = [self.column(index) for index in range(len(self._schema))]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class RowBlock:
    """A value of keyed state: the bytes of some rows, which are encoded when it is serialised."""

    def __init__(self, stored: StoredRows, rows: Integers, schema: pa.Schema | None = None) -> None:
        """Name the rows by a numpy array of their numbers; see `StoredRows.select`."""
        self._stored = stored
        self._schema = schema
        self.rows = rows

    def __reduce__(self) -> tuple[Callable[..., bytes], tuple[bytes]]:
        """Return the bytes of the rows: no snapshot has this class."""
        return bytes, (batch_bytes(self._stored.select(self.rows, self._schema).batch()),)


class RowsOfKeys:
    """The numbers of the rows of each key, ascending; keys are numbered from 0.

    A key has a chain of runs, each of consecutive places in an array of row numbers.
    """

    def __init__(self) -> None:
        """Start without keys."""
        self._rows = _Numbers()
        self._garbage = 0
        self._start_runs()

    def _start_runs(self) -> None:
        self._starts, self._sizes, self._next = _Numbers(), _Numbers(), _Numbers()
        self._first, self._last = _Numbers(), _Numbers()

    def add(self, keys: Integers, groups: Groups, first: int) -> None:
        """Add consecutive rows.

        Args:
            keys: The number of the key of each group, as a numpy array; no number repeats.
            groups: The groups of the rows by key; none is empty.
            first: The number of the first row.
        """
        self._add_runs(keys, groups.starts + len(self._rows), groups.sizes)
        self._rows.extend(groups.order + first)

    def _add_runs(self, keys: Integers, starts: Integers, sizes: Integers) -> None:
        runs = np.arange(len(self._starts), len(self._starts) + len(keys))
        self._starts.extend(starts)
        self._sizes.extend(sizes)
        self._next.extend(np.full(len(keys), -1))
        missing = int(keys.max(initial=-1)) + 1 - len(self._first)
        if missing > 0:
            self._first.extend(np.full(missing, -1))
            self._last.extend(np.full(missing, -1))
        lasts = self._last.values[keys]
        self._next.values[lasts[lasts >= 0]] = runs[lasts >= 0]
        self._first.values[keys[lasts < 0]] = runs[lasts < 0]
        self._last.values[keys] = runs

    def find(self, keys: Integers) -> tuple[Integers, Integers]:
        """Return the rows of some keys.

        Args:
            keys: The numbers of the keys, as a numpy array; no number repeats.

        Returns:
            The numbers of the rows, key by key; and the number of rows of each key.
        """
        found, counts, depth = self._walk(keys)
        if depth > _MOST_RUNS:
            self._unite(keys, found, counts)
        return found, counts

    def _walk(self, keys: Integers) -> tuple[Integers, Integers, int]:
        """Return what `find` does, and the greatest number of runs of a key."""
        owners = np.flatnonzero(keys < len(self._first))
        runs = self._first.values[keys[owners]]
        found: list[tuple[Any, Any]] = []
        while True:
            owners, runs = owners[runs >= 0], runs[runs >= 0]
            if not len(runs):
                break
            found.append((owners, runs))
            runs = self._next.values[runs]
        if not found:
            return np.zeros(0, np.int64), np.zeros(len(keys), np.int64), 0
        owners = np.concatenate([each for each, _ in found])
        runs = np.concatenate([each for _, each in found])
        if len(found) > 1:
            order = np.argsort(owners, kind="stable")
            owners, runs = owners[order], runs[order]
        sizes = self._sizes.values[runs]
        counts = np.bincount(owners, sizes, len(keys)).astype(np.int64)
        return self._rows.values[spread(self._starts.values[runs], sizes)], counts, len(found)

    def _unite(self, keys: Integers, rows: Integers, counts: Integers) -> None:
        """Replace the runs of each of some keys by a single one."""
        has_rows = counts > 0
        keys, counts = keys[has_rows], counts[has_rows]
        starts = np.cumsum(counts) - counts + len(self._rows)
        self._garbage += len(rows)
        self._rows.extend(rows)
        self._first.values[keys] = -1
        self._last.values[keys] = -1
        self._add_runs(keys, starts, counts)
        if self._garbage > len(self._rows) // 2:
            self._rebuild()

    def _rebuild(self) -> None:
        """Drop the places and runs that no chain has."""
        keys = np.arange(len(self._first))
        rows, counts, _ = self._walk(keys)
        self._rows = _Numbers()
        self._garbage = 0
        self._start_runs()
        self._rows.extend(rows)
        has_rows = counts > 0
        self._add_runs(keys[has_rows], (np.cumsum(counts) - counts)[has_rows], counts[has_rows])


class _Numbers:
    """An array of integers that grows at its end."""

    def __init__(self) -> None:
        self._array = np.empty(64, np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> Integers:
        """The integers, which may be assigned, until others are added."""
        return self._array[: self._size]

    def extend(self, added: Integers) -> None:
        """Add integers."""
        size = self._size + len(added)
        if size > len(self._array):
            larger = np.empty(max(size, len(self._array) * 3 // 2), np.int64)
            larger[: self._size] = self._array[: self._size]
            self._array = larger
        self._array[self._size : size] = added
        self._size = size
