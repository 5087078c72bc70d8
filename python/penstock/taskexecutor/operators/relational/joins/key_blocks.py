"""The rows of a side in keyed state: blocks of key groups, and lists by key."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock import network
from penstock.columns.key_columns import json_hashes
from penstock.columns.partition import HashPartition
from penstock.columns.record_batches import rows_of
from penstock.formats.numpy_values import numpy_values
from penstock.graph.key_groups import key_group
from penstock.taskexecutor.operators.relational.batches import column_of_values
from penstock.taskexecutor.operators.relational.joins.column_sides import ROWS_AT_ONCE, taken_blocks
from penstock.taskexecutor.operators.relational.joins.keyed_sides import plain_rows
from penstock.taskexecutor.operators.relational.key_texts import key_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.operators.relational.expiring_rows import KeyedRows
    from penstock.taskexecutor.state.heap import StateTable

_Row = tuple[Any, ...]


def parts_by_key_group(
    columns: list[pa.Array], max_parallelism: int
) -> Iterator[tuple[int, str, Any]]:
    """Yield each key group of some rows, the key in state of its first row, and their positions.

    Args:
        columns: The columns of the key; without any, all rows have one key.
        max_parallelism: The number of key groups.
    """
    if not columns:
        yield key_group(_hash(""), max_parallelism), "", slice(None)
        return
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
    table.map(None).clear()
    table.drop_if_empty(None)
    yield from taken_blocks(table, schema)


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
    for batch in taken_blocks(table, schema):
        rows: dict[str, list[_Row]] = {}
        for text, row in zip(key_texts(batch, keys), rows_of(batch, width), strict=True):
            rows.setdefault(text, []).append(row)
        for text, added in rows.items():
            side.put(text, [*plain_rows(side.get(text)), *added])


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
