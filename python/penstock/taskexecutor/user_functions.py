"""From what a user gave, a lambda or a Function object, to what is called per element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.expressions.bytecode import without_call
from penstock.network.key_selection import field_of

if TYPE_CHECKING:
    from collections.abc import Callable


def key_selection(selector: Callable[[Any], Any]) -> tuple[Callable[[Any], Any], int]:
    """What to call for the key of an element.

    Returns:
        The selector, or what does the same without a call; and the position of the field that
        it takes if it does nothing else, else -1.
    """
    position = field_of(selector)
    return (without_call(selector, 1), -1) if position is None else (selector, position)


def bound_function(function: Any, method: str) -> Callable[..., Any]:
    """The bound method of a Function object, or the callable itself.

    Raises:
        TypeError: It is neither.
    """
    found = getattr(function, method, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    if callable(function):
        return function  # type: ignore[no-any-return]
    msg = f"{function!r} has no method {method!r} and cannot be called"
    raise TypeError(msg)
