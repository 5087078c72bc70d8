"""The rows of both sides of a join as columns, beside keyed state in memory.

Keyed state has the rows for snapshots only: blocks of rows of one key group, under a key of the
group.  They are made before each barrier, of the numbers of the rows that are new, and the columns
are encoded when the snapshot reaches them.  A namespace, a number from 0, has one block of each
group; the rows of a lower one are older.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.columns.groups import spread
from penstock.columns.record_batches import batch_of_bytes
from penstock.taskexecutor.operators.relational.joins.key_numbers import KeyNumbers
from penstock.taskexecutor.operators.relational.joins.partner_rows import NumberedRows
from penstock.taskexecutor.operators.relational.joins.stored_rows import (
    RowBlock,
    RowsOfKeys,
    StoredRows,
)
from penstock.taskexecutor.state.time_to_live import Aged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from penstock.columns.array_types import Integers
    from penstock.columns.groups import Groups
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.joins.inner_join import Partners
    from penstock.taskexecutor.state.heap import StateTable

_Row = tuple[Any, ...]

#: Blocks of more rows are not merged.
_MOST_ROWS: Final = 1 << 14

#: The number of rows that are restored, saved or copied at once, which bounds their blocks.
ROWS_AT_ONCE: Final = 1 << 16


class ColumnSides:
    """Rows by number, the numbers of the rows of each key, and what the next snapshot lacks."""

    def __init__(
        self,
        context: OperatorContext,
        tables: tuple[StateTable, ...],
        schemas: tuple[pa.Schema, ...],
        key_types: tuple[Sequence[pa.DataType], Sequence[pa.DataType]],
        keyed: Callable[[int, Any], tuple[Any, Sequence[int]]],
        parts: Callable[[list[pa.Array]], Iterable[tuple[int, Any, Any]]],
    ) -> None:
        """Start without rows; see `restore`.

        Args:
            context: The operator's context.
            tables: By side, its keyed state in memory.
            schemas: By side, the Arrow schema of its batches.
            key_types: By side, the types of the columns of the key.
            keyed: Returns, given a side and a batch or `SelectedRows` of it, an object with the
                columns of their keys, and the positions of these columns.
            parts: Yields, given the columns of the key of some rows, each of their key groups with
                a key in state of that group, and the positions of its rows.
        """
        kinds = [kind for each in key_types for kind in each]
        self._names = KeyNumbers(context, kinds, len(key_types[0]))
        self._tables = tables
        self._keyed = keyed
        self._parts = parts
        self._stored = tuple(StoredRows(schema) for schema in schemas)
        self._rows_of = (RowsOfKeys(), RowsOfKeys())
        #: By side: the number of rows that keyed state has, and by key group its key and blocks.
        self._saved = [0, 0]
        self._blocks: tuple[dict[int, tuple[Any, list[Any]]], ...] = ({}, {})
        context.metric_group().gauge("numRowsInBlocks", lambda: sum(map(len, self._stored)))

    def named(self, side: int, batch: pa.RecordBatch) -> tuple[Groups, Integers]:
        """Return the groups of a batch by key, and the numbers of their keys; see `Sides`."""
        return self._names.of(*self._keyed(side, batch))

    def partners(self, side: int, names: Integers) -> Partners:
        """Return the rows of a side that have some keys; see `Sides`."""
        return _NumberedPartners(self._stored[side], *self._rows_of[side].find(names))

    def keep(self, side: int, batch: pa.RecordBatch, groups: Groups, names: Integers) -> None:
        """Add the rows of a batch; see `Sides`."""
        stored = self._stored[side]
        self._rows_of[side].add(names, groups, len(stored))
        stored.add(batch)

    def restore(self, batches: Sequence[Iterable[pa.RecordBatch]]) -> None:
        """Add the rows of both sides that were taken out of keyed state."""
        for side, each in enumerate(batches):
            for batch in each:
                self.keep(side, batch, *self.named(side, batch))

    def batches(self, side: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a side in the order of arrival."""
        stored = self._stored[side]
        for start in range(0, len(stored), ROWS_AT_ONCE):
            numbers = np.arange(start, min(start + ROWS_AT_ONCE, len(stored)))
            yield stored.select(numbers).batch()

    def save(self) -> None:
        """Add the new rows to keyed state, which takes part in the next snapshot."""
        for side, stored in enumerate(self._stored):
            for start in range(self._saved[side], len(stored), ROWS_AT_ONCE):
                self._save_rows(side, np.arange(start, min(start + ROWS_AT_ONCE, len(stored))))
            self._saved[side] = len(stored)

    def _save_rows(self, side: int, rows: Integers) -> None:
        selected = self._stored[side].select(rows)
        rows_with_keys, positions = self._keyed(side, selected)
        columns = [rows_with_keys.column(position) for position in positions]
        for group, key, part in self._parts(columns):
            self._add_block(side, group, key, rows[part])

    def _add_block(self, side: int, group: int, key: Any, rows: Integers) -> None:
        """Add rows of one key group; merge them with blocks that have no more rows."""
        key, blocks = self._blocks[side].setdefault(group, (key, []))
        table = self._tables[side]
        while blocks and len(blocks[-1]) <= min(len(rows), _MOST_ROWS):
            rows = np.concatenate((blocks.pop(), rows))
            table.map(len(blocks)).remove(key)
        table.map(len(blocks)).put(key, RowBlock(self._stored[side], rows))
        blocks.append(rows)


class _NumberedPartners:
    """Partners as numbers of rows."""

    def __init__(self, stored: StoredRows, rows: Integers, counts: Integers) -> None:
        self._stored = stored
        self._rows = rows
        self.counts = counts
        self._starts = np.cumsum(counts) - counts

    def of(self, codes: Integers, sizes: Integers) -> NumberedRows:
        """Return one row for each pair; see `Partners`."""
        return NumberedRows(self._stored, self._rows[spread(self._starts[codes], sizes)])


def taken_blocks(table: StateTable, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Take the blocks of one side out of keyed state, older ones of a key group first.

    Args:
        table: The state.
        schema: The Arrow schema of the side.
    """
    found = [each for each in table.namespaces() if each.namespace is not None]
    for each in sorted(found, key=lambda each: each.namespace):
        for value in each.values():
            # State that got a time to live has times.
            data: Any = value.value if isinstance(value, Aged) else value
            yield batch_of_bytes(data, schema)
    clear_blocks(table)


def clear_blocks(table: StateTable) -> None:
    """Remove the blocks of one side from keyed state."""
    for each in table.namespaces():
        if each.namespace is not None:
            each.clear()
            table.drop_if_empty(each.namespace)
