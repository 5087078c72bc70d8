"""Conversion of other libraries' tables to the rows that `from_collection` accepts.

This module imports none of these libraries: a program that passes such a table has its library.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.common.types import Row
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

#: Tables whose rows are not in this process, and how to collect them.
_NOT_HERE: Final = {
    ("polars", "LazyFrame"): "call collect() on it",
    ("pyspark", "DataFrame"): "pass it to from_spark(), or call collect() on it",
    ("dask", "DataFrame"): "call compute() on it",
}


def elements_of(collection: Any, declared: TypeInformation | None) -> Any:
    """Return the elements of a collection: the rows of a table, and any other collection itself.

    A row is a `Row` with the names of the columns, or a tuple if TUPLE is declared.  Tables are
    DataFrames of pandas (without the index) and Polars, Tables and RecordBatches of Arrow, and the
    rows that a Spark DataFrame returns from ``collect()``.

    Raises:
        InvalidProgramError: The table is not in this process, or its columns have no names of
            their own.
    """
    kinds = _kinds(collection)
    for kind, instead in _NOT_HERE.items():
        if kind in kinds:
            raise InvalidProgramError(
                f"from_collection: the rows of a {kind[0]} {kind[1]} are not in this process: "
                f"{instead}"
            )
    if ("pandas", "DataFrame") in kinds:
        columns = [_of_pandas(collection.iloc[:, i]) for i in range(len(collection.columns))]
        return _rows(map(str, collection.columns), zip(*columns, strict=True), declared)
    if ("pandas", "Series") in kinds:
        return _of_pandas(collection)
    if ("polars", "DataFrame") in kinds:
        columns = [_of_polars(column) for column in collection.get_columns()]
        return _rows(collection.columns, zip(*columns, strict=True), declared)
    if ("polars", "Series") in kinds:
        return _of_polars(collection)
    if ("pyarrow", "Table") in kinds or ("pyarrow", "RecordBatch") in kinds:
        names = collection.schema.names
        columns = [_of_arrow(*column) for column in zip(names, collection.columns, strict=True)]
        return _rows(names, zip(*columns, strict=True), declared)
    if ("pyarrow", "Array") in kinds or ("pyarrow", "ChunkedArray") in kinds:
        return _of_arrow("value", collection)
    if isinstance(collection, Sequence) and len(collection) > 0 and _is_sparks(collection[0]):
        return [_own_row(row, declared) for row in collection]
    return collection


def _kinds(value: Any) -> set[tuple[str, str]]:
    """Return the classes of a value by package and name."""
    return {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}


def _rows(
    names: Iterable[str], rows: Iterable[Iterable[Any]], declared: TypeInformation | None
) -> Iterator[Any]:
    fields = list(names)
    if len(set(fields)) < len(fields):
        raise InvalidProgramError(f"from_collection: columns share a name: {', '.join(fields)}")
    return (_row(fields, values, declared) for values in rows)


def _row(names: list[str], values: Iterable[Any], declared: TypeInformation | None) -> Any:
    if isinstance(declared, TupleTypeInfo) and not isinstance(declared, RowTypeInfo):
        return tuple(values)
    row = Row(*values)
    row.set_field_names(names)
    return row


def _of_arrow(name: str, column: Any) -> list[Any]:
    """Return the values of an Arrow column, converted as by `from_arrow`."""
    from penstock.formats.arrow_columns import ColumnMisfit, column_values
    from penstock.formats.arrow_types import type_of_arrow

    try:
        return column_values(column, type_of_arrow(column.type))
    except ColumnMisfit as misfit:
        raise InvalidProgramError(f"from_collection: {misfit.within(name)}") from None


def _of_polars(column: Any) -> list[Any]:
    """Return the values of a Polars column, with instants in UTC as from `from_polars`."""
    kind = column.dtype
    if getattr(kind, "time_unit", None) == "ns" and (column.cast(int) % 1000 != 0).any():
        raise _too_fine(column.name)
    values: list[Any] = column.to_list()
    if getattr(kind, "time_zone", None) is None:
        return values
    return [None if value is None else value.astimezone(datetime.UTC) for value in values]


def _too_fine(name: Any) -> InvalidProgramError:
    return InvalidProgramError(
        f"from_collection: the column {name!r} has nanoseconds, which Python's times do not have; "
        "round it to microseconds"
    )


def _of_pandas(column: Any) -> list[Any]:
    """Return a pandas column as Python values: missing values become None, NaN floats stay.

    Instants are datetimes of UTC, as those of `from_pandas`.
    """
    pandas = sys.modules["pandas"]

    def plain(value: Any) -> Any:
        if value is pandas.NaT or value is pandas.NA:
            return None
        if isinstance(value, pandas.Timestamp):
            if value.nanosecond:
                raise _too_fine(column.name)
            moment = value.to_pydatetime()
            return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC)
        if isinstance(value, pandas.Timedelta):
            return value.to_pytimedelta()
        return value

    values = [plain(value) for value in column.tolist()]
    if column.dtype.kind == "f":
        return values
    return [
        None if missing else value
        for value, missing in zip(values, column.isna().tolist(), strict=True)
    ]


def _is_sparks(row: Any) -> bool:
    return isinstance(row, tuple) and ("pyspark", "Row") in _kinds(row)


def _own_row(row: Any, declared: TypeInformation | None) -> Any:
    """Convert a Spark Row, and the Rows in it."""
    values = [_own_row(value, None) if _is_sparks(value) else value for value in row]
    names = getattr(row, "__fields__", None)
    return tuple(values) if names is None else _row(list(names), values, declared)
