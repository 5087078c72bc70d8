"""The callable of a user's lambda or Function object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.expressions.computed import ComputedFunction

if TYPE_CHECKING:
    from collections.abc import Callable


def bound_function(function: Any, method: str) -> Callable[..., Any]:
    """Return the bound method of a Function object, or the callable itself.

    A callable may happen to have a method of that name, like ``reduce`` of ``numpy.add``.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(function, ComputedFunction):
        return function.function
    if callable(function) and not _is_declared(type(function), method):
        return function  # type: ignore[no-any-return]
    found = getattr(function, method, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    msg = f"{function!r} has no method {method!r} and cannot be called"
    raise TypeError(msg)


def _is_declared(kind: type, method: str) -> bool:
    """Return whether a class is one of penstock's functions with this method."""
    ours = (cls for cls in kind.__mro__ if cls.__module__.startswith("penstock."))
    return any(method in vars(cls) for cls in ours)
