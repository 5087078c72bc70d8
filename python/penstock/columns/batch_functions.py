"""User functions over batches: conversion of their arguments and results."""

from __future__ import annotations

import inspect
import typing
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.columns.batch_schema import batch_schema, fields_of
from penstock.columns.column_batch import ColumnBatch
from penstock.common.calls.called import called_function
from penstock.common.packages.optional_library import optional_library
from penstock.errors import FormatError, InvalidProgramError, WrongArgumentError
from penstock.formats.arrow_types import arrow_library

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

Frame = Literal["arrow", "pandas", "polars"]

FRAMES: Final[tuple[Frame, ...]] = ("arrow", "pandas", "polars")

_BY_MODULE: Final[dict[str, Frame]] = {"pyarrow": "arrow", "pandas": "pandas", "polars": "polars"}


def frame_of(function: Callable[..., Any], given: str | None, where: str) -> Frame:
    """Return the frame kind of a function: the declared one, or its parameter's annotation.

    Args:
        function: The function.
        given: The declared kind; None to read the annotation.
        where: The call, for messages.

    Raises:
        WrongArgumentError: The declared kind is not one of `FRAMES`, or the parameter is annotated
            as a DataFrame of a module that penstock cannot find.
    """
    if given is not None:
        for frame in FRAMES:
            if frame == given:
                return frame
        raise WrongArgumentError(f"{where}: frame must be one of {FRAMES}, got {given!r}")
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except ValueError:  # a builtin function without a signature
        return "arrow"
    hint = _evaluated(function, parameters[0].annotation) if parameters else None
    if isinstance(hint, str) and "DataFrame" in hint:
        raise WrongArgumentError(
            f"{where}: the annotation {hint!r} cannot be evaluated, as its module is not imported "
            f"when the program runs: import it, or set frame to one of {FRAMES}"
        )
    module = getattr(hint, "__module__", "").partition(".")[0]
    return _BY_MODULE.get(module, "arrow")


def schema_of(function: Callable[..., Any], where: str) -> Any:
    """Return the schema in the return annotation of a function: ``Annotated[frame, schema]``.

    Raises:
        InvalidProgramError: There is none, or it cannot be evaluated.
    """
    try:
        hint = _evaluated(function, inspect.signature(function).return_annotation)
    except ValueError:  # a builtin function without a signature
        hint = None
    if typing.get_origin(hint) is typing.Annotated:
        return hint.__metadata__[0]
    problem = f": {hint!r} cannot be evaluated" if isinstance(hint, str) else ""
    raise InvalidProgramError(
        f"{where} needs the type of the returned rows: pass a schema, or annotate the result of "
        f"the function as Annotated[pyarrow.RecordBatch, schema]{problem}"
    )


def _evaluated(function: Callable[..., Any], hint: Any) -> Any:
    """Return an annotation; the text of one in quotes that cannot be evaluated."""
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, getattr(called_function(function), "__globals__", {}))
    except Exception:
        return hint


class BatchFunction:
    """Calls a user's function with batches, and builds batches of its results."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        frame: Frame,
        result_type: TypeInformation,
        where: str,
    ) -> None:
        """Wrap a function.

        Args:
            function: A function from a RecordBatch, or a frame, to another.
            frame: The kind of the frame.
            result_type: The type of the records in its result.
            where: The call, for messages.
        """
        self._function = function
        self._frame = frame
        self._result_type = result_type
        self._where = where
        self._result_schema = batch_schema(result_type)

    def __call__(self, batch: ColumnBatch) -> ColumnBatch:
        """Return the function's result for a batch.

        If the number of records is unchanged, they keep their timestamps; else all get the latest
        of the batch.

        Raises:
            FormatError: The result is not a table, lacks a field, or a value does not fit its type.
            Exception: That of the function, with a note that shows the batch.
        """
        try:
            result = self._function(self._shown(batch.data))
        except Exception as error:
            first = batch.data.slice(0, 1).to_pylist()
            error.add_note(
                f"The function of {self._where} was called with a batch of {len(batch)} rows"
                + (f"; the first is {first[0]!r:.500}" if first else "")
            )
            raise
        data = self._taken(result, len(batch))
        stamps = batch.timestamps if data.num_rows == len(batch) else batch.max_timestamp
        return ColumnBatch(data, self._result_type, stamps)

    def _shown(self, data: Any) -> Any:
        """Return the columns in the frame kind of the function."""
        if self._frame == "pandas":
            optional_library("pandas", "pandas", "pandas", self._where)
            return data.to_pandas()
        if self._frame == "polars":
            return optional_library("polars", "polars", "polars", self._where).from_arrow(data)
        return data

    def _taken(self, result: Any, rows: int) -> Any:
        """Return a function's result as a RecordBatch of the declared result type."""
        pa = arrow_library(self._where)
        table = _table_of(pa, result)
        if table is None:
            raise FormatError(
                f"the function of {self._where} returned {type(result).__name__} for a batch of "
                f"{rows} rows: return a pyarrow.RecordBatch, a Table, or a frame"
            )
        columns = []
        for (name, kind), field in zip(
            fields_of(self._result_type), self._result_schema, strict=True
        ):
            if name not in table.column_names:
                raise FormatError(
                    f"the function of {self._where} returned no column {name!r} for a batch of "
                    f"{rows} rows, but {table.column_names}"
                )
            try:
                column = table.column(name).cast(field.type)
            except (pa.ArrowException, ValueError) as error:
                raise FormatError(
                    f"the column {name!r} that the function of {self._where} returned for a batch "
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
