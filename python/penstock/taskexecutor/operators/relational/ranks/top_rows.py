"""The first rows of each key: tuples in keyed state, or columns beside keyed state in memory."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.columns.groups import spread
from penstock.columns.record_batches import rows_of
from penstock.taskexecutor.operators.relational.batches import arrow_schema, column_of_values
from penstock.taskexecutor.operators.relational.joins.column_sides import ROWS_AT_ONCE
from penstock.taskexecutor.operators.relational.joins.key_numbers import KeyNumbers
from penstock.taskexecutor.operators.relational.joins.stored_rows import RowBlock, StoredRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.columns.array_types import Integers
    from penstock.columns.groups import Groups
    from penstock.columns.order_ranks import Rows
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.expiring_rows import KeyedRows
    from penstock.taskexecutor.operators.relational.ranks.replacements import GroupedBatch
    from penstock.taskexecutor.state.heap import StateTable

_Row = tuple[Any, ...]

#: Each key has room for as many rows.
MOST_ROWS: Final = 16

#: Replaced rows that are kept at least until the columns are copied without them.
_LEAST_REPLACED: Final = 1 << 12


class Tops(Protocol):
    """The first rows of the keys of a batch.

    Attributes:
        batch: The batch.
        groups: Its rows by key.
        sizes: By group, the number of first rows, as a numpy array.
    """

    batch: pa.RecordBatch
    groups: Groups
    sizes: Any

    def known(self, places: Integers | None = None) -> Rows:
        """Return first rows by their positions, group by group in order; all for None."""

    def put(self, groups: Integers, sizes: Integers, rows: Integers) -> None:
        """Replace the first rows of some groups.

        Args:
            groups: The groups, as a numpy array.
            sizes: For each, the number of rows.
            rows: The positions of these rows, group by group in order: those of the batch, and
                behind them the known ones.
        """


class TopsInState:
    """The first rows of the keys of a batch in keyed state."""

    def __init__(
        self, grouped: GroupedBatch, state: KeyedRows, columns: Schema, *, expires: bool
    ) -> None:
        """Wrap a batch.

        Args:
            grouped: The batch.
            state: By key: a tuple or a list of rows.
            columns: The columns of the rows.
            expires: Whether entries expire that are not written.
        """
        self.batch = grouped.batch
        self.groups = grouped.groups
        self.sizes = np.array([len(rows) if rows else 0 for rows in grouped.kept], np.int64)
        self._known = list(chain.from_iterable(rows for rows in grouped.kept if rows))
        self._grouped = grouped
        self._state = state
        self._columns = columns
        self._expires = expires

    def known(self, places: Integers | None = None) -> Rows:
        """Return first rows; see `Tops`."""
        rows = self._known
        if places is not None:
            rows = [rows[place] for place in places.tolist()]
        return ListedRows(rows, self._columns)

    def put(self, groups: Integers, sizes: Integers, rows: Integers) -> None:
        """Replace the first rows of some groups; see `Tops`."""
        texts = self._grouped.texts
        if self._expires:
            # A row below the top also keeps its key alive.
            for text, kept in zip(texts, self._grouped.kept, strict=True):
                if kept:
                    self._state.put(text, kept)
        size = self.batch.num_rows
        is_new = rows < size
        new = rows_of(self.batch.take(pa.array(rows[is_new])), len(self._columns))
        # The new rows stand behind those in state.
        places = np.where(is_new, len(self._known) + np.cumsum(is_new) - 1, rows - size)
        values = map([*self._known, *new].__getitem__, places.tolist())
        for group, size in zip(groups.tolist(), sizes.tolist(), strict=True):
            self._state.put(texts[group], tuple(islice(values, size)))


class ListedRows:
    """Rows of Python values."""

    def __init__(self, rows: Sequence[_Row], columns: Schema) -> None:
        """Wrap rows of some columns."""
        self._rows = rows
        self._columns = columns
        self._schema = arrow_schema(columns, has_kinds=False)

    def column(self, index: int) -> pa.Array:
        """Return a column as an Arrow array."""
        values = [row[index] for row in self._rows]
        return column_of_values(values, self._columns.types[index], self._schema.field(index).type)


class TopRows:
    """The first rows of all keys as columns.

    Keyed state has them for snapshots only: blocks of rows of one key group, under a key of the
    group, which are made before a barrier and encoded when the snapshot reaches them.  A namespace,
    a number from 0, has one block of each group; the rows of a key go on in the next one.
    """

    def __init__(
        self,
        context: OperatorContext,
        table: StateTable,
        schema: pa.Schema,
        key_types: Sequence[pa.DataType],
        keyed: Callable[[Any], tuple[Any, Sequence[int]]],
        parts: Callable[[list[pa.Array]], Iterable[tuple[int, Any, Any]]],
        most: int,
        saved: pa.Schema | None = None,
    ) -> None:
        """Start without rows.

        Args:
            context: The operator's context.
            table: The keyed state, in memory.
            schema: The columns of the rows.
            key_types: The types of the columns of the key.
            keyed: Returns, given a batch or `SelectedRows`, an object with the columns of their
                keys, and the positions of these columns.
            parts: Yields the key groups of some keys; see `ColumnSides`.
            most: The number of rows that a key has at most.
            saved: The first columns, if a snapshot does not need the others.
        """
        self._table = table
        self._schema = schema
        self._saved = saved
        self._keyed = keyed
        self._parts = parts
        self._stored = StoredRows(self._schema)
        self._numbers = KeyNumbers(context, key_types, len(key_types))
        #: By the number of a key: the numbers of its rows in order, and -1 behind them.
        self._rows = np.full((64, most), -1, np.int64)
        self._sizes = np.zeros(64, np.int64)
        self._count = 0
        self._is_saved = True
        context.metric_group().gauge("numRowsInTops", lambda: self._count)

    def find(self, batch: pa.RecordBatch) -> Tops:
        """Return the first rows of the keys of a batch."""
        groups, found = self._numbers.of(*self._keyed(batch))
        missing = len(self._numbers) - len(self._sizes)
        if missing > 0:
            missing = max(missing, len(self._sizes) // 2)
            self._sizes = np.concatenate((self._sizes, np.zeros(missing, np.int64)))
            added = np.full((missing, self._rows.shape[1]), -1, np.int64)
            self._rows = np.concatenate((self._rows, added))
        rows = self._rows[found]
        return _NumberedTops(
            self, batch, groups, found, self._sizes[found], self._stored, rows[rows >= 0]
        )

    def put(self, keys: Integers, sizes: Integers, rows: Integers, new: pa.RecordBatch) -> None:
        """Replace the rows of some keys.

        Args:
            keys: The numbers of the keys.
            sizes: For each, the number of rows.
            rows: The numbers of these rows, key by key in order.
            new: Rows that are added behind all others.
        """
        self._stored.add(new)
        self._count += int(sizes.sum() - self._sizes[keys].sum())
        self._sizes[keys] = sizes
        self._rows[keys] = -1
        self._rows[np.repeat(keys, sizes), spread(np.zeros_like(sizes), sizes)] = rows
        self._is_saved = False
        if len(self._stored) > 2 * self._count + _LEAST_REPLACED:
            self._drop_replaced()

    def _drop_replaced(self) -> None:
        """Copy the columns without the rows that were replaced."""
        is_row = self._rows >= 0
        rows = self._rows[is_row]
        stored = StoredRows(self._schema)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            stored.add(self._stored.select(rows[start : start + ROWS_AT_ONCE]).batch())
        self._stored = stored
        self._rows[is_row] = np.arange(len(rows))

    def save(self) -> None:
        """Write all rows to keyed state, which takes part in the next snapshot."""
        if self._is_saved:
            return
        for found in self._table.namespaces():
            found.clear()
        for number, rows in enumerate(self._portions()):
            rows_with_keys, positions = self._keyed(self._stored.select(rows))
            columns = [rows_with_keys.column(position) for position in positions]
            for _, key, part in self._parts(columns):
                block = RowBlock(self._stored, rows[part], self._saved)
                self._table.map(number).put(key, block)
        self._is_saved = True

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches, those of a key in order."""
        for rows in self._portions():
            yield self._stored.select(rows).batch()

    def _portions(self) -> Iterator[Integers]:
        """Yield the numbers of the rows of all keys, a limited number at once."""
        all_rows = self._rows[self._rows >= 0]
        for start in range(0, len(all_rows), ROWS_AT_ONCE):
            yield all_rows[start : start + ROWS_AT_ONCE]


class _NumberedTops:
    """The first rows of the keys of a batch as columns."""

    def __init__(
        self,
        tops: TopRows,
        batch: pa.RecordBatch,
        groups: Groups,
        keys: Integers,
        sizes: Integers,
        stored: StoredRows,
        known: Integers,
    ) -> None:
        self.batch = batch
        self.groups = groups
        self.sizes = sizes
        self._tops = tops
        self._keys = keys
        self._stored = stored
        self._known = known

    def known(self, places: Integers | None = None) -> Rows:
        """Return first rows; see `Tops`."""
        return self._stored.select(self._known if places is None else self._known[places])

    def put(self, groups: Integers, sizes: Integers, rows: Integers) -> None:
        """Replace the first rows of some groups; see `Tops`."""
        if not len(groups):
            return
        size = self.batch.num_rows
        is_new = rows < size
        found = np.empty(len(rows), np.int64)
        found[is_new] = len(self._stored) + np.arange(np.count_nonzero(is_new))
        found[~is_new] = self._known[rows[~is_new] - size]
        new = self.batch.take(pa.array(rows[is_new]))
        self._tops.put(self._keys[groups], sizes, found, new)
