"""Columnar sources for tables of Arrow, pandas and Polars; `data_stream.tables` is the way back.

A library is imported only when one of its tables is passed: the program has loaded it already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.names import nearest_hint
from penstock.connectors.base import Source
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.formats.arrow_types import arrow_library, row_type_of, table_schema
from penstock.graph import operators

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

#: Rows per batch that is sent to the workers.
_BATCH_ROWS: Final = 65_536


class ColumnSource(Source):
    """A source of a table's rows; the subtasks read small ranges of them in turn.

    Checkpoints hold the positions, so that a restored job emits each row once, at any
    parallelism.  The columns travel with the job to every worker.
    """

    def __init__(self, table: Any, where: str) -> None:
        """Create a source of a ``pyarrow.Table``; use `StreamExecutionEnvironment.from_arrow`.

        Raises:
            InvalidProgramError: Columns share a name.
        """
        super().__init__(None)
        pa = arrow_library(where)
        names = table.schema.names
        if len(set(names)) < len(names):
            raise InvalidProgramError(f"{where}: columns share a name: {', '.join(names)}")
        self._type = row_type_of(table.schema, where)
        _check_nanoseconds(pa, table, where)
        self._batches: list[bytes] = []
        self._lengths: list[int] = []
        for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
            if batch.num_rows == 0:
                continue
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            self._batches.append(sink.getvalue().to_pybytes())
            self._lengths.append(batch.num_rows)

    def source_operator(self) -> operators.ColumnSource:
        """Create the operator that reads the batches."""
        return operators.ColumnSource(
            batches=self._batches, lengths=self._lengths, row_type=self._type
        )

    def get_produced_type(self) -> TypeInformation:
        """Return a row type with the names and types of the columns."""
        return self._type


def _check_nanoseconds(pa: Any, table: Any, where: str) -> None:
    """Reject times with nanoseconds, which Python's time types cannot hold.

    Raises:
        InvalidProgramError: A column has such times.
    """
    for name, column in zip(table.schema.names, table.columns, strict=True):
        kind = column.type
        if getattr(kind, "unit", None) != "ns":
            continue
        if pa.types.is_timestamp(kind):
            wanted = pa.timestamp("us", kind.tz)
        else:
            wanted = pa.time64("us") if pa.types.is_time64(kind) else pa.duration("us")
        try:
            column.cast(wanted)
        except pa.ArrowInvalid as error:
            raise InvalidProgramError(
                f"{where}: the column {name!r} has nanoseconds, which Python's times do not have; "
                f"round it to microseconds ({error})"
            ) from None


def source_of_arrow(table: Any) -> ColumnSource:
    """Create a source of a Table, RecordBatch, RecordBatchReader or Arrow stream."""
    pa = arrow_library("from_arrow")
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif isinstance(table, pa.RecordBatchReader):
        table = table.read_all()
    elif not isinstance(table, pa.Table):
        if not hasattr(table, "__arrow_c_stream__"):
            raise WrongArgumentError(
                "from_arrow takes a Table, a RecordBatch, a RecordBatchReader or an object with "
                f"__arrow_c_stream__, got {table!r}"
            )
        table = pa.table(table)
    return ColumnSource(table, "from_arrow")


def source_of_pandas(frame: Any, schema: Any = None) -> ColumnSource:
    """Create a source of the rows of a pandas DataFrame, without its index.

    Args:
        frame: The DataFrame.
        schema: The columns to read and their types; None for all, with the types of their values.
    """
    pa = arrow_library("from_pandas")
    if not _is_a(frame, "pandas", "DataFrame"):
        raise WrongArgumentError(f"from_pandas takes a DataFrame of pandas, got {frame!r}")
    names = [str(name) for name in frame.columns]
    kinds = dict.fromkeys(names)
    if schema is not None:
        wanted = table_schema(schema, row_type_of(schema, "from_pandas"))
        kinds = dict(zip(wanted.names, wanted.types, strict=True))
    columns = []
    for name, kind in kinds.items():
        if name not in names:
            raise InvalidProgramError(
                f"from_pandas: the frame has no column {name!r}, which the schema has; its columns "
                f"are {', '.join(names)}{nearest_hint(name, names)}"
            )
        try:
            columns.append(_column_of_pandas(pa, frame.iloc[:, names.index(name)], kind))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise InvalidProgramError(
                f"from_pandas: Arrow has no type for the values of the column {name!r} ({error}); "
                "convert them to one type, or pass the frame to from_collection"
                if kind is None
                else f"from_pandas: the values of the column {name!r} do not have the type {kind} "
                f"of the schema ({error})"
            ) from None
    return ColumnSource(pa.Table.from_arrays(columns, names=list(kinds)), "from_pandas")


def _column_of_pandas(pa: Any, column: Any, kind: Any) -> Any:
    import numpy as np

    # NaN is a number in a float column, as in `from_collection`, and a missing value elsewhere.
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        return pa.array(column.to_numpy(), kind, from_pandas=False)
    return pa.Array.from_pandas(column, type=kind)


def source_of_polars(frame: Any) -> ColumnSource:
    """Create a source of the rows of a Polars DataFrame."""
    arrow_library("from_polars")
    if _is_a(frame, "polars", "LazyFrame"):
        raise InvalidProgramError("from_polars: a LazyFrame has no rows yet: call collect() on it")
    if not _is_a(frame, "polars", "DataFrame"):
        raise WrongArgumentError(f"from_polars takes a DataFrame of Polars, got {frame!r}")
    return ColumnSource(frame.to_arrow(), "from_polars")


def _is_a(value: Any, package: str, name: str) -> bool:
    return any(
        kind.__module__.partition(".")[0] == package and kind.__name__ == name
        for kind in type(value).__mro__
    )
