"""Records of streams in keyed state as blocks of key groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.key_columns import KeyColumns, key_hashes
from penstock.columns.partition import HashPartition
from penstock.common.typeinfo import Types
from penstock.formats.numpy_values import numpy_values
from penstock.serialization.key_types import key_type_of
from penstock.taskexecutor.operators.relational.joins.column_sides import taken_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.aggregates.named import KeyFields
    from penstock.columns.array_types import Integers
    from penstock.common.typeinfo import TypeInformation
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.state.heap import StateTable

#: The number of records that become columns at once.
_ROWS_AT_ONCE: Final = 1 << 14


def parts_of_keys(
    context: OperatorContext, fields: KeyFields, keys: KeyReader, columns: list[pa.Array]
) -> Iterator[tuple[int, Any, Integers]]:
    """Yield each key group of some rows with the key of its first row, and their positions.

    Args:
        context: The operator's context.
        fields: The fields of the key.
        keys: Maps keys to their form in state.
        columns: The columns of the key.
    """
    declared = Types.TUPLE(list(fields.types))
    names = [f"f{number}" for number in range(len(columns))]
    batch = ColumnBatch(pa.RecordBatch.from_arrays(columns, names), declared)
    key_type: Any = context.config.key_type
    kind = None if fields.is_tuple else key_type_of(key_type).kind
    key = KeyColumns(tuple(range(len(columns))), fields.is_tuple, kind)
    count = context.environment.max_parallelism
    order, ends = HashPartition(count, count).order(key_hashes(batch, key))
    for group, part in enumerate(np.split(numpy_values(order), ends[:-1])):
        if len(part):
            first = int(part[0])
            (value,) = fields.keys([[column[first].as_py()] for column in columns])
            yield group, keys.identity(value), part


def records_of_blocks(table: StateTable, declared: TypeInformation) -> Iterator[Any]:
    """Take the records of a side out of the blocks in keyed state."""
    for data in taken_blocks(table, batch_schema(declared)):
        yield from ColumnBatch(data, declared).handed_over()


def portions(lists: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the items of some lists, a limited number at once."""
    found: list[Any] = []
    for each in lists:
        found += each
        if len(found) >= _ROWS_AT_ONCE:
            yield found
            found = []
    if found:
        yield found
