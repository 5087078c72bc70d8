"""Choice of the accumulator of a call, of a built-in or a user's function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.exceptions import TableException
from penstock.table.functions.accumulators import (
    Accumulator,
    ArrayAggregate,
    Average,
    Collected,
    Count,
    Distinct,
    Extreme,
    FirstOrLast,
    JsonArrayAggregate,
    JsonObjectAggregate,
    ListAggregate,
    Percentile,
    RetractableExtreme,
    RetractableFirstOrLast,
    SingleValue,
    Sum,
)
from penstock.table.functions.type_rules import is_integer
from penstock.table.functions.variances import SteppedVariance, Variance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.expressions import AggregateCall, Expression


class PythonAggregate(Accumulator):
    """A user's AggregateFunction."""

    skips_null = False

    def __init__(self, wrapper: Any) -> None:
        """Wrap the wrapper that ``udaf`` created."""
        self._wrapper = wrapper
        self._function = wrapper.function

    def create(self) -> Any:
        """Return the function's empty accumulator."""
        return self._function.create_accumulator()

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Let the function accumulate a row."""
        self._function.accumulate(accumulator, *values)
        return accumulator

    def retract(self, accumulator: Any, *values: Any) -> Any:
        """Let the function retract a row."""
        self._function.retract(accumulator, *values)
        return accumulator

    def merge(self, accumulator: Any, other: Any) -> Any:
        """Let the function merge accumulators."""
        self._function.merge(accumulator, [other])
        return accumulator

    def result(self, accumulator: Any) -> Any:
        """Return the function's value."""
        value = self._function.get_value(accumulator)
        self._wrapper.check(value, self._wrapper.result_type)
        return value


class PandasAggregate(Accumulator):
    """A user's pandas function, called with all rows of a group at its end."""

    skips_null = False

    def __init__(self, wrapper: Any, arguments: Sequence[Expression]) -> None:
        """Wrap the wrapper that ``udaf`` created."""
        self._wrapper = wrapper
        self._types = [argument.type for argument in arguments]

    def create(self) -> list[Any]:
        """Return an empty list."""
        return []

    def add(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Append the arguments of a row."""
        accumulator.append(values)
        return accumulator

    def retract(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Remove the arguments of a row."""
        accumulator.remove(values)
        return accumulator

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        """Return the rows of both."""
        return [*accumulator, *other]

    def result(self, accumulator: list[Any]) -> Any:
        """Call the function with a Series, or a DataFrame of rows, for each argument."""
        from penstock.table.types.arrow_types import arrow_array
        from penstock.taskexecutor.operators.relational.python_calls import (
            pandas_column,
            value_of_pandas,
        )

        columns = [
            pandas_column(arrow_array([row[i] for row in accumulator], kind))
            for i, kind in enumerate(self._types)
        ]
        function = self._wrapper.function
        if hasattr(function, "create_accumulator"):
            made = function.create_accumulator()
            function.accumulate(made, *columns)
            value = function.get_value(made)
        else:
            value = function(*columns)
        value = value_of_pandas(value, self._wrapper.result_type)
        self._wrapper.check(value, self._wrapper.result_type)
        return value


def accumulator(call: AggregateCall, *, may_retract: bool, is_over: bool = False) -> Accumulator:
    """Return the accumulator of a call.

    Args:
        call: The call.
        may_retract: Whether rows may be retracted.
        is_over: Whether the call is one of OVER.

    Raises:
        TableException: The function cannot be used here.
    """
    made = plain_accumulator(call, may_retract=may_retract, is_over=is_over)
    return Distinct(made) if counts_distinct(call) else made


def counts_distinct(call: AggregateCall) -> bool:
    """Return whether a call aggregates equal arguments once, and needs to know those before."""
    if call.function == "APPROX_COUNT_DISTINCT":
        return True
    return bool(call.is_distinct) and call.function not in ("MIN", "MAX")


def plain_accumulator(
    call: AggregateCall, *, may_retract: bool, is_over: bool = False
) -> Accumulator:
    """Return the accumulator of a call as if all arguments differed; see `accumulator`."""
    name, kind = call.function, call.type
    if not isinstance(name, str):
        if name.func_type == "pandas":
            return PandasAggregate(name, call.arguments)
        return PythonAggregate(name)
    match name:
        case "COUNT" | "APPROX_COUNT_DISTINCT":
            return Count()
        case "PERCENTILE":
            return Percentile()
        case "SUM":
            return Sum(kind)
        case "$SUM0":
            return Sum(kind, is_zero_without_rows=True)
        case "AVG":
            return Average(kind)
        case "MIN" | "MAX":
            is_max = name == "MAX"
            return RetractableExtreme(is_max) if may_retract else Extreme(is_max)
        case "STDDEV_POP" | "STDDEV_SAMP" | "VAR_POP" | "VAR_SAMP":
            variance = SteppedVariance if is_over and is_integer(kind) else Variance
            return variance(
                kind, is_sample=name.endswith("SAMP"), is_root=name.startswith("STDDEV")
            )
        case "SINGLE_VALUE":
            return SingleValue()
        case "COLLECT":
            return Collected()
        case "ARRAY_AGG":
            return ArrayAggregate()
        case "LISTAGG":
            return ListAggregate(call.options[0] if call.options else ",")
        case "FIRST_VALUE" | "LAST_VALUE":
            is_last = name == "LAST_VALUE"
            return RetractableFirstOrLast(is_last) if may_retract else FirstOrLast(is_last)
        case "JSON_ARRAYAGG":
            return JsonArrayAggregate(keeps_null=call.options == ("NULL",))
        case "JSON_OBJECTAGG":
            return JsonObjectAggregate(keeps_null=call.options != ("ABSENT",))
    raise TableException(f"{name} needs OVER")
