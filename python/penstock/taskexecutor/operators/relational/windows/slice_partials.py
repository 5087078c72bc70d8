"""Partial aggregates of keys and slices of time, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrow_groups import grouped
from penstock.columns.record_batches import values_of
from penstock.formats.numpy_values import numpy_values
from penstock.table import types
from penstock.table.types.arrow_types import arrow_type
from penstock.taskexecutor.operators.relational.aggregates.partial_aggregates import argument_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.columns.array_types import Integers
    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.schema import Schema

#: The column of slices, in ms of local time, and of numbers of rows.
SLICE: Final = "$slice"
ROWS: Final = "$rows"

_DECIMAL: Final = pa.decimal128(38, 0)
_MERGING: Final[dict[str, Any]] = {"sum": np.add, "min": np.minimum, "max": np.maximum}
_WIDTHS: Final[dict[type, Any]] = {
    types.TinyIntType: np.int8,
    types.SmallIntType: np.int16,
    types.IntType: np.int32,
}


class SlicePartials:
    """Creates, merges and reads batches of partial aggregates.

    Their columns are those of the key, `SLICE`, `ROWS`, and those of each call: the value of MIN
    and MAX, the sum of SUM, the sum and the number of values of AVG, the number of values of COUNT.
    COUNT of all rows has no column of its own.

    They suit windows, whose rows are only added.  `PartialAggregates` counts the values of SUM as
    well, since a later row may retract one of them, and creates accumulators at once.

    Attributes:
        schema: The Arrow schema of the batches.
        width: The number of columns of the key.
        value_types: The types of the columns behind `SLICE`.
        merging: By column behind `SLICE`, the function that merges two numpy arrays of it.
    """

    def __init__(self, input: Schema, keys: Sequence[int], calls: Sequence[AggregateCall]) -> None:
        """Create partial aggregates.

        Args:
            input: The columns of the rows.
            keys: The positions of the columns of the key.
            calls: The aggregates, over columns; their partial results merge.
        """
        self.width = len(keys)
        self._keys = tuple(keys)
        self._calls = tuple(calls)
        fields = [
            pa.field(f"k{i}", arrow_type(input.fields[key].type)) for i, key in enumerate(keys)
        ]
        fields += [pa.field(SLICE, pa.int64()), pa.field(ROWS, pa.int64())]
        self._groups = [field.name for field in fields[:-1]]
        wanted = [(ROWS, "sum")]
        #: By call, the positions of its columns.
        self._places: list[tuple[int, ...]] = []
        for call in calls:
            first = len(fields)
            for kind, merging in _columns(call):
                wanted.append((f"a{len(fields)}", merging))
                fields.append(pa.field(f"a{len(fields)}", kind))
            self._places.append(tuple(range(first, len(fields))) or (self.width + 1,))
        self._wanted = wanted
        self.schema = pa.schema(fields)
        self.value_types = self.schema.types[self.width + 1 :]
        self.merging = [_MERGING[merging] for _, merging in wanted]

    def of_rows(self, batch: pa.RecordBatch, slices: Integers) -> pa.RecordBatch:
        """Return the partial aggregates of single rows.

        Args:
            batch: The rows.
            slices: Their slices, as a numpy array.
        """
        arrays = [batch.column(key) for key in self._keys]
        arrays += [pa.array(slices), pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)]
        for call in self._calls:
            arrays += _row_values(batch, call)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def merged(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Return one row for each key and slice, in the order of their first rows."""
        table = pa.Table.from_batches(batches, self.schema)
        found = grouped(table, self._groups, self._wanted)
        names = [*self._groups, *(f"{name}_{merging}" for name, merging in self._wanted)]
        arrays = [found.column(name).combine_chunks() for name in names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns behind `SLICE`."""
        found: list[Any] = batch.columns[self.width + 1 :]
        return found

    def of_values(self, slices: Integers, values: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return a batch without a key, given the columns of `values`."""
        return pa.RecordBatch.from_arrays([pa.array(slices), *values], schema=self.schema)

    def slices(self, batch: pa.RecordBatch) -> Integers:
        """Return the slices of a batch, as a numpy array."""
        return numpy_values(batch.column(self.width))

    def with_slices(self, batch: pa.RecordBatch, slices: Integers) -> pa.RecordBatch:
        """Return a batch with other slices."""
        return batch.set_column(self.width, self.schema.field(self.width), pa.array(slices))

    def rows(self, batch: pa.RecordBatch) -> Integers:
        """Return the numbers of rows, as a numpy array."""
        return numpy_values(batch.column(self.width + 1))

    def results(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the column of each call's results."""
        return [
            _result(call, [batch.column(place) for place in places])
            for call, places in zip(self._calls, self._places, strict=True)
        ]

    def accumulators(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        """Yield the accumulators of each row, for ``AggregateCalls.merge``."""
        columns = []
        for call, places in zip(self._calls, self._places, strict=True):
            first, *others = (values_of(batch.column(place)) for place in places)
            if call.function in ("SUM", "$SUM0"):
                columns.append([(value or 0, int(value is not None)) for value in first])
            elif call.function == "AVG":
                totals = [int(total or 0) for total in first]
                columns.append(list(zip(totals, others[0], strict=True)))
            else:
                columns.append(first)
        return zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)

    def of_groups(
        self,
        groups: Sequence[tuple[Sequence[Any], int, Sequence[Any]]],
        slices: Sequence[int],
    ) -> pa.RecordBatch:
        """Return a batch of groups of state: the key, the number of rows, the accumulators."""
        columns: list[Any] = [[key[i] for key, _, _ in groups] for i in range(self.width)]
        columns += [slices, [rows for _, rows, _ in groups]]
        for position, call in enumerate(self._calls):
            values = [found[position] for _, _, found in groups]
            if call.function in ("SUM", "$SUM0"):
                columns.append([total if count else None for total, count in values])
            elif call.function == "AVG":
                columns += [list(each) for each in zip(*values, strict=True)]
            elif self._places[position] == (self.width + 1,):
                columns[self.width + 1] = values
            else:
                columns.append(values)
        arrays = [
            pa.array(values, field.type) for values, field in zip(columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _columns(call: AggregateCall) -> list[tuple[pa.DataType, str]]:
    """Return the types of a call's columns and the functions that merge them."""
    kind = call.arguments[0].type if call.arguments else None
    match call.function:
        case "COUNT":
            is_own = kind is not None or call.condition is not None
            return [(pa.int64(), "sum")] if is_own else []
        case "SUM" | "$SUM0":
            return [(pa.int64(), "sum")]
        case "AVG":
            # A sum of BIGINT may need more than 64 bits.
            total = _DECIMAL if isinstance(kind, types.BigIntType) else pa.int64()
            return [(total, "sum"), (pa.int64(), "sum")]
    return [(arrow_type(kind), str(call.function).lower())]  # type: ignore[arg-type]


def _row_values(batch: pa.RecordBatch, call: AggregateCall) -> list[pa.Array]:
    """Return a call's columns for single rows."""
    column = argument_of(batch, call)
    if column is None:
        return []
    if call.function == "COUNT":
        return [column.is_valid().cast(pa.int64())]
    wanted = _columns(call)
    values = column if column.type == wanted[0][0] else column.cast(wanted[0][0])
    return [values] if len(wanted) == 1 else [values, column.is_valid().cast(pa.int64())]


def _result(call: AggregateCall, columns: list[pa.Array]) -> pa.Array:
    target = arrow_type(call.type)
    match call.function:
        case "SUM" | "$SUM0":
            (total,) = columns
            if call.function == "$SUM0":
                total = pc.fill_null(total, 0)
            width = _WIDTHS.get(type(call.type))
            if width is None:
                return total
            # Sums wrap around.
            values = numpy_values(pc.fill_null(total, 0)).astype(width)
            return pa.array(values, mask=numpy_values(total.is_null()))
        case "AVG":
            return _means(*columns).cast(target)
    return columns[0] if columns[0].type == target else columns[0].cast(target)


def _means(totals: pa.Array, counts: pa.Array) -> pa.Array:
    """Return means, truncated to integers; NULL without values."""
    try:
        sums = numpy_values(pc.fill_null(totals, 0).cast(pa.int64()))
    except pa.ArrowInvalid:
        # Python's integers have any size.
        sums = np.array([int(total or 0) for total in totals.to_pylist()], object)
    numbers = numpy_values(counts)
    divisors = np.maximum(numbers, 1)
    found = sums // divisors
    found += (found < 0) & (found * divisors != sums)
    return pa.array(found, pa.int64(), mask=numbers == 0)
