"""Consecutive records as Arrow columns, with their timestamps and their kinds of change."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.columns.batch_schema import batch_column, batch_schema, fields_of
from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.common.row_kind import RowKind
from penstock.common.types import rows_of_columns
from penstock.errors import FormatError
from penstock.formats.arrow_columns import ColumnMisfit, column_values
from penstock.formats.arrow_types import arrow_library

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.common.typeinfo import TypeInformation

#: Marks records without a timestamp.
NO_TIMESTAMP: Final = -(2**63)

_KINDS: Final = tuple(sorted(RowKind, key=lambda kind: kind.value))


class ColumnBatch:
    """Consecutive records of one stream, a column for each field.

    A batch is immutable: every method that changes something returns another batch, which shares
    the columns wherever Arrow can.

    Attributes:
        data: The fields, as a ``pyarrow.RecordBatch``.
        declared: The type of the records: a RowTypeInfo, a TupleTypeInfo, or the type of the
            values of the one column.
        timestamps: In ms: an int64 array without nulls, or the one timestamp of all records;
            ``NO_TIMESTAMP`` if they have none.
        kinds: The numbers of the records' RowKinds, as an int8 array without nulls; None if all
            are INSERT.
    """

    __slots__ = ("data", "declared", "kinds", "timestamps")

    def __init__(
        self,
        data: Any,
        declared: TypeInformation,
        timestamps: Any = NO_TIMESTAMP,
        kinds: Any = None,
    ) -> None:
        """Create a batch from its parts.

        Args:
            data: A RecordBatch with a column for each field, in the order of the type.
            declared: The type of the records.
            timestamps: An int64 array or one integer.
            kinds: An int8 array or None.

        Raises:
            ValueError: The parts are of different lengths, or the type has other fields.
        """
        if len(fields_of(declared)) != data.num_columns:
            raise ValueError(f"{data.num_columns} columns for {declared!r}")
        for name, part in (("timestamps", timestamps), ("kinds", kinds)):
            if part is not None and not isinstance(part, int) and len(part) != data.num_rows:
                raise ValueError(f"{len(part)} {name} for {data.num_rows} rows")
        self.data = data
        self.declared = declared
        self.timestamps = timestamps
        self.kinds = kinds

    def __len__(self) -> int:
        """Return the number of records."""
        return int(self.data.num_rows)

    def __repr__(self) -> str:
        return f"<ColumnBatch: {len(self)} of {self.declared!r}>"

    def column(self, field: int | str) -> Any:
        """Return the column of a field, given its position or its name."""
        return self.data.column(field)

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp; ``NO_TIMESTAMP`` if the batch is empty."""
        if isinstance(self.timestamps, int):
            return self.timestamps if len(self) else NO_TIMESTAMP
        import pyarrow.compute as pc

        found = pc.max(self.timestamps).as_py()
        return NO_TIMESTAMP if found is None else int(found)

    def timestamp_list(self) -> list[int]:
        """Return the timestamp of each record."""
        if isinstance(self.timestamps, int):
            return [self.timestamps] * len(self)
        found: list[int] = self.timestamps.to_pylist()
        return found

    def rows(self) -> list[Any]:
        """Create the records: rows, tuples or values, according to the type.

        Each call creates new objects; nothing is cached.

        Raises:
            FormatError: A column cannot be read as the declared type; the message names the field.
        """
        names = fields_of(self.declared)
        found = []
        for (name, kind), column in zip(names, self.data.columns, strict=True):
            try:
                found.append(column_values(column, kind))
            except ColumnMisfit as misfit:
                raise FormatError(f"a batch of {len(self)} rows: {misfit.within(name)}") from None
        if isinstance(self.declared, TupleTypeInfo):
            return list(zip(*found, strict=True)) if found else [()] * len(self)
        if not isinstance(self.declared, RowTypeInfo):
            return found[0]
        rows: list[Any] = rows_of_columns([name for name, _ in names], found)
        if self.kinds is not None:
            for row, kind in zip(rows, self.kinds.to_pylist(), strict=True):
                if kind:
                    row.set_row_kind(_KINDS[kind])
        return rows

    def handed_over(self) -> Iterator[Any]:
        """Yield the records of `rows`, and keep none.

        A list of the rows would keep references to them.  Keyed state cannot tell such a reference
        from that of a function that may change the row, so it would copy the row.
        """
        rows = self.rows()
        rows.reverse()
        return map(rows.pop, repeat(-1, len(rows)))

    def records(self) -> Iterator[tuple[Any, int]]:
        """Yield the records, as `handed_over` does, with their timestamps."""
        return zip(self.handed_over(), self.timestamp_list(), strict=True)

    def slice(self, offset: int, length: int | None = None) -> Self:
        """Return some consecutive records; nothing is copied."""
        return self._of(lambda part: part.slice(offset, length))

    def take(self, indices: Any) -> Self:
        """Return the records at some positions, in the order of the positions.

        Args:
            indices: An array of integers without nulls.

        Raises:
            pyarrow.ArrowIndexError: A position lies outside of the batch.
        """
        return self._of(lambda part: part.take(indices))

    def filter(self, mask: Any) -> Self:
        """Return the records for which a boolean array is true."""
        return self._of(lambda part: part.filter(mask))

    def with_timestamps(self, timestamps: Any) -> Self:
        """Return the same records with other timestamps: an int64 array, or one integer."""
        return type(self)(self.data, self.declared, timestamps, self.kinds)

    def with_columns(self, data: Any, declared: TypeInformation) -> Self:
        """Return records of other fields with the timestamps of these.

        They are insertions: a computed record describes no change.
        """
        return type(self)(data, declared, self.timestamps)

    def _of(self, change: Any) -> Self:
        """Return a batch with the same change applied to each part."""
        timestamps, kinds = self.timestamps, self.kinds
        if not isinstance(timestamps, int):
            timestamps = change(timestamps)
        if kinds is not None:
            kinds = change(kinds)
        return type(self)(change(self.data), self.declared, timestamps, kinds)


def batch_of_columns(columns: Sequence[Any], declared: TypeInformation) -> ColumnBatch | None:
    """Create a batch of the columns of a file or a table, without timestamps.

    Args:
        columns: Arrow arrays, in the order of the fields.
        declared: A type whose fields all have exact columns.

    Returns:
        None if the values of a column need more than a cast.

    Raises:
        ColumnMisfit: A value does not fit its type; the error names the field.
    """
    pa = arrow_library("a batch of columns")
    arrays = []
    for (name, kind), column in zip(fields_of(declared), columns, strict=True):
        try:
            arrays.append(batch_column(column, kind))
        except ColumnMisfit as misfit:
            raise misfit.within(name) from None
        if arrays[-1] is None:
            return None
    data = pa.RecordBatch.from_arrays(arrays, schema=batch_schema(declared))
    return ColumnBatch(data, declared)


def concat(batches: Iterable[ColumnBatch]) -> ColumnBatch:
    """Concatenate batches of one type.

    Raises:
        ValueError: There is no batch, or they are of different types.
    """
    pa = arrow_library("a batch of columns")
    parts = list(batches)
    if not parts:
        raise ValueError("no batch to join")
    first = parts[0]
    if len(parts) == 1:
        return first
    if any(
        part.declared != first.declared or part.data.schema != first.data.schema for part in parts
    ):
        raise ValueError(f"batches of {sorted({repr(part.declared) for part in parts})}")
    columns = [
        pa.concat_arrays([part.data.column(number) for part in parts])
        for number in range(first.data.num_columns)
    ]
    stamps = [part.timestamps for part in parts]
    timestamps: Any = stamps[0]
    if not (isinstance(timestamps, int) and all(_is_same(each, timestamps) for each in stamps)):
        timestamps = pa.concat_arrays([_spread(pa, part) for part in parts])
    kinds = None
    if any(part.kinds is not None for part in parts):
        kinds = pa.concat_arrays(
            [pa.array([0] * len(p), pa.int8()) if p.kinds is None else p.kinds for p in parts]
        )
    data = pa.RecordBatch.from_arrays(columns, schema=first.data.schema)
    return ColumnBatch(data, first.declared, timestamps, kinds)


def _is_same(timestamps: Any, one: int) -> bool:
    return isinstance(timestamps, int) and timestamps == one


def _spread(pa: Any, batch: ColumnBatch) -> Any:
    """Return the timestamps of a batch as an array."""
    if isinstance(batch.timestamps, int):
        return pa.repeat(pa.scalar(batch.timestamps, pa.int64()), len(batch))
    return batch.timestamps
