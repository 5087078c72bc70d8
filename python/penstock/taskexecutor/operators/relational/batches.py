"""Batches of relations: their schema and row kinds, and batches of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.columns.record_batches import values_of
from penstock.table.plan.nodes import ROW_KIND
from penstock.table.types.arrow_types import arrow_array, arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.schema import Schema
    from penstock.table.types import DataType


def arrow_schema(schema: Schema, *, has_kinds: bool) -> pa.Schema:
    """Return the Arrow schema of a relation's batches."""
    fields = [pa.field(field.name, arrow_type(field.type)) for field in schema]
    if has_kinds:
        fields.append(pa.field(ROW_KIND, pa.int8()))
    return pa.schema(fields)


def kinds_of(batch: pa.RecordBatch) -> list[int] | None:
    """Return the row kinds of a batch, None if all rows are inserted."""
    names = batch.schema.names
    if not names or names[-1] != ROW_KIND:
        return None
    return values_of(batch.column(batch.num_columns - 1))


class ChangeBuffer:
    """Collects rows that an operator emits, and builds batches of them."""

    def __init__(self, schema: Schema, *, has_kinds: bool) -> None:
        """Create an empty buffer."""
        self._types = schema.types
        self._schema = arrow_schema(schema, has_kinds=has_kinds)
        self._has_kinds = has_kinds
        self._rows: list[Sequence[Any]] = []
        self._kinds: list[int] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, kind: int, row: Sequence[object]) -> None:
        """Append a row."""
        self._rows.append(row)
        self._kinds.append(kind)

    def extend(self, kind: int, rows: Sequence[Sequence[object]]) -> None:
        """Append rows of one kind."""
        self._rows.extend(rows)
        self._kinds.extend([kind] * len(rows))

    def take(self) -> pa.RecordBatch | None:
        """Return the batch of the rows and clear the buffer; None without rows."""
        rows, kinds = self._rows, self._kinds
        if not rows:
            return None
        self._rows, self._kinds = [], []
        columns = list(zip(*rows, strict=True)) if self._types else []
        arrays = [
            column_of_values(values, kind, field.type)
            for values, kind, field in zip(columns, self._types, self._schema, strict=False)
        ]
        if self._has_kinds:
            arrays.append(pa.array(kinds, pa.int8()))
        if not arrays:
            return empty_columns(len(rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def column_of_values(values: Sequence[object], kind: DataType, target: object) -> pa.Array:
    """Return Python values of a logical type as an array of an Arrow type."""
    try:
        return pa.array(values, target)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
        return arrow_array(values, kind)


def empty_columns(rows: int) -> pa.RecordBatch:
    """Return a batch without relational columns: one column keeps the number of rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows, pa.null())], ["$none"])
