"""Python functions: PyFlink's ``udf``, and the base classes of functions."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.table.udf.user_functions import (
        AggregateFunction,
        AsyncScalarFunction,
        FunctionContext,
        ImperativeAggregateFunction,
        ScalarFunction,
        TableAggregateFunction,
        TableFunction,
        UserDefinedFunction,
    )
    from penstock.table.udf.wrappers import (
        UserDefinedAggregateFunctionWrapper,
        UserDefinedAsyncScalarFunctionWrapper,
        UserDefinedFunctionWrapper,
        UserDefinedScalarFunctionWrapper,
        UserDefinedTableFunctionWrapper,
        udaf,
        udf,
        udtaf,
        udtf,
    )

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "ImperativeAggregateFunction",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "UserDefinedAggregateFunctionWrapper",
    "UserDefinedAsyncScalarFunctionWrapper",
    "UserDefinedFunction",
    "UserDefinedFunctionWrapper",
    "UserDefinedScalarFunctionWrapper",
    "UserDefinedTableFunctionWrapper",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AggregateFunction": "user_functions",
        "AsyncScalarFunction": "user_functions",
        "FunctionContext": "user_functions",
        "ImperativeAggregateFunction": "user_functions",
        "ScalarFunction": "user_functions",
        "TableAggregateFunction": "user_functions",
        "TableFunction": "user_functions",
        "UserDefinedFunction": "user_functions",
        "UserDefinedAggregateFunctionWrapper": "wrappers",
        "UserDefinedAsyncScalarFunctionWrapper": "wrappers",
        "UserDefinedFunctionWrapper": "wrappers",
        "UserDefinedScalarFunctionWrapper": "wrappers",
        "UserDefinedTableFunctionWrapper": "wrappers",
        "udaf": "wrappers",
        "udf": "wrappers",
        "udtaf": "wrappers",
        "udtf": "wrappers",
    },
)
