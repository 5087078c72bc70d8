"""User functions over batches: conversion of their arguments and results."""

from __future__ import annotations

import inspect
import typing
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.columns.batch_schema import batch_schema, fields_of
from penstock.columns.column_batch import ColumnBatch
from penstock.common.packages.optional_library import optional_library
from penstock.errors import FormatError, WrongArgumentError
from penstock.formats.arrow_types import arrow_library

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

Frame = Literal["arrow", "pandas", "polars"]

FRAMES: Final[tuple[Frame, ...]] = ("arrow", "pandas", "polars")

_BY_MODULE: Final[dict[str, Frame]] = {"pyarrow": "arrow", "pandas": "pandas", "polars": "polars"}


def frame_of(function: Callable[..., Any], given: str | None) -> Frame:
    """Return the frame kind of a function: the declared one, or its parameter's annotation.

    Raises:
        WrongArgumentError: The declared kind is not one of `FRAMES`.
    """
    if given is not None:
        for frame in FRAMES:
            if frame == given:
                return frame
        raise WrongArgumentError(f"map_batches: frame must be one of {FRAMES}, got {given!r}")
    try:
        hints = typing.get_type_hints(function)
    except Exception:
        # Ignore an annotation that only a type checker can resolve.
        hints = {}
    parameters = list(inspect.signature(function).parameters)
    hint = hints.get(parameters[0]) if parameters else None
    module = getattr(hint, "__module__", "").partition(".")[0]
    return _BY_MODULE.get(module, "arrow")


class BatchFunction:
    """Calls a user's function with batches, and builds batches of its results."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        frame: Frame,
        declared: TypeInformation,
        result_type: TypeInformation,
    ) -> None:
        """Wrap a function.

        Args:
            function: A function from a RecordBatch, or a frame, to another.
            frame: The kind of the frame.
            declared: The type of the records in its argument.
            result_type: The type of the records in its result.
        """
        self._function = function
        self._frame = frame
        self.declared = declared
        self.schema = batch_schema(declared)
        self._result_type = result_type
        self._result_schema = batch_schema(result_type)

    def __call__(self, batch: ColumnBatch) -> ColumnBatch:
        """Return the function's result for a batch.

        If the number of records is unchanged, they keep their timestamps; else all get the latest
        of the batch.

        Raises:
            FormatError: The result is not a table, lacks a field, or a value does not fit its type.
        """
        result = self._function(self._shown(batch.data))
        data = self._taken(result, len(batch))
        stamps = batch.timestamps if data.num_rows == len(batch) else batch.max_timestamp
        return ColumnBatch(data, self._result_type, stamps)

    def _shown(self, data: Any) -> Any:
        """Return the columns in the frame kind of the function."""
        if self._frame == "pandas":
            optional_library("pandas", "pandas", "pandas", "map_batches")
            return data.to_pandas()
        if self._frame == "polars":
            return optional_library("polars", "polars", "polars", "map_batches").from_arrow(data)
        return data

    def _taken(self, result: Any, rows: int) -> Any:
        """Return a function's result as a RecordBatch of the declared result type."""
        pa = arrow_library("map_batches")
        table = _table_of(pa, result)
        if table is None:
            raise FormatError(
                f"the function of map_batches returned {type(result).__name__} for a batch of "
                f"{rows} rows: return a pyarrow.RecordBatch, a Table, or a frame"
            )
        columns = []
        for (name, kind), field in zip(
            fields_of(self._result_type), self._result_schema, strict=True
        ):
            if name not in table.column_names:
                raise FormatError(
                    f"the function of map_batches returned no column {name!r} for a batch of "
                    f"{rows} rows, but {table.column_names}"
                )
            try:
                column = table.column(name).cast(field.type)
            except (pa.ArrowException, ValueError) as error:
                raise FormatError(
                    f"the column {name!r} that the function of map_batches returned for a batch "
                    f"of {rows} rows does not fit {kind!r}: {error}"
                ) from None
            columns.append(column.combine_chunks())
        arrays = [_one(pa, column) for column in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._result_schema)


def _one(pa: Any, column: Any) -> Any:
    """Return the one array of a column; ``combine_chunks`` keeps it chunked in old versions."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _table_of(pa: Any, result: Any) -> Any:
    """Return a result as a Table; None if it cannot be one."""
    if isinstance(result, pa.Table):
        return result
    if isinstance(result, pa.RecordBatch):
        return pa.Table.from_batches([result])
    module = type(result).__module__.partition(".")[0]
    if module == "pandas" and hasattr(result, "columns"):
        return pa.Table.from_pandas(result, preserve_index=False)
    if hasattr(result, "__arrow_c_stream__"):
        return pa.table(result)
    return None
