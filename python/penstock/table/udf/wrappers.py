"""udf, udtf, udaf and udtaf: Python functions for expressions and SQL.

Each creates a wrapper with the function's properties for planning and execution; ``call`` and
``create_temporary_function`` accept wrappers.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.table.types import DataType, DataTypes, ListViewType, MapType, MapViewType, RowType
from penstock.table.udf.user_functions import (
    AggregateFunction,
    AsyncScalarFunction,
    ImperativeAggregateFunction,
    TableAggregateFunction,
    UserDefinedFunction,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.table.expression.expression import Expression


_KINDS = ("general", "pandas")


class UserDefinedFunctionWrapper:
    """A Python function with its types.

    Attributes:
        kind: SCALAR, ASYNC_SCALAR, TABLE, AGGREGATE or TABLE_AGGREGATE.
        name: The name in plans.
        func_type: ``general``, called by row, or ``pandas``, called with Series.
        is_deterministic: Whether equal arguments always have equal results.
        takes_row: Whether the function is called with a whole row as its single argument.
        alias_names: The names of the result columns; empty to use the type's names.
    """

    kind: ClassVar[str] = ""

    def __init__(
        self,
        func: Any,
        input_types: Any = None,
        func_type: str = "general",
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> None:
        is_function = isinstance(func, UserDefinedFunction) or callable(func)
        if inspect.isclass(func) or not is_function:
            raise TypeError(f"Expected a function or an instance of a function class, got {func!r}")
        if func_type not in _KINDS:
            raise ValueError(f"func_type must be one of {', '.join(_KINDS)}, got {func_type!r}")
        own = func.is_deterministic() if isinstance(func, UserDefinedFunction) else None
        if own is not None and deterministic is not None and own != deterministic:
            raise ValueError(
                f"deterministic is {deterministic}, and the function's is_deterministic() says "
                f"{own}"
            )
        given = deterministic if deterministic is not None else own
        self.is_deterministic = True if given is None else given
        self.func_type = func_type
        self.name = str(name or getattr(func, "__name__", type(func).__name__))
        self.takes_row = False
        self.alias_names: tuple[str, ...] = ()
        self._func = func
        self._input_types = None if input_types is None else _type_list(input_types, "input_types")

    @property
    def function(self) -> Any:
        """The user's function or instance."""
        return self._func

    @property
    def _name(self) -> str:
        return str(self.name)

    @functools.cached_property
    def input_types(self) -> list[DataType] | None:
        """The declared types of the arguments, or None."""
        if self._input_types is None:
            return None
        return [parsed_type(given) for given in self._input_types]

    @property
    def call(self) -> Callable[..., Any]:
        """The callable that computes the result: the function, or the instance's ``eval``."""
        method = getattr(self._func, "eval", None)
        made: Callable[..., Any] = self._func if method is None else method
        return made

    def __call__(self, *args: Any) -> Expression[Any]:
        """Return the call of the function as an expression."""
        from penstock.table.expressions import call

        return call(self, *args)

    def check(self, result: object, kind: DataType) -> None:
        """Check that a result is not None if its type is NOT NULL.

        Raises:
            TypeError: It is None.
        """
        if result is None and not kind.is_nullable:
            raise TypeError(
                f"the function {self.name} returned None, but its result has the type {kind}: "
                "return a value, or declare a type that may be NULL"
            )

    def alias(self, *alias_names: str) -> UserDefinedFunctionWrapper:
        """Name the columns of the results, for ``map``, ``flat_map`` and ``aggregate``."""
        self.alias_names = alias_names
        return self

    def taking_row(self) -> UserDefinedFunctionWrapper:
        """Pass whole rows to the function as its single argument; return the wrapper."""
        self.takes_row = True
        return self

    def __str__(self) -> str:
        return str(self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class UserDefinedScalarFunctionWrapper(UserDefinedFunctionWrapper):
    """A scalar function with the type of its result."""

    kind = "SCALAR"

    def __init__(
        self,
        func: Any,
        input_types: Any,
        result_type: Any,
        func_type: str,
        deterministic: bool | None,
        name: str | None,
    ) -> None:
        super().__init__(func, input_types, func_type, deterministic, name)
        self._result_type = _checked_type(result_type, "result_type")

    @functools.cached_property
    def result_type(self) -> DataType:
        """The type of the results."""
        return parsed_type(self._result_type)


class UserDefinedAsyncScalarFunctionWrapper(UserDefinedScalarFunctionWrapper):
    """An asynchronous scalar function."""

    kind = "ASYNC_SCALAR"


class UserDefinedTableFunctionWrapper(UserDefinedFunctionWrapper):
    """A table function with the types of its columns."""

    kind = "TABLE"

    def __init__(
        self,
        func: Any,
        input_types: Any,
        result_types: Any,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(func, input_types, "general", deterministic, name)
        if isinstance(result_types, RowType):
            self._names: list[str] | None = result_types.field_names()
        else:
            self._names = None
        self._result_types = _type_list(result_types, "result_types")

    @functools.cached_property
    def result_row(self) -> RowType:
        """The type of the rows, with the fields' own names, or f0, f1, and so on."""
        data_types = [parsed_type(given) for given in self._result_types]
        if len(data_types) == 1 and isinstance(data_types[0], RowType) and self._names is None:
            return data_types[0]
        names = self._names or [f"f{i}" for i in range(len(data_types))]
        fields = zip(names, data_types, strict=True)
        return DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in fields])


class UserDefinedAggregateFunctionWrapper(UserDefinedFunctionWrapper):
    """An aggregate function with the types of its result and its accumulator."""

    def __init__(
        self,
        func: Any,
        input_types: Any,
        result_type: Any,
        accumulator_type: Any,
        func_type: str,
        deterministic: bool | None,
        name: str | None,
        is_table_aggregate: bool = False,
    ) -> None:
        super().__init__(func, input_types, func_type, deterministic, name)
        self.is_table_aggregate = is_table_aggregate
        wanted = TableAggregateFunction if is_table_aggregate else AggregateFunction
        if func_type == "general" and not isinstance(func, wanted):
            raise TypeError(f"Expected an instance of {wanted.__name__}, got {func!r}")
        if result_type is None and isinstance(func, ImperativeAggregateFunction):
            result_type = func.get_result_type()
        if accumulator_type is None and func_type == "general":
            accumulator_type = func.get_accumulator_type()
        self._result_type = _checked_type(result_type, "result_type")
        if func_type == "pandas" and isinstance(result_type, MapType):
            raise TypeError("A pandas aggregate function cannot have a MAP as its result")
        self._accumulator_type = accumulator_type
        if accumulator_type is not None:
            _checked_type(accumulator_type, "accumulator_type")

    @property
    def kind(self) -> str:  # type: ignore[override] # by instance
        """AGGREGATE or TABLE_AGGREGATE."""
        return "TABLE_AGGREGATE" if self.is_table_aggregate else "AGGREGATE"

    @functools.cached_property
    def result_type(self) -> DataType:
        """The type of the results."""
        return parsed_type(self._result_type)

    @functools.cached_property
    def accumulator_type(self) -> DataType | None:
        """The type of the accumulators; None for pandas functions."""
        given = self._accumulator_type
        return None if given is None else parsed_type(given)


def parsed_type(given: DataType | str) -> DataType:
    """Return a type, given as an object or as SQL text.

    Raises:
        SqlParserException: The text is not a type.
    """
    if isinstance(given, (DataType, ListViewType, MapViewType)):
        return given
    from penstock.table.sql.parsing import parse_type

    return parse_type(given)


def _checked_type(given: Any, what: str) -> DataType | str:
    if not isinstance(given, (DataType, str)):
        raise TypeError(f"{what} must be a DataType or its text in SQL, got {given!r}")
    return given


def _type_list(given: Any, what: str) -> list[DataType | str]:
    if isinstance(given, RowType):
        return list(given.field_types())
    if isinstance(given, (DataType, str)):
        return [given]
    if given is None:
        raise TypeError(f"{what} must be given: a DataType, its text in SQL, or a list of them")
    return [_checked_type(each, what) for each in given]


def udf(
    f: Any = None,
    input_types: Sequence[DataType] | DataType | str | Sequence[str] | None = None,
    result_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Create a scalar function, or without ``f`` a decorator for one.

    Args:
        f: A function, a coroutine function, or an instance of ScalarFunction.
        input_types: The types of the arguments, which are checked if declared.
        result_type: The type of the results.
        deterministic: Whether equal arguments always have equal results; True by default.
        name: The name in plans; the function's own by default.
        func_type: ``general``, called by row, or ``pandas``, called with a Series for each
            argument.

    Raises:
        TypeError: ``f`` is not a function, or the result type is missing or invalid.
        ValueError: ``func_type`` is invalid.
    """
    if func_type not in _KINDS:
        raise ValueError(f"func_type must be one of {', '.join(_KINDS)}, got {func_type!r}")

    def make(function: Any) -> UserDefinedScalarFunctionWrapper:
        arguments = function, input_types, result_type, func_type, deterministic, name
        if isinstance(function, AsyncScalarFunction) or inspect.iscoroutinefunction(function):
            if func_type == "pandas":
                raise ValueError("An async function is called by row: func_type is 'general'")
            return UserDefinedAsyncScalarFunctionWrapper(*arguments)
        return UserDefinedScalarFunctionWrapper(*arguments)

    return make if f is None else make(f)


def udtf(
    f: Any = None,
    input_types: Sequence[DataType] | DataType | str | Sequence[str] | None = None,
    result_types: Iterable[DataType | str] | DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """Create a table function, or without ``f`` a decorator for one.

    Args:
        f: A function that yields or returns rows, or an instance of TableFunction.
        input_types: The types of the arguments, which are checked if declared.
        result_types: The types of the columns of its rows.
        deterministic: Whether equal arguments always have equal results; True by default.
        name: The name in plans; the function's own by default.

    Raises:
        TypeError: ``f`` is not a function, or the result types are missing or invalid.
    """

    def make(function: Any) -> UserDefinedTableFunctionWrapper:
        return UserDefinedTableFunctionWrapper(
            function, input_types, result_types, deterministic, name
        )

    return make if f is None else make(f)


def udaf(
    f: Any = None,
    input_types: Sequence[DataType] | DataType | str | Sequence[str] | None = None,
    result_type: DataType | str | None = None,
    accumulator_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Create an aggregate function, or without ``f`` a decorator for one.

    Args:
        f: An instance of AggregateFunction, or a function if ``func_type`` is ``pandas``.
        input_types: The types of the arguments, which are checked if declared.
        result_type: The type of the results; the function's own by default.
        accumulator_type: The type of the accumulators; the function's own by default.
        deterministic: Whether equal arguments always have equal results; True by default.
        name: The name in plans; the function's own by default.
        func_type: ``general``, which accumulates row by row, or ``pandas``, which is called with a
            Series for each argument.

    Raises:
        TypeError: ``f`` is not a function of that kind, or a type is missing or invalid.
        ValueError: ``func_type`` is invalid.
    """
    return _aggregate(
        f, input_types, result_type, accumulator_type, func_type, deterministic, name, False
    )


def udtaf(
    f: Any = None,
    input_types: Sequence[DataType] | DataType | str | Sequence[str] | None = None,
    result_type: DataType | str | None = None,
    accumulator_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Create a table aggregate function, or without ``f`` a decorator for one.

    Args:
        f: An instance of TableAggregateFunction.
        input_types: The types of the arguments, which are checked if declared.
        result_type: The type of the rows; the function's own by default.
        accumulator_type: The type of the accumulators; the function's own by default.
        deterministic: Whether equal arguments always have equal results; True by default.
        name: The name in plans; the function's own by default.
        func_type: ``general``; there are no pandas functions of this kind.

    Raises:
        TypeError: ``f`` is not a function of that kind, or a type is missing or invalid.
        ValueError: ``func_type`` is not ``general``.
    """
    if func_type != "general":
        raise ValueError(f"func_type of a table aggregate must be 'general', got {func_type!r}")
    return _aggregate(
        f, input_types, result_type, accumulator_type, func_type, deterministic, name, True
    )


def _aggregate(
    f: Any,
    input_types: Any,
    result_type: Any,
    accumulator_type: Any,
    func_type: str,
    deterministic: bool | None,
    name: str | None,
    is_table_aggregate: bool,
) -> Any:
    if func_type not in _KINDS:
        raise ValueError(f"func_type must be one of {', '.join(_KINDS)}, got {func_type!r}")

    def make(function: Any) -> UserDefinedAggregateFunctionWrapper:
        return UserDefinedAggregateFunctionWrapper(
            function,
            input_types,
            result_type,
            accumulator_type,
            func_type,
            deterministic,
            name,
            is_table_aggregate,
        )

    return make if f is None else make(f)
