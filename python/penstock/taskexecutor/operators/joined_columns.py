"""The records of both sides of a join of two streams as columns, and the results of their pairs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.pairs import Pairs
from penstock.taskexecutor.operators.key_blocks import parts_of_keys
from penstock.taskexecutor.operators.relational.joins.column_sides import (
    ColumnSides,
    clear_blocks,
    taken_blocks,
)
from penstock.taskexecutor.operators.relational.joins.inner_join import InnerJoin
from penstock.taskexecutor.operators.relational.joins.partner_rows import MOST_PAIRS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.columns.array_types import Integers
    from penstock.columns.join_columns import JoinColumns
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.joins.partner_rows import NumberedRows
    from penstock.taskexecutor.state.heap import StateTable

#: Results, or the records of pairs whose results must be computed one by one, with timestamps.
Joined = ColumnBatch | list[tuple[Any, Any, int]]


class JoinedColumns:
    """Stores the records of both sides, and joins each batch with the other side."""

    def __init__(
        self,
        context: OperatorContext,
        columns: JoinColumns,
        keys: KeyReader,
        tables: tuple[StateTable, StateTable],
    ) -> None:
        """Start without records.

        Args:
            context: The operator's context.
            columns: Computes keys and results.
            keys: Maps keys to their form in state.
            tables: By side, the keyed state of the blocks.
        """
        self._columns = columns
        self._tables = tables
        self.schemas = tuple(batch_schema(declared) for declared in columns.types)
        #: The last rows whose keys were computed, and the keys.
        self._computed: tuple[Any, Any] = (None, None)
        key_types = (columns.key_types(0), columns.key_types(1))
        # The kinds of both sides' keys are the same, and so are their hashes.
        parts = partial(parts_of_keys, context, columns.key_fields[0], keys)
        self._sides = ColumnSides(context, tables, self.schemas, key_types, self._keyed, parts)
        positions = tuple(tuple(range(len(each))) for each in key_types)
        self._join = InnerJoin(
            context, self, self._sides, (positions[0], positions[1]), equates_nulls=True
        )
        self._timestamps: Any = 0

    def can_store(self, side: int, batch: ColumnBatch) -> bool:
        """Return whether a batch has the columns of a side."""
        declared = self._columns.types[side]
        return batch.declared == declared and batch.data.schema == self.schemas[side]

    def has_keys(self, side: int, data: pa.RecordBatch) -> bool:
        """Return whether the keys of a batch can be computed by columns; `joined` needs them."""
        keyed = self._columns.keyed(side, data)
        self._computed = data, keyed
        return keyed is not None

    def _keyed(self, side: int, rows: Any) -> tuple[Any, Sequence[int]]:
        known, keyed = self._computed
        if known is not rows:
            keyed = self._columns.keyed(side, rows)
        # Stored rows had keys before.
        assert keyed is not None, "a stored record without a key"
        found: tuple[Any, Sequence[int]] = keyed
        return found

    def joined(self, side: int, batch: ColumnBatch) -> Iterator[Joined]:
        """Store the records of one side, and yield the results of their pairs."""
        self._timestamps = batch.timestamps
        yield from self._join.joined(side, batch.data)

    def placed(
        self, side: int, batch: pa.RecordBatch, positions: Integers, others: NumberedRows
    ) -> Iterator[Joined]:
        """Yield the results of some pairs, in order; see `ResultsOfPairs`."""
        for start in range(0, len(positions), MOST_PAIRS):
            part = slice(start, start + MOST_PAIRS)
            taken = pa.array(positions[part], pa.int64())
            found: dict[tuple[int, int], pa.Array] = {}

            def column(
                of_side: int,
                position: int,
                part: slice = part,
                taken: pa.Array = taken,
                found: dict[tuple[int, int], pa.Array] = found,
            ) -> pa.Array:
                key = of_side, position
                if key not in found:
                    found[key] = (
                        batch.column(position).take(taken)
                        if of_side == side
                        else others.taken(position, part)
                    )
                return found[key]

            stamps = self._timestamps
            if not isinstance(stamps, int):
                stamps = stamps.take(taken)
            pairs = Pairs(self._columns.types, column, stamps, len(taken))
            results = self._columns.results(pairs)
            yield self._records(pairs, column) if results is None else results

    def _records(self, pairs: Pairs, column: Any) -> list[tuple[Any, Any, int]]:
        sides = []
        for side, schema in enumerate(self.schemas):
            arrays = [column(side, position) for position in range(len(schema))]
            data = pa.RecordBatch.from_arrays(arrays, schema=schema)
            sides.append(ColumnBatch(data, self._columns.types[side], pairs.timestamps))
        left, right = sides
        return list(zip(left.rows(), right.rows(), left.timestamp_list(), strict=True))

    def add(self, side: int, data: pa.RecordBatch) -> bool:
        """Store records without joining them; return False if their keys cannot be computed."""
        if not self.has_keys(side, data):
            return False
        self._sides.keep(side, data, *self._sides.named(side, data))
        return True

    def restore(self) -> None:
        """Take the blocks out of keyed state."""
        self._sides.restore(
            [
                taken_blocks(table, schema)
                for table, schema in zip(self._tables, self.schemas, strict=True)
            ]
        )

    def save(self) -> None:
        """Add the new records to keyed state, which takes part in the next snapshot."""
        self._sides.save()

    def records(self, side: int) -> Iterator[Any]:
        """Yield the stored records of a side in the order of arrival."""
        for data in self._sides.batches(side):
            yield from ColumnBatch(data, self._columns.types[side]).handed_over()

    def clear(self) -> None:
        """Remove the blocks from keyed state."""
        for table in self._tables:
            clear_blocks(table)
