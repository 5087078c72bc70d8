"""Bounded streams as tables of Arrow, pandas and Polars.

A library is imported only when one of its tables is requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.aggregates.resolution import computed_key_fields
from penstock.columns.batch_fields import BatchFields
from penstock.columns.batch_functions import Frame, frame_of, schema_of
from penstock.columns.batch_schema import batch_schema
from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.common.packages.optional_library import optional_library
from penstock.common.record_types import as_row_type
from penstock.common.typeinfo import PickledBytesTypeInfo, Types
from penstock.datastream.data_stream.collect import collect_stream
from penstock.datastream.functions.function import check_parameters
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.formats.arrow_types import arrow_library, arrow_schema, row_type_of
from penstock.graph import operators
from penstock.graph.transformations import PARALLELISM_DEFAULT, OneInputTransformation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.datastream.data_stream.settings import StreamSettings
    from penstock.datastream.environment_execution import EnvironmentExecution


def collected_table(stream: StreamSettings, schema: Any, where: str) -> Any:
    """Run the program of a stream and return its records as a ``pyarrow.Table``.

    Args:
        stream: The stream.
        schema: A row type or an Arrow schema; None for that of the declared type.
        where: The name of the call, for messages.
    """
    pa = arrow_library(where)
    environment = stream._environment
    refuse_unbounded(environment, where)
    row_type, is_single = columns_of_stream(stream, schema, where)
    as_arrow = arrow_schema(row_type)
    before = stream.transformation
    columns = OneInputTransformation(
        before,
        "Columns",
        operators.ColumnBatches(row_type, is_single),
        # No declared type: as in PyFlink, declared bytes would reach the program as lists.
        None,
        # The parallelism of the records' operator: with one subtask, records keep their order.
        environment.get_parallelism()
        if before.parallelism == PARALLELISM_DEFAULT
        else before.parallelism,
    )
    columns.has_own_parallelism = True
    environment.add_operator(columns)
    try:
        results = collect_stream(environment, columns, where)
    except BaseException:
        environment.forget_operator(columns)
        raise
    batches = []
    with results:
        for batch in results:
            batches.extend(pa.ipc.open_stream(batch))
    return pa.Table.from_batches(batches, as_arrow)


def refuse_unbounded(environment: EnvironmentExecution, where: str) -> None:
    """Reject a program that may have no end.

    Raises:
        InvalidProgramError: A source may have no end.
    """
    unbounded = environment.unbounded_sources()
    if unbounded:
        raise InvalidProgramError(
            f"{where}: the source {unbounded[0]!r} may have no end, but a table must: use "
            "execute_and_collect(limit=…), or a sink"
        )


def columns_of_stream(stream: StreamSettings, schema: Any, where: str) -> tuple[RowTypeInfo, bool]:
    """Return the row type of a stream's columns, and whether its records are single values."""
    if schema is not None:
        return row_type_of(schema, where), False
    declared: Any = as_row_type(stream._plain()._record_type())
    if isinstance(declared, RowTypeInfo):
        return declared, False
    if isinstance(declared, TupleTypeInfo):
        types = declared.get_field_types()
        return Types.ROW_NAMED([f"f{number}" for number in range(len(types))], types), False
    if declared is None or isinstance(declared, PickledBytesTypeInfo):
        raise InvalidProgramError(
            f"{where}: the records of {stream.transformation.name!r} have no declared type, so "
            "their columns are unknown: declare an output_type, or pass a schema"
        )
    return Types.ROW_NAMED(["value"], [declared]), True


def pandas_of(table: Any) -> Any:
    """Convert an Arrow table to a pandas DataFrame; values of a map type are dictionaries."""
    optional_library("pandas", "pandas", "pandas", "to_pandas")
    return table.to_pandas(maps_as_pydicts="strict")


def polars_of(table: Any) -> Any:
    """Convert an Arrow table to a Polars DataFrame."""
    return optional_library("polars", "polars", "polars", "to_polars").from_arrow(table)


def operator_of_batches(
    stream: StreamSettings,
    function: Any,
    schema: Any,
    frame: str | None,
    key_names: Sequence[str] | None,
) -> operators.MapBatches:
    """Return the operator of a function of batches; `DataStream.map_batches`.

    Raises:
        InvalidProgramError: The stream's type or the schema does not define columns.
        WrongArgumentError: The function is not callable or has other parameters, or the kind of
            frame is unknown.
    """
    where = "map_batches"
    found = batch_function(function, schema, frame, where)
    fields = batch_fields(stream, key_names, where, has_key=stream._keys()[0] is not None)
    return operators.MapBatches(
        shipped(function, where), frame=found.frame, fields=fields, result_type=found.result_type
    )


class CheckedFunction(NamedTuple):
    """The frame kind and the result type of a function of batches."""

    frame: Frame
    result_type: RowTypeInfo


def batch_function(function: Any, schema: Any, frame: str | None, where: str) -> CheckedFunction:
    """Check a function of batches when the program is built.

    Args:
        function: The function.
        schema: The declared schema; None for that of the function's annotation.
        frame: The declared kind of frame; None for that of the function's annotation.
        where: The call, for messages.

    Raises:
        InvalidProgramError: There is no schema, or it does not define columns.
        WrongArgumentError: The function is not callable or has other parameters, or the kind of
            frame is unknown.
    """
    if not callable(function):
        raise WrongArgumentError(f"{where} takes a function, got {function!r}")
    check_parameters(function, "one batch", (1,), where)
    kind = frame_of(function, frame, where)
    result_type = row_type_of(schema_of(function, where) if schema is None else schema, where)
    batch_schema(result_type)
    return CheckedFunction(kind, result_type)


def batch_fields(
    stream: StreamSettings,
    key_names: Sequence[str] | None,
    where: str,
    *,
    has_key: bool,
    has_bounds: bool = False,
) -> BatchFields:
    """Return the columns of the batches of a stream.

    Args:
        stream: The stream.
        key_names: The names of the key's fields; None for the default.
        where: The call, for messages.
        has_key: Whether the key of the stream is a column.
        has_bounds: Whether the bounds of the window are columns.

    Raises:
        InvalidProgramError: The stream has no declared type, the names of the keys do not fit, or
            Arrow has no type for a field.
    """
    declared: Any = as_row_type(stream._plain()._record_type())
    if declared is None or isinstance(declared, PickledBytesTypeInfo):
        raise InvalidProgramError(
            f"{where}: the records of {stream.transformation.name!r} have no declared type, so "
            "their columns are unknown: declare an output_type"
        )
    selector, key_type = stream._keys()
    has_fields = isinstance(declared, (RowTypeInfo, TupleTypeInfo))
    found = None
    if has_key and (has_fields or key_type is not None or key_names is not None):
        found = computed_key_fields(selector, key_type, declared, key_names, where)
    key, added = (None, ()) if found is None else found
    fields = BatchFields(declared, key, added, has_bounds)
    fields.check(where)
    return fields
