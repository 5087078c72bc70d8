"""Batches of Arrow columns as Python values, as bytes, and several as one."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Smaller batches are processed row by row, which costs less than the calls of kernels.
LEAST_ROWS: Final = 32

_DATETIMES: Final = frozenset((datetime.datetime, type(None)))


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


def rows_of(batch: pa.RecordBatch, width: int) -> list[tuple[Any, ...]]:
    """Return the first ``width`` columns of a batch as rows of Python values."""
    return selected_rows(batch, range(width))


def selected_rows(batch: pa.RecordBatch, positions: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the columns of a batch at some positions as rows of Python values."""
    columns = [values_of(batch.column(i)) for i in positions]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


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
