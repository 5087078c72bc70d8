"""Batches of change rows: the rows of a batch, and rows of state that they displace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.common.row_kind import RowKind
from penstock.common.values.change_rows import change_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.common.types import Row

_KINDS: Final = tuple(sorted(RowKind, key=lambda kind: kind.value))


class Changes:
    """The changes that the rows of one batch cause, in the order of these rows.

    A row emits itself alone, or behind the row that it displaces.
    """

    def __init__(
        self,
        batch: ColumnBatch,
        rows: Sequence[int],
        before: Sequence[int],
        old: list[Row] | pa.RecordBatch,
        removal: RowKind,
        addition: RowKind,
    ) -> None:
        """Describe changes.

        Args:
            batch: The batch.
            rows: By change, the position of the new row.
            before: By change, the position of the row that it displaces, or -1; rows of state stand
                behind those of the batch.
            old: Rows of state; as a batch, they have its columns.
            removal: The kind of a displaced row.
            addition: The kind of the row in its place; others are insertions.
        """
        import numpy as np

        from penstock.columns.change_pairs import change_pairs

        after, displaced = np.array(rows, np.int64), np.array(before, np.int64)
        is_insert = displaced < 0
        counts, self._places, self._kinds = change_pairs(
            after,
            displaced,
            is_insert,
            ~is_insert,
            removal=removal.value,
            addition=addition.value,
        )
        #: By emitted row, the position of the new row, whose timestamp it has.
        self._causes = np.repeat(after, counts)
        self._batch = batch
        self._old = old

    def __len__(self) -> int:
        """Return the number of emitted rows."""
        return len(self._places)

    def batch(self) -> ColumnBatch | None:
        """Return the change rows as a batch; None if an old row does not fit the columns."""
        import pyarrow as pa

        declared = self._batch.declared
        columns = self._batch.data.columns
        if len(self._old):
            try:
                if not isinstance(old := self._old, pa.RecordBatch):
                    values = zip(columns, zip(*old, strict=True), strict=True)
                    arrays = [pa.array(value, column.type) for column, value in values]
                    old = pa.RecordBatch.from_arrays(arrays, schema=self._batch.data.schema)
                columns = [
                    pa.concat_arrays(pair) for pair in zip(columns, old.columns, strict=True)
                ]
            except (pa.ArrowException, OverflowError, TypeError):
                # Keep the rows' values; a sink that cannot write one reports the error.
                return None
        places = pa.array(self._places)
        data = pa.RecordBatch.from_arrays(
            [column.take(places) for column in columns], schema=batch_schema(declared)
        )
        stamps = self._batch.timestamps
        if not isinstance(stamps, int):
            stamps = stamps.take(pa.array(self._causes))
        kinds = pa.array(self._kinds) if self._kinds.any() else None
        return ColumnBatch(data, declared, stamps, kinds)

    def records(self) -> Iterator[tuple[Row, int]]:
        """Yield the change rows with their timestamps."""
        old = self._old
        if not isinstance(old, list):
            old = ColumnBatch(old, self._batch.declared).rows()
        rows = [*self._batch.rows(), *old]
        stamps = self._batch.timestamp_list()
        changes = (each.tolist() for each in (self._causes, self._places, self._kinds))
        for cause, place, kind in zip(*changes, strict=True):
            yield change_row(_KINDS[kind], rows[place]), stamps[cause]
