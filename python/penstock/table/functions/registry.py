"""The table of scalar functions: name, argument types, result type, kernel.

A kernel receives the arguments as Arrow arrays or scalars, the number of rows and the call, and
returns an array or a scalar of the call's type.  For functions that Arrow lacks, `rowwise` creates
a kernel from a Python function of non-NULL values.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.missing import MISSING
from penstock.table.plan.expressions import Call, Cast, Expression, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.table.types import DataType

Kernel = "Callable[[list[Any], int, Call], Any]"

#: The accepted arguments, by the word in a signature.
_FAMILIES: Final[dict[str, Callable[[Any], bool]]] = {
    "any": lambda _: True,
    "text": rules.is_text,
    "bytes": rules.is_bytes,
    "textual": lambda t: rules.is_text(t) or rules.is_bytes(t),
    "bool": lambda t: isinstance(t, types.BooleanType),
    "int": rules.is_integer,
    "num": rules.is_numeric,
    "double": rules.is_numeric,
    "exact": lambda t: rules.is_integer(t) or isinstance(t, types.DecimalType),
    "date": lambda t: isinstance(t, types.DateType),
    "time": rules.is_temporal,
    "timestamp": rules.is_timestamp,
    "array": lambda t: isinstance(t, types.ArrayType) and not isinstance(t, types.MultisetType),
    "map": lambda t: isinstance(t, types.MapType),
    "collection": lambda t: isinstance(t, types.ArrayType | types.MapType),
}
#: Families whose arguments are cast to a single type.
_TARGETS: Final[dict[str, Callable[[bool], DataType]]] = {"double": types.DoubleType}


@dataclass(frozen=True)
class Function:
    """One function of the table.

    Attributes:
        name: The name in SQL; that of a part of another function begins with a dollar sign.
        signature: A word for each argument: followed by ``?`` if it is optional, by ``*`` for any
            number of them.
        result: Computes the type of the result from the arguments and options.
        kernel: Computes the result.
        bind: Creates the expression instead; None to create a `Call`.
        is_deterministic: Whether equal arguments lead to equal results.
        expand: Returns a call as calls whose results other calls may share; None if it cannot.
    """

    name: str
    signature: str
    result: Callable[[list[Expression], tuple[Any, ...]], DataType]
    kernel: Any
    bind: Callable[[list[Expression], tuple[Any, ...]], Expression] | None = None
    is_deterministic: bool = True
    expand: Callable[[Call], Expression | None] | None = None

    def call(self, arguments: Sequence[Expression], options: tuple[Any, ...] = ()) -> Expression:
        """Return the call of the function.

        Raises:
            ValidationException: The number or the types of the arguments are wrong.
        """
        checked = self._checked(list(arguments))
        if self.bind is not None:
            return self.bind(checked, options)
        return Call(self.result(checked, options), self.name, tuple(checked), options)

    def _checked(self, arguments: list[Expression]) -> list[Expression]:
        words = self.signature.split()
        least = sum(1 for word in words if word[-1] not in "?*")
        repeats = bool(words) and words[-1].endswith("*")
        if len(arguments) < least or (not repeats and len(arguments) > len(words)):
            raise ValidationException(
                f"Invalid number of arguments to function '{self.name}': it takes "
                f"{_expected(words)}, got {len(arguments)}"
            )
        checked = []
        for position, argument in enumerate(arguments):
            word = words[min(position, len(words) - 1)].rstrip("?*")
            checked.append(self._fitted(argument, word, position))
        return checked

    def _fitted(self, argument: Expression, word: str, position: int) -> Expression:
        if word == "any":
            return argument
        if isinstance(argument.type, types.NullType):
            target = _TARGETS.get(word)
            return argument if target is None else Cast(target(True), argument, is_implicit=True)
        if not _FAMILIES[word](argument.type):
            raise ValidationException(
                f"Cannot apply '{self.name}' to an argument of type <{argument.type}>: "
                f"argument {position + 1} must be of the kind {word}"
            )
        target = _TARGETS.get(word)
        if target is not None and not isinstance(argument.type, types.DoubleType):
            return Cast(target(argument.type.is_nullable), argument, is_implicit=True)
        return argument


def _expected(words: list[str]) -> str:
    if not words:
        return "no arguments"
    return ", ".join(
        word.rstrip("?*") + (" (optional)" if word[-1] == "?" else " …" if word[-1] == "*" else "")
        for word in words
    )


_TABLE: Final[dict[str, Function]] = {}
_MODULES: Final = (
    "logic", "numbers", "texts", "times", "present_time", "time_texts", "collections",
    "json_functions", "hashes", "encodings",
)  # fmt: skip


def define(
    name: str,
    signature: str,
    result: DataType | str | Callable[[list[Expression], tuple[Any, ...]], DataType],
    kernel: Any = None,
    *,
    bind: Callable[[list[Expression], tuple[Any, ...]], Expression] | None = None,
    is_deterministic: bool = True,
    expand: Callable[[Call], Expression | None] | None = None,
) -> None:
    """Define a function, under one name or several that are separated by ``|``.

    Args:
        name: The names.
        signature: See `Function`.
        result: The type if no argument is NULL, which is nullable if an argument is; ``first``
            for the type of the first argument; or a function.
        kernel: Computes the result.
        bind: Creates another expression instead.
        is_deterministic: Whether equal arguments lead to equal results.
        expand: See `Function`.
    """
    rule = _result_rule(result)
    for each in [name] if name == "||" else name.split("|"):
        _TABLE[each] = Function(each, signature, rule, kernel, bind, is_deterministic, expand)


def _result_rule(result: Any) -> Any:
    if callable(result):
        return result
    if result == "first":
        return lambda arguments, _: arguments[0].type.with_nullability(_nullable(arguments))
    return lambda arguments, _: result.with_nullability(_nullable(arguments))


def _nullable(arguments: list[Expression]) -> bool:
    return any(a.type.is_nullable or isinstance(a.type, types.NullType) for a in arguments)


def nullable_result(data_type: DataType) -> Any:
    """Return the rule of a result that may be NULL for any arguments."""
    return lambda *_: data_type.nullable()


def table() -> dict[str, Function]:
    """Return all functions by name."""
    _load()
    return _TABLE


@cache
def _load() -> None:
    for module in _MODULES:
        import_module(f"penstock.table.functions.{module}")


def find(name: str) -> Function | None:
    """Return the function with a name, in any case; None without one."""
    return table().get(name.upper())


def nearest(name: str, others: Sequence[str] = ()) -> str:
    """Return a hint at names with a similar spelling, or at a replacement; empty without any."""
    if name.upper() in MISSING:
        return f"; penstock lacks {name.upper()}, since {MISSING[name.upper()]}"
    found = difflib.get_close_matches(name.upper(), [*table(), *others], n=1)
    return f"; did you mean {found[0]}?" if found else ""


def call(name: str, *arguments: Expression, options: tuple[Any, ...] = ()) -> Expression:
    """Return the call of a built-in function that exists."""
    return table()[name].call(arguments, options)


def literal_value(argument: Expression) -> Any:
    """Return the value of a literal, even under an implicit cast; otherwise None."""
    while isinstance(argument, Cast) and argument.is_implicit:
        argument = argument.argument
    return argument.value if isinstance(argument, Literal) else None


def column_values(value: Any, rows: int, kind: DataType | None = None) -> list[Any]:
    """Return the Python values of an argument; nested ones as ``collect()`` returns them."""
    import pyarrow as pa

    is_nested = isinstance(kind, types.ArrayType | types.MapType | types.RowType)
    if isinstance(value, pa.Scalar):
        if not is_nested:
            return [value.as_py()] * rows
        value = pa.array([value.as_py()], value.type)
        return column_values(value, 1, kind) * rows
    if is_nested:
        from penstock.table.types.arrow_types import python_values

        assert kind is not None
        return python_values(value, kind)
    found: list[Any] = value.to_pylist()
    return found


#: The most values that a sample of a column has.
_SAMPLE: Final = 512

#: The calls of a function for fewer values cost no more than finding the distinct ones.
_FEW_VALUES: Final = 64


def is_repetitive(value: Any) -> bool:
    """Return whether a column has so few distinct values that each should be converted once."""
    import pyarrow as pa

    if not isinstance(value, pa.Array) or len(value) < _FEW_VALUES or not _is_hashed(value.type):
        return False
    sample = value.slice(0, _SAMPLE)
    return len(sample.unique()) * 2 <= len(sample)


class DistinctArguments(NamedTuple):
    """The arguments of a call whose only column is repetitive.

    Attributes:
        arguments: The arguments, the column with each of its values once.
        rows: The number of these values.
        places: The position of each row's value, as an Arrow array.
    """

    arguments: list[Any]
    rows: int
    places: Any


def distinct_arguments(arguments: list[Any]) -> DistinctArguments | None:
    """Return the distinct arguments of a call; None if it has no single repetitive column."""
    import pyarrow as pa

    places = [at for at, each in enumerate(arguments) if isinstance(each, pa.Array)]
    if len(places) != 1 or not is_repetitive(arguments[places[0]]):
        return None
    encoded = arguments[places[0]].dictionary_encode(null_encoding="encode")
    given = [encoded.dictionary if at in places else a for at, a in enumerate(arguments)]
    return DistinctArguments(given, len(encoded.dictionary), encoded.indices)


def _is_hashed(kind: Any) -> bool:
    """Return whether Arrow finds the distinct values of a type that are not distinct to Python."""
    import pyarrow as pa

    return not pa.types.is_nested(kind) and not pa.types.is_floating(kind)


def rowwise(
    function: Callable[..., Any], *, takes_nulls: bool = False, options: bool = False
) -> Any:
    """Return the kernel that calls a Python function for each row.

    Args:
        function: Called with the values of a row; None represents NULL.
        takes_nulls: Whether it is called for rows with a NULL, whose result is NULL otherwise.
        options: Whether it also receives the options of the call, as last arguments.
    """

    def kernel(arguments: list[Any], rows: int, expression: Call) -> Any:
        from penstock.table.types.arrow_types import arrow_array

        more = expression.options if options else ()
        if not arguments:
            return arrow_array([function(*more) for _ in range(rows)], expression.type)
        distinct = distinct_arguments(arguments)
        if distinct is not None and _is_function(expression):
            return kernel(distinct.arguments, distinct.rows, expression).take(distinct.places)
        columns = [
            column_values(argument, rows, part.type)
            for argument, part in zip(arguments, expression.arguments, strict=True)
        ]
        if takes_nulls:
            results = [function(*row, *more) for row in zip(*columns, strict=True)]
        else:
            results = [
                None if None in row else function(*row, *more) for row in zip(*columns, strict=True)
            ]
        return arrow_array(results, expression.type)

    return kernel


def _is_function(call: Call) -> bool:
    """Return whether equal arguments of a call lead to equal results."""
    return _TABLE[call.function].is_deterministic
