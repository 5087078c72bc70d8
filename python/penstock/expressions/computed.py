"""Expressions as the functions of operators."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import Types
from penstock.errors import InvalidProgramError
from penstock.expressions.checking import check, kind_of
from penstock.expressions.expression import Expression, ExpressionAssigner
from penstock.expressions.source import function_of
from penstock.user_location import user_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FunctionType

    from penstock.common.typeinfo import TypeInformation
    from penstock.expressions.nodes import Node

#: What a function of an expression knows it by.
_ATTRIBUTE = "__penstock_expression__"


class ComputedFunction:
    """A checked expression, to be called like a function.

    It travels to the workers as the expression that it is.

    Attributes:
        node: The expression.
        arguments: How many arguments it takes.
        type: The type of its results; None if it is not known.
        location: File and line of the user's program where it was given to an operator.
    """

    def __init__(
        self,
        node: Node,
        arguments: int,
        type_info: TypeInformation | None = None,
        location: tuple[str, int] | None = None,
    ) -> None:
        """Keeps an expression that has been checked."""
        self.node = node
        self.arguments = arguments
        self.type = type_info
        self.location = location

    @cached_property
    def function(self) -> FunctionType:
        """The same as a function of Python."""
        function = function_of(self.node, self.arguments, self.location)
        setattr(function, _ATTRIBUTE, self)
        return function

    def __call__(self, *arguments: Any) -> Any:
        """The value for these arguments."""
        return self.function(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the expression without its function."""
        return ComputedFunction, (self.node, self.arguments, self.type, self.location)

    def __repr__(self) -> str:
        return str(self.node)


def computed_by(function: Any) -> ComputedFunction | None:
    """The expression that a function computes; None if it is a function of the user's."""
    if isinstance(function, ComputedFunction):
        return function
    found = getattr(function, _ATTRIBUTE, None) if hasattr(function, "__code__") else None
    return found if isinstance(found, ComputedFunction) else None


def computed(
    given: Any,
    where: str,
    types: Sequence[TypeInformation | None],
    *,
    wanted: str = "any",
    also: tuple[str, ...] = (),
) -> Any:
    """Return an operator's function: an expression becomes a function of its records.

    Args:
        given: The user's argument.
        where: The call, for messages.
        types: Of the arguments that the function gets.
        wanted: The kind of result that the place needs, as ``checking`` names them.
        also: Other kinds that the place takes.

    Raises:
        InvalidProgramError: The expression cannot be computed of elements of these types, or
            gives something else than is wanted.
    """
    if not isinstance(given, Expression):
        return given
    try:
        node, found = check(given.node, types)
    except InvalidProgramError as error:
        raise InvalidProgramError(f"{where}: {error.args[0]}") from None
    if wanted != "any" and kind_of(found) not in ("any", wanted, *also):
        what = "condition" if wanted == "boolean" else wanted
        article = "an" if what[0] in "ai" else "a"
        raise InvalidProgramError(f"{where} takes {article} {what}, and {given.node} is {found}")
    return ComputedFunction(node, len(types), found, user_line())


def result_type(function: Any, declared: Any) -> Any:
    """The type of what a function gives: the declared one, else that of its expression."""
    if declared is None and isinstance(function, ComputedFunction):
        return function.type
    return declared


def with_computed_timestamps(strategy: Any, element: TypeInformation | None) -> Any:
    """A watermark strategy whose timestamps may be an expression's, for elements of a type.

    Args:
        strategy: The program's own copy of it.
        element: The type of the elements; None if it is not known.

    Raises:
        InvalidProgramError: The expression gives no timestamps.
    """
    assigner = strategy.timestamp_assigner
    if isinstance(assigner, ExpressionAssigner):
        types = [element, Types.LONG()]
        where = "with_timestamp_assigner"
        function = computed(
            assigner.expression, where, types, wanted="integer", also=("timestamp", "instant")
        )
        strategy.timestamp_assigner = ExpressionAssigner(function)
    return strategy
