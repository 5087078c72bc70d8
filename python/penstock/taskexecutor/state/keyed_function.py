"""Sets the current key around plain functions on keyed streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.datastream.functions.checkpointed import CheckpointedFunction
from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def keyed(
    context: OperatorContext, user_function: object, function: Callable[[object], object]
) -> Callable[[object], object]:
    """Wrap ``function`` to set the current key first, if it may use state.

    Only an object with ``open`` or ``initialize_state`` can have state, so lambdas and plain
    functions are returned as they are.  A resulting generator runs under the key as well.

    Args:
        context: The operator's context.
        user_function: The user's function or object.
        function: The callable for each record.
    """
    if not hasattr(user_function, "open") and not isinstance(user_function, CheckpointedFunction):
        return function
    keys = context.key_reader()
    if keys is None:
        return function
    read = keys.read
    state = context.keyed_state

    def with_key(value: object) -> object:
        state.select_key(read(value))
        return function(value)

    return with_key


def may_have_state(fold: object) -> bool:
    """Return whether the function of a fold overrides ``open``, or has ``initialize_state``."""
    opened = getattr(type(fold), "open", None)
    return opened not in (None, Function.open) or isinstance(fold, CheckpointedFunction)


def keyed_fold(
    context: OperatorContext, user_function: object, fold: Callable[[object, object], object]
) -> Callable[[object, object], object]:
    """Wrap a function of a fold and a record, whose second argument has the key.

    Only functions that override ``open`` or have ``initialize_state`` are wrapped, as folds run for
    each record.
    """
    keys = context.key_reader()
    if keys is None or not may_have_state(user_function):
        return fold
    read = keys.read
    state = context.keyed_state

    def with_key(first: object, second: object) -> object:
        state.select_key(read(second))
        return fold(first, second)

    return with_key
