"""Conversions between rows and record batches, with a column of row kinds for updated tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.table.plan.nodes import INSERT, ROW_KIND
from penstock.table.types.arrow_types import arrow_array, python_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.table.formats.row_format import KindedRow
    from penstock.table.types import RowType

#: The number of rows that a source puts into a batch.
BATCH_ROWS: Final = 4096


def record_batch(
    rows: Sequence[KindedRow], row_type: RowType, *, with_kinds: bool = False
) -> pa.RecordBatch:
    """Return rows as a batch.

    Args:
        rows: The kinds and values.
        row_type: The type of the rows.
        with_kinds: Whether the batch has a last column with the kinds.
    """
    import pyarrow as pa

    columns = [
        arrow_array([row[i] for _, row in rows], field.data_type)
        for i, field in enumerate(row_type)
    ]
    names = row_type.field_names()
    if with_kinds:
        columns.append(pa.array([kind for kind, _ in rows], pa.int8()))
        names.append(ROW_KIND)
    return pa.RecordBatch.from_arrays(columns, names=names)


def kinds_of(batch: pa.RecordBatch) -> list[int]:
    """Return the row kind of each row."""
    names = batch.schema.names
    if not names or names[-1] != ROW_KIND:
        return [INSERT] * batch.num_rows
    kinds: list[int] = batch.column(batch.num_columns - 1).to_pylist()
    return kinds


def has_kinds(batch: pa.RecordBatch) -> bool:
    """Return whether the batch has a column of row kinds."""
    return bool(batch.num_columns) and batch.schema.names[-1] == ROW_KIND


def rows_of(
    batch: pa.RecordBatch,
    row_type: RowType,
    *,
    is_collected: bool = False,
    named_rows: bool = False,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the kind and the values of each row.

    Args:
        batch: The batch.
        row_type: The type of its rows.
        is_collected: Whether ``collect()`` returns the values.
        named_rows: Whether rows inside the values have field names.
    """
    columns = [
        python_values(
            batch.column(i), field.data_type, is_collected=is_collected, named_rows=named_rows
        )
        for i, field in enumerate(row_type)
    ]
    kinds = kinds_of(batch)
    if not columns:
        yield from ((kind, ()) for kind in kinds)
        return
    yield from zip(kinds, zip(*columns, strict=True), strict=True)
