"""Constructors of expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, overload

from penstock.errors import InvalidProgramError
from penstock.expressions import nodes as n
from penstock.expressions.expression import VALUE, Expression, as_node

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from penstock.common.typeinfo import TypeInformation
    from penstock.common.types import Row

    #: The values of an expression; any if nothing tells.
    OTHER = TypeVar("OTHER", default=Any)

#: The record itself: the first argument of the function.
element: Final = Expression(n.Argument(0))


def argument(index: int) -> Expression:
    """Return an argument of the function, counted from 0.

    A reduce function has two, both records; a join function a record of each side.
    """
    if type(index) is not int or index < 0:
        raise InvalidProgramError(f"the index of an argument is an integer from 0, got {index!r}")
    return Expression(n.Argument(index))


def field(key: int | str, type_info: TypeInformation[OTHER] | None = None) -> Expression[OTHER]:
    """Return a field of the record.

    Args:
        key: The name of a row's field, a position in a tuple or list, or the key of a dictionary.
            Fields of a tuple whose type is known are also called f0, f1 and so on.
        type_info: Its type, unless the stream's type implies it.
    """
    return element.field(key, type_info)


def lit(value: OTHER) -> Expression[OTHER]:
    """Return a constant: a number, text, bytes, boolean, date, time, member of an enum or None."""
    return Expression(as_node(value))


def coalesce(*values: Any) -> Expression:
    """Return the first of some values that is not None, or None."""
    if not values:
        raise InvalidProgramError("coalesce() takes at least one value")
    return Expression(n.Coalesce(tuple(map(as_node, values))))


def as_tuple(*values: Any) -> Expression[tuple[Any, ...]]:
    """Return a tuple of some values."""
    return Expression(n.Gather("tuple", tuple(map(as_node, values))))


def as_list(*values: Any) -> Expression[list[Any]]:
    """Return a list of some values."""
    return Expression(n.Gather("list", tuple(map(as_node, values))))


def as_row(**values: Any) -> Expression[Row]:
    """Return a `Row` of named values."""
    if not values:
        raise InvalidProgramError("as_row() takes at least one field")
    return Expression(n.MakeRow(tuple(values), tuple(map(as_node, values.values()))))


def least(*values: Any) -> Expression:
    """Return the least of some values, as Python's ``min``."""
    return _one_of("least", values)


def greatest(*values: Any) -> Expression:
    """Return the greatest of some values, as Python's ``max``."""
    return _one_of("greatest", values)


def when(condition: Any) -> Then[NoReturn]:
    """Start a choice: ``when(condition).then(value).otherwise(other)``."""
    return Then((), as_node(condition))


class Then(Generic[VALUE]):
    """A condition without its value, and the values of the conditions before it."""

    __slots__ = ("_branches", "_condition")

    def __init__(self, branches: tuple[tuple[n.Node, n.Node], ...], condition: n.Node) -> None:
        """Use `when`."""
        self._branches = branches
        self._condition = condition

    @overload
    def then(self, value: Expression[OTHER]) -> When[VALUE | OTHER]: ...

    @overload
    def then(self, value: OTHER) -> When[VALUE | OTHER]: ...

    def then(self, value: Any) -> When[Any]:
        """Set the value for the condition."""
        return When((*self._branches, (self._condition, as_node(value))))


class When(Expression[VALUE | None]):
    """A choice, which is None if no condition holds."""

    __slots__ = ("_branches",)

    def __init__(self, branches: tuple[tuple[n.Node, n.Node], ...]) -> None:
        """Use `when`."""
        super().__init__(n.When(branches, n.Literal(None)))
        self._branches = branches

    def when(self, condition: Any) -> Then[VALUE]:
        """Add a condition, tested if none before it holds."""
        return Then(self._branches, as_node(condition))

    @overload
    def otherwise(self, value: Expression[OTHER]) -> Expression[VALUE | OTHER]: ...

    @overload
    def otherwise(self, value: OTHER) -> Expression[VALUE | OTHER]: ...

    def otherwise(self, value: Any) -> Expression:
        """Set the value for the case that no condition holds."""
        return Expression(n.When(self._branches, as_node(value)))


def _one_of(function: str, values: tuple[Any, ...]) -> Expression:
    if len(values) < 2:
        raise InvalidProgramError(f"{function}() takes at least two values")
    return Expression(n.Call(function, tuple(map(as_node, values))))
