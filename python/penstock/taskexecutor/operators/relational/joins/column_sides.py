"""The rows of both sides of a join as columns, beside keyed state in memory.

Keyed state has the rows for snapshots only: blocks of rows of one key group, under a key of the
group.  They are made before each barrier, of the numbers of the rows that are new, and the columns
are encoded when the snapshot reaches them.  A namespace, a number from 0, has one block of each
group; the rows of a lower one are older.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock import network
from penstock.columns.groups import spread
from penstock.columns.key_columns import json_hashes
from penstock.columns.partition import HashPartition
from penstock.formats.numpy_values import numpy_values
from penstock.graph.key_groups import key_group
from penstock.taskexecutor.operators.relational.batches import (
    batch_of_bytes,
    column_of_values,
    rows_of,
)
from penstock.taskexecutor.operators.relational.joins.inner_join import plain_rows
from penstock.taskexecutor.operators.relational.joins.join_pairs import NumberedRows
from penstock.taskexecutor.operators.relational.joins.key_numbers import KeyNumbers
from penstock.taskexecutor.operators.relational.joins.stored_rows import (
    RowBlock,
    RowsOfKeys,
    StoredRows,
)
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.state.time_to_live import Aged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.columns.array_types import Integers
    from penstock.columns.groups import Groups
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.expiring_rows import KeyedRows
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
        inputs: tuple[Schema, Schema],
        keys: tuple[tuple[int, ...], tuple[int, ...]],
    ) -> None:
        """Start without rows; see `restore`.

        Args:
            context: The operator's context.
            tables: By side, its keyed state in memory.
            schemas: By side, the Arrow schema of its batches.
            inputs: By side, its columns.
            keys: By side, the positions of the columns of the key.
        """
        kinds = [
            schema.field(key).type
            for schema, each in zip(schemas, keys, strict=True)
            for key in each
        ]
        self._names = KeyNumbers(context, kinds, len(keys[0]))
        self._max_parallelism = context.environment.max_parallelism
        self._tables = tables
        self._inputs = inputs
        self._keys = keys
        self._stored = tuple(StoredRows(schema) for schema in schemas)
        self._rows_of = (RowsOfKeys(), RowsOfKeys())
        #: By side: the number of rows that keyed state has, and by key group its key and blocks.
        self._saved = [0, 0]
        self._blocks: tuple[dict[int, tuple[str, list[Any]]], ...] = ({}, {})
        context.metric_group().gauge("numRowsInBlocks", lambda: sum(map(len, self._stored)))

    def named(self, side: int, batch: pa.RecordBatch) -> tuple[Groups, Integers]:
        """Return the groups of a batch by key, and the numbers of their keys; see `Sides`."""
        return self._names.of(batch, self._keys[side])

    def partners(self, side: int, names: Integers) -> Partners:
        """Return the rows of a side that have some keys; see `Sides`."""
        return _NumberedPartners(self._stored[side], *self._rows_of[side].find(names))

    def keep(self, side: int, batch: pa.RecordBatch, groups: Groups, names: Integers) -> None:
        """Add the rows of a batch; see `Sides`."""
        stored = self._stored[side]
        self._rows_of[side].add(names, groups, len(stored))
        stored.add(batch)

    def restore(self) -> None:
        """Take the rows out of keyed state, which may have the layout of `KeyedSides`."""
        for side, table in enumerate(self._tables):
            for batch in taken_batches(table, self._inputs[side], self._stored[side].schema):
                self.keep(side, batch, *self.named(side, batch))

    def save(self) -> None:
        """Add the new rows to keyed state, which takes part in the next snapshot."""
        for side, stored in enumerate(self._stored):
            for start in range(self._saved[side], len(stored), ROWS_AT_ONCE):
                self._save_rows(side, np.arange(start, min(start + ROWS_AT_ONCE, len(stored))))
            self._saved[side] = len(stored)

    def _save_rows(self, side: int, rows: Integers) -> None:
        selected = self._stored[side].select(rows)
        columns = [selected.column(key) for key in self._keys[side]]
        if not columns:
            self._add_block(side, key_group(_hash(""), self._max_parallelism), "", rows)
            return
        for group, text, part in parts_by_key_group(columns, self._max_parallelism):
            self._add_block(side, group, text, rows[part])

    def _add_block(self, side: int, group: int, text: str, rows: Integers) -> None:
        """Add rows of one key group; merge them with blocks that have no more rows."""
        text, blocks = self._blocks[side].setdefault(group, (text, []))
        table = self._tables[side]
        while blocks and len(blocks[-1]) <= min(len(rows), _MOST_ROWS):
            rows = np.concatenate((blocks.pop(), rows))
            table.map(len(blocks)).remove(text)
        table.map(len(blocks)).put(text, RowBlock(self._stored[side], rows))
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


def parts_by_key_group(
    columns: list[pa.Array], max_parallelism: int
) -> Iterator[tuple[int, str, pa.RecordBatch]]:
    """Yield each key group of some rows, the key in state of its first row, and their positions.

    Args:
        columns: The columns of the key, at least one.
        max_parallelism: The number of key groups.
    """
    keys = pa.RecordBatch.from_arrays(columns, [str(number) for number in range(len(columns))])
    hashes = json_hashes(columns)
    texts: list[str] | None = None
    if hashes is None:
        texts = key_texts(keys, range(len(columns)))
        distinct = {text: _hash(text) for text in set(texts)}
        hashes = array("i", [distinct[text] for text in texts])
    # Each key group is the channel of its rows.
    order, ends = HashPartition(max_parallelism, max_parallelism).order(hashes)
    for group, part in enumerate(np.split(numpy_values(order), ends[:-1])):
        if len(part):
            first = int(part[0])
            yield group, texts[first] if texts is not None else _text(keys, first), part


def taken_batches(
    table: StateTable, columns: Schema, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Take the rows of one side out of keyed state; those of a key are in order of arrival.

    Args:
        table: The state, in any layout.
        columns: The columns of the side.
        schema: Their Arrow schema.
    """
    rows: list[_Row] = []
    for kept in table.map(None).values():
        rows += plain_rows(kept)
        if len(rows) >= ROWS_AT_ONCE:
            yield _batch(rows, columns, schema)
            rows = []
    if rows:
        yield _batch(rows, columns, schema)
    yield from _blocks_of(table, schema)
    for found in table.namespaces():
        found.clear()
        table.drop_if_empty(found.namespace)


def key_blocks(
    table: StateTable, side: KeyedRows, schema: pa.Schema, keys: Sequence[int], width: int
) -> None:
    """Convert the blocks of one side in keyed state into lists of rows by key.

    Args:
        table: The state.
        side: Its entries by key, which may expire.
        schema: The Arrow schema of the side, without row kinds.
        keys: The positions of the columns of the key.
        width: The number of columns.
    """
    for batch in _blocks_of(table, schema):
        rows: dict[str, list[_Row]] = {}
        for text, row in zip(key_texts(batch, keys), rows_of(batch, width), strict=True):
            rows.setdefault(text, []).append(row)
        for text, added in rows.items():
            side.put(text, [*plain_rows(side.get(text)), *added])
    for found in table.namespaces():
        if found.namespace is not None:
            found.clear()
            table.drop_if_empty(found.namespace)


def _blocks_of(table: StateTable, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the blocks of one side, older ones of a key group first."""
    numbers = [found.namespace for found in table.namespaces() if found.namespace is not None]
    for number in sorted(numbers):
        for value in table.map(number).values():
            # State that got a time to live has times.
            data: Any = value.value if isinstance(value, Aged) else value
            yield batch_of_bytes(data, schema)


def _batch(rows: list[_Row], columns: Schema, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        column_of_values(values, kind, field.type)
        for values, kind, field in zip(zip(*rows, strict=True), columns.types, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _hash(text: str) -> int:
    return network.key_hash("STRING")(text)


def _text(keys: pa.RecordBatch, row: int) -> str:
    return key_texts(keys.slice(row, 1), range(keys.num_columns))[0]
