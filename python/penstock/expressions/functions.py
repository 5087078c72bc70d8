"""From what a user gave, a lambda or a Function object, to what is called per element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.expressions.computed import ComputedFunction

if TYPE_CHECKING:
    from collections.abc import Callable


def bound_function(function: Any, method: str) -> Callable[..., Any]:
    """The bound method of a Function object, or the callable itself.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(function, ComputedFunction):
        return function.function
    found = getattr(function, method, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    if callable(function):
        return function  # type: ignore[no-any-return]
    msg = f"{function!r} has no method {method!r} and cannot be called"
    raise TypeError(msg)
