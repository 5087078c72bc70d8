"""Batches of columns: rows of Python values, row kinds, keys, and bytes."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.formats.numpy_values import numpy_values
from penstock.table.plan.nodes import ROW_KIND
from penstock.table.types.arrow_types import arrow_array, arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.schema import Schema
    from penstock.table.types import DataType

#: Smaller batches are processed row by row, which costs less than the calls of kernels.
LEAST_ROWS: Final = 32

_DATETIMES: Final = frozenset((datetime.datetime, type(None)))


def arrow_schema(schema: Schema, *, has_kinds: bool) -> pa.Schema:
    """Return the Arrow schema of a relation's batches."""
    fields = [pa.field(field.name, arrow_type(field.type)) for field in schema]
    if has_kinds:
        fields.append(pa.field(ROW_KIND, pa.int8()))
    return pa.schema(fields)


def values_of(array: pa.Array) -> list[Any]:
    """Return the Python values of an array, as ``to_pylist`` does, several times as fast.

    Types whose NumPy form loses something, such as integers with NULLs, take the slow way.
    """
    kind = array.type
    is_whole = array.null_count == 0
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if is_whole and (is_number or pa.types.is_boolean(kind)):
        numbers: list[Any] = numpy_values(array).tolist()
        return numbers
    if pa.types.is_timestamp(kind) and kind.tz is None and kind.unit != "ns":
        times = numpy_values(array).view(f"M8[{kind.unit}]").astype("M8[us]")
        if not is_whole:
            times[numpy_values(array.is_null())] = np.datetime64("NaT")
        found: list[Any] = times.tolist()
        # NumPy returns numbers for years outside of datetime's range; the slow way fails on them.
        if set(map(type, found)) <= _DATETIMES:
            return found
    found = array.to_pylist()
    return found


def kinds_of(batch: pa.RecordBatch) -> list[int] | None:
    """Return the row kinds of a batch, None if all rows are inserted."""
    names = batch.schema.names
    if not names or names[-1] != ROW_KIND:
        return None
    return values_of(batch.column(batch.num_columns - 1))


def rows_of(batch: pa.RecordBatch, width: int) -> list[tuple[Any, ...]]:
    """Return the first ``width`` columns of a batch as rows of Python values."""
    return selected_rows(batch, range(width))


def selected_rows(batch: pa.RecordBatch, positions: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the columns of a batch at some positions as rows of Python values."""
    columns = [values_of(batch.column(i)) for i in positions]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


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


def batch_bytes(batch: pa.RecordBatch) -> bytes:
    """Return a batch as the body of an IPC message; its schema is known to the receiver."""
    found: bytes = batch.serialize().to_pybytes()
    return found


def batch_of_bytes(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch of an IPC message."""
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return batches of a schema as one."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, schema)
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
