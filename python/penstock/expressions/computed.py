"""Expressions as functions of operators."""

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

#: The attribute of a function that holds its expression.
_ATTRIBUTE = "__penstock_expression__"


class ComputedFunction:
    """A checked expression that can be called like a function.

    It travels to the workers as an expression.

    Attributes:
        node: The expression.
        arguments: The number of arguments.
        type: The type of the results; None if it is unknown.
        location: File and line of the user's program that passed it to an operator.
    """

    def __init__(
        self,
        node: Node,
        arguments: int,
        type_info: TypeInformation | None = None,
        location: tuple[str, int] | None = None,
    ) -> None:
        """Wrap a checked expression."""
        self.node = node
        self.arguments = arguments
        self.type = type_info
        self.location = location

    @cached_property
    def function(self) -> FunctionType:
        """The equivalent Python function."""
        function = function_of(self.node, self.arguments, self.location)
        setattr(function, _ATTRIBUTE, self)
        return function

    def __call__(self, *arguments: Any) -> Any:
        """Return the value for these arguments."""
        return self.function(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the expression without its function."""
        return ComputedFunction, (self.node, self.arguments, self.type, self.location)

    def __repr__(self) -> str:
        return str(self.node)


def computed_by(function: Any) -> ComputedFunction | None:
    """Return the expression that a function computes; None for a user's function."""
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
        types: The types of the function's arguments.
        wanted: The required kind of result, as ``checking`` names them.
        also: Other accepted kinds.

    Raises:
        InvalidProgramError: The expression cannot be computed from records of these types, or its
            result has another kind.
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
    """Return the type of a function's results: the declared one, else that of its expression."""
    if declared is None and isinstance(function, ComputedFunction):
        return function.type
    return declared


def with_computed_timestamps(strategy: Any, element: TypeInformation | None) -> Any:
    """Return a watermark strategy whose timestamps may come from an expression.

    Args:
        strategy: The program's own copy of the strategy.
        element: The type of the records; None if it is unknown.

    Raises:
        InvalidProgramError: The results of the expression are not timestamps.
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
