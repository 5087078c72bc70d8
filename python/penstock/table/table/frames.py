"""Conversions between pandas frames and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.connectors.batches import has_kinds, kinds_of
from penstock.table.plan.nodes import ADDED, INSERT
from penstock.table.types import DataType, RawType, RowField, RowType
from penstock.table.types.arrow_types import (
    arrow_schema,
    arrow_type,
    data_type_of_arrow,
    python_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    import pyarrow as pa


def batches_of_frame(
    frame: pd.DataFrame, schema: RowType | Sequence[str | DataType] | None
) -> tuple[RowType, list[pa.RecordBatch]]:
    """Return the row type of a frame, and its rows.

    Args:
        frame: The frame.
        schema: The type of the rows, the names of the columns, or their types; the frame's own
            by default.

    Raises:
        TypeError: The argument is not a frame, or SQL has no type for a column.
        ValueError: The numbers of names or types and of columns differ.
    """
    import pandas
    import pyarrow as pa

    if not isinstance(frame, pandas.DataFrame):
        raise TypeError(f"Expected a pandas.DataFrame, got {type(frame).__name__}")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    names = [str(name) for name in table.column_names]
    kinds = [data_type_of_arrow(column.type) for column in table.columns]
    if isinstance(schema, RowType):
        names, kinds = schema.field_names(), schema.field_types()
    elif schema is not None:
        given = list(schema)
        if len(given) != len(names):
            raise ValueError(f"The schema has {len(given)} columns, the frame has {len(names)}")
        if all(isinstance(each, str) for each in given):
            names = [str(each) for each in given]
        else:
            kinds = [each for each in given if isinstance(each, DataType)]
    if len(names) != table.num_columns or len(kinds) != len(names):
        raise ValueError(f"The schema has {len(names)} columns, the frame has {table.num_columns}")
    row_type = RowType([RowField(n, k) for n, k in zip(names, kinds, strict=True)])
    columns = [
        column.cast(arrow_type(kind), safe=False) if column.type != arrow_type(kind) else column
        for column, kind in zip(table.columns, kinds, strict=True)
    ]
    made = pa.Table.from_arrays(columns, names=names)
    return row_type, made.combine_chunks().to_batches()


def frame_of(row_type: RowType, batches: Iterable[pa.RecordBatch]) -> pd.DataFrame:
    """Return the final rows of a query's result as a frame."""
    import pyarrow as pa

    schema = arrow_schema(row_type)
    plain = [_plain(batch, schema) for batch in batches]
    made = pa.Table.from_batches([batch for batch, _ in plain], schema)
    kinds = [kind for _, found in plain for kind in found]
    if any(kind != INSERT for kind in kinds):
        made = made.take(pa.array(_remaining(made, kinds), pa.int64()))
    frame = made.to_pandas(date_as_object=True)
    for i, field in enumerate(row_type):
        if isinstance(field.data_type, RawType):
            frame.isetitem(i, python_values(made.column(i), field.data_type))
    return frame


def _plain(batch: Any, schema: Any) -> tuple[Any, list[int]]:
    """Return a batch without its row kinds, and the row kinds."""
    import pyarrow as pa

    kinds = kinds_of(batch)
    columns = batch.columns[:-1] if has_kinds(batch) else batch.columns
    return pa.RecordBatch.from_arrays(list(columns), schema=schema), kinds


def _remaining(table: Any, kinds: Sequence[int]) -> list[int]:
    """Return the positions of the rows that remain after all changes."""
    columns = [column.to_pylist() for column in table.columns]
    places: dict[str, list[int]] = {}
    for position, kind in enumerate(kinds):
        key = repr([column[position] for column in columns])
        if kind in ADDED:
            places.setdefault(key, []).append(position)
        elif places.get(key):
            places[key].pop()
    return sorted(position for found in places.values() for position in found)
