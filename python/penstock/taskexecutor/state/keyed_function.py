"""Sets the current key around plain functions on keyed streams that use keyed state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.task.operator_context import OperatorContext


def keyed(
    context: OperatorContext, user_function: object, function: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """``function``, preceded by setting the current key where it could matter.

    Only a Function object with an ``open`` of its own can have state, so lambdas and plain
    functions are called directly.  A result that is a generator runs under the key as well.

    Args:
        context: Of the operator.
        user_function: What the user gave.
        function: What is called for each element.
    """
    if not hasattr(user_function, "open"):
        return function
    keys = context.key_reader()
    if keys is None:
        return function
    read = keys.read
    state = context.keyed_state

    def with_key(value: Any) -> Any:
        state.select_key(read(value))
        return function(value)

    return with_key


def keyed_fold(
    context: OperatorContext, user_function: object, fold: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """The same for a function of a fold and an element, of which the second has the key.

    Only where the function has an ``open`` that does something: folds are called for each element.
    """
    opened = getattr(type(user_function), "open", None)
    keys = context.key_reader()
    if opened is None or opened is Function.open or keys is None:
        return fold
    read = keys.read
    state = context.keyed_state

    def with_key(first: Any, second: Any) -> Any:
        state.select_key(read(second))
        return fold(first, second)

    return with_key
