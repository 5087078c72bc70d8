"""Function: the base of all user functions, and how a call's argument is checked."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.datastream.functions.runtime_context import RuntimeContext


class Function(ABC):  # noqa: B024
    """A user function with a life cycle: `open`, many calls, `close`."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027
        """Prepares the function; called once per subtask before any element."""

    def close(self) -> None:  # noqa: B027
        """Releases what `open` took; called once, also after a failure."""


def check_function(func: Any, function_class: type, where: str, *, or_callable: bool) -> None:
    """Checks what a transformation was given.

    Args:
        func: The argument.
        function_class: The class it should be an instance of.
        where: The call, for the message.
        or_callable: Whether any callable will do as well.

    Raises:
        InvalidProgramError: It is neither.
    """
    if isinstance(func, function_class) or (or_callable and _plain_callable(func)):
        return
    wanted = f"a {function_class.__name__}" + (" or a callable" if or_callable else "")
    hint = ""
    if isinstance(func, type) and issubclass(func, function_class):
        hint = f"; the class itself was given, pass an instance: {func.__name__}()"
    raise InvalidProgramError(f"{where} takes {wanted}, got {func!r}{hint}")


def _plain_callable(func: Any) -> bool:
    return callable(func) and not (isinstance(func, type) and issubclass(func, Function))
