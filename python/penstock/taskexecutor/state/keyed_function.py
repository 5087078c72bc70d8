"""Sets the current key around plain functions on keyed streams that use keyed state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.checkpointed import CheckpointedFunction
from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.task.operator_context import OperatorContext


def keyed(
    context: OperatorContext, user_function: object, function: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """``function``, preceded by setting the current key where it could matter.

    Only an object with an ``open`` or ``initialize_state`` can have state, so lambdas and plain
    functions are called directly.  A result that is a generator runs under the key as well.

    Args:
        context: Of the operator.
        user_function: What the user gave.
        function: What is called for each element.
    """
    if not hasattr(user_function, "open") and not isinstance(user_function, CheckpointedFunction):
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

    Only where the function has an ``open`` that does something, or an ``initialize_state``: folds
    are called for each element.
    """
    opened = getattr(type(user_function), "open", None)
    has_state = opened not in (None, Function.open)
    keys = context.key_reader()
    if keys is None or not (has_state or isinstance(user_function, CheckpointedFunction)):
        return fold
    read = keys.read
    state = context.keyed_state

    def with_key(first: Any, second: Any) -> Any:
        state.select_key(read(second))
        return fold(first, second)

    return with_key
