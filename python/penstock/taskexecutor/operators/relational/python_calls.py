"""Calls of user functions with columns of arguments."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.common.types import Row
from penstock.table.functions.registry import column_values
from penstock.table.plan.expressions import Expression, PythonCall, walk
from penstock.table.types import IntegralType, RowType
from penstock.table.types.arrow_types import arrow_array, python_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import pyarrow as pa

    from penstock.table.types import DataType
    from penstock.table.udf.user_functions import FunctionContext
    from penstock.table.udf.wrappers import UserDefinedFunctionWrapper
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def function_context(context: OperatorContext) -> FunctionContext:
    """Return the function context of a subtask."""
    from penstock.table.udf.user_functions import FunctionContext

    environment = context.environment
    parameters = (
        context.execution_config.get_global_job_parameters()
        if hasattr(context.execution_config, "get_global_job_parameters")
        else {}
    )
    return FunctionContext(
        context.metric_group(),
        dict(parameters or {}),
        context.name,
        environment.parallelism,
        environment.max_parallelism,
        environment.subtask,
    )


class PythonCalls:
    """The functions of one operator."""

    def __init__(self, context: OperatorContext) -> None:
        """Start without functions."""
        self._context = context
        self._functions: list[Any] = []

    def register(self, expressions: Sequence[Expression]) -> None:
        """Note the functions that expressions call."""
        for expression in expressions:
            for part in walk(expression):
                if isinstance(part, PythonCall):
                    self.register_function(part.function)

    def register_function(self, wrapper: UserDefinedFunctionWrapper) -> None:
        """Note a function, which is opened and closed once."""
        if not any(wrapper.function is known.function for known in self._functions):
            self._functions.append(wrapper)

    def open(self) -> None:
        """Open the functions."""
        for wrapper in self._functions:
            if hasattr(wrapper.function, "open"):
                wrapper.function.open(function_context(self._context))

    def close(self) -> None:
        """Close the functions."""
        for wrapper in self._functions:
            if hasattr(wrapper.function, "close"):
                wrapper.function.close()

    def call(self, expression: PythonCall, arguments: list[object], rows: int) -> pa.Array:
        """Return the results of a call for columns of arguments.

        Raises:
            TypeError: A result is None, although its type is NOT NULL.
        """
        found = self._results(expression, arguments, rows)
        if found.null_count:
            expression.function.check(None, expression.type)
        return found

    def _results(self, expression: PythonCall, arguments: list[object], rows: int) -> pa.Array:
        wrapper = expression.function
        kinds = [a.type for a in expression.arguments]
        if wrapper.func_type == "pandas":
            return self._pandas(expression, arguments, rows)
        columns = [
            _values(argument, kind, rows) for argument, kind in zip(arguments, kinds, strict=True)
        ]
        function = wrapper.call
        if columns:
            results = [function(*values) for values in zip(*columns, strict=True)]
        else:
            results = [function() for _ in range(rows)]
        if wrapper.kind == "ASYNC_SCALAR":
            results = asyncio.run(_gathered(results))
        if isinstance(expression.type, RowType):
            _check_rows(results, expression.name)
        return arrow_array(results, expression.type)

    @staticmethod
    def _pandas(expression: PythonCall, arguments: list[object], rows: int) -> pa.Array:
        import pandas as pd
        import pyarrow as pa

        given = [a.as_py() if isinstance(a, pa.Scalar) else pandas_column(a) for a in arguments]
        result = expression.function.call(*given)
        if not isinstance(result, pd.Series | pd.DataFrame):
            raise TypeError(
                f"the pandas function {expression.name} returned a {type(result).__name__}: it "
                "must return a Series"
            )
        if len(result) != rows:
            raise ValueError(
                f"the pandas function {expression.name} returned {len(result)} values for {rows} "
                "rows"
            )
        return _array_of_pandas(result, expression.type, expression.name)


def _array_of_pandas(result: pd.Series | pd.DataFrame, kind: DataType, name: str) -> pa.Array:
    """Return the Arrow array of a Series, or of a DataFrame whose columns are a row's fields.

    NaN is NULL, as in PyFlink.

    Raises:
        ValueError: A DataFrame has another number of columns than the row has fields, or a value
            does not fit the type.
    """
    import pandas as pd
    import pyarrow as pa

    from penstock.table.types.arrow_types import arrow_type

    if isinstance(result, pd.DataFrame) and isinstance(kind, RowType):
        if len(result.columns) != len(kind):
            raise ValueError(
                f"the pandas function {name} returned {len(result.columns)} columns for the "
                f"{len(kind)} fields of {kind}"
            )
        columns = [
            _array_of_pandas(result.iloc[:, place], field.data_type, name)
            for place, field in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(arrow_type(kind)))
    try:
        return pa.Array.from_pandas(result, type=arrow_type(kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        if pd.api.types.is_float_dtype(result.dtype) and isinstance(kind, IntegralType):
            # pa.array() of a list would cut off the fractions.
            raise ValueError(
                f"the pandas function {name} returned a value that does not fit the type {kind}: "
                f"{error}"
            ) from error
        return arrow_array([None if v is pd.NA or v is pd.NaT else v for v in result], kind)


def pandas_column(column: pa.Array) -> pd.Series | pd.DataFrame:
    """Return a column as a Series; a column of rows as a DataFrame of their fields."""
    import pyarrow as pa

    if not pa.types.is_struct(column.type):
        return column.to_pandas()
    return pa.Table.from_arrays(column.flatten(), names=[f.name for f in column.type]).to_pandas()


def value_of_pandas(value: Any, kind: DataType) -> Any:
    """Return the result of a pandas aggregate; NaN, NaT and NA are NULL, as in PyFlink."""
    import pandas as pd

    if isinstance(kind, RowType) and isinstance(value, Row):
        fields = [value_of_pandas(v, k) for v, k in zip(value, kind.field_types(), strict=True)]
        return Row(*fields)
    return None if pd.api.types.is_scalar(value) and pd.isna(value) else value


def _check_rows(results: list[object], name: str) -> None:
    """Check that a function with a ROW result returned Rows, as PyFlink requires.

    Raises:
        TypeError: A result is something else.
    """
    for result in results:
        if result is not None and not isinstance(result, Row):
            raise TypeError(
                f"the function {name} returned {result!r:.200}: its result type is a ROW, so it "
                "must return a Row"
            )


async def _gathered(calls: list[Any]) -> list[object]:
    return list(await asyncio.gather(*calls))


def _values(argument: object, kind: DataType, rows: int) -> list[object]:
    import pyarrow as pa

    if isinstance(argument, pa.Scalar):
        return column_values(argument, rows)
    return python_values(argument, kind, named_rows=True)
