"""The first records of each key as columns, beside keyed state in memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from penstock.columns.batch_schema import batch_schema
from penstock.columns.change_batches import Changes
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.first_rows import codes_with_known, inserted
from penstock.columns.order_ranks import OrderColumn, order_ranks
from penstock.common.row_kind import RowKind
from penstock.taskexecutor.operators.key_blocks import parts_of_keys
from penstock.taskexecutor.operators.relational.joins.column_sides import (
    clear_blocks,
    taken_blocks,
)
from penstock.taskexecutor.operators.relational.ranks.top_rows import TopRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.aggregates.named import KeyFields
    from penstock.columns.first_rows import Inserted
    from penstock.columns.keyed_columns import Keyed, KeyedColumns
    from penstock.common.typeinfo import TypeInformation
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.ranks.top_rows import Tops
    from penstock.taskexecutor.state.heap import StateTable

#: With the first rows of as many keys, `order_ranks` can rank the rows.
_MOST_AT_ONCE: Final = 1 << 15


class Order(Protocol):
    """An order of records.

    Attributes:
        n: The number of first records that a key keeps.
        descending: Whether the largest value comes first.
    """

    n: int
    descending: bool


class RankedColumns:
    """Keeps the first records of all keys, in the form of SQL's top-N.

    Behind the columns of a record stand the values by which records are ordered; snapshots have
    the records alone.
    """

    def __init__(
        self,
        context: OperatorContext,
        columns: KeyedColumns,
        fields: KeyFields,
        keys: KeyReader,
        order: Order,
        declared: TypeInformation,
        orders: Sequence[pa.DataType],
        table: StateTable,
    ) -> None:
        """Start without records.

        Args:
            context: The operator's context.
            columns: Computes keys, and the values by which records are ordered.
            fields: The fields of the key.
            keys: Maps keys to their form in state.
            order: The order, and the number of first records.
            declared: The type of the records.
            orders: The Arrow types of the values by which records are ordered; see `are_ranked`.
            table: The keyed state of the blocks.
        """
        self._columns = columns
        self._declared = declared
        self._most = order.n
        self._schema = batch_schema(declared)
        width = len(self._schema)
        self._rows = pa.schema(
            [*self._schema, *(pa.field(f"order {n}", kind) for n, kind in enumerate(orders))]
        )
        self._order = [
            OrderColumn(width + n, order.descending, nulls_first=not order.descending)
            for n in range(len(orders))
        ]
        self._table = table
        #: The last rows whose keys were computed, and the keys.
        self._computed: tuple[Any, Any] = (None, None)
        self._tops = TopRows(
            context,
            table,
            self._rows,
            columns.key_types,
            self._keyed,
            partial(parts_of_keys, context, fields, keys),
            order.n,
            self._schema,
        )

    def can_rank(self, batch: ColumnBatch, keyed: Keyed) -> bool:
        """Return whether a batch has the columns of the records and of their order."""
        kinds = [column.type for column in keyed.arguments]
        has_records: bool = batch.data.schema == self._schema
        return has_records and kinds == self._rows.types[len(self._schema) :]

    def _keyed(self, rows: Any) -> tuple[Any, Sequence[int]]:
        known, keys = self._computed
        if known is not rows:
            data = self._without_order(rows.batch())
            keyed = self._columns.computed(ColumnBatch(data, self._declared))
            # Stored rows had keys before.
            assert keyed is not None, "a stored record without a key"
            keys = keyed.keys
        names = [str(number) for number in range(len(keys))]
        return pa.RecordBatch.from_arrays(keys, names), range(len(keys))

    def changes(self, batch: ColumnBatch, keyed: Keyed) -> Iterator[Changes]:
        """Insert the records of a batch, and yield the changes.

        Raises:
            NoKernelError: The values are too many; the rest of the batch is not inserted.
        """
        for start in range(0, len(batch), _MOST_AT_ONCE):
            part = batch.slice(start, _MOST_AT_ONCE)
            keys, orders = (
                [column.slice(start, _MOST_AT_ONCE) for column in each] for each in keyed
            )
            tops, found = self._inserted(part.data, keys, orders)
            rows, before = found.replaced
            if not len(rows):
                continue
            is_old = before >= len(part)
            old = tops.known(before[is_old] - len(part))
            arrays = [old.column(position) for position in range(len(self._schema))]
            before = before.copy()
            before[is_old] = range(len(part), len(part) + len(arrays[0]))
            records = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
            yield Changes(part, rows, before, records, RowKind.DELETE, RowKind.INSERT)

    def add(self, data: pa.RecordBatch) -> bool:
        """Insert records of earlier snapshots; return False if kernels cannot."""
        batch = ColumnBatch(data, self._declared)
        keyed = self._columns.computed(batch)
        if keyed is None or not self.can_rank(batch, keyed):
            return False
        self._inserted(data, keyed.keys, keyed.arguments)
        return True

    def _inserted(
        self, data: pa.RecordBatch, keys: list[Any], orders: list[Any]
    ) -> tuple[Tops, Inserted]:
        rows = pa.RecordBatch.from_arrays([*data.columns, *orders], schema=self._rows)
        self._computed = rows, keys
        tops = self._tops.find(rows)
        codes = codes_with_known(tops.groups, tops.sizes)
        ranks = order_ranks(rows, codes, tops.known(), self._order)
        found = inserted(tops.groups, tops.sizes, codes, ranks, self._most)
        tops.put(found.groups, found.sizes, found.rows)
        return tops, found

    def restored(self) -> Iterator[pa.RecordBatch]:
        """Take the blocks out of keyed state."""
        return taken_blocks(self._table, self._schema)

    def save(self) -> None:
        """Write all records to keyed state, which takes part in the next snapshot."""
        self._tops.save()

    def records(self) -> Iterator[Any]:
        """Yield the records, those of a key in order."""
        for rows in self._tops.batches():
            yield from self.records_of(self._without_order(rows))

    def records_of(self, data: pa.RecordBatch) -> Iterator[Any]:
        """Yield the records of a batch."""
        return ColumnBatch(data, self._declared).handed_over()

    def _without_order(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(rows.columns[: len(self._schema)], schema=self._schema)

    def clear(self) -> None:
        """Remove the blocks from keyed state."""
        clear_blocks(self._table)
