"""Function: the base of all user functions, and the check of function arguments."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any, Final

from penstock.common.coroutines import refuse_coroutines
from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from penstock.datastream.functions.runtime_context import RuntimeContext


class Function(ABC):  # noqa: B024
    """A user function with a life cycle: `open`, many calls, `close`."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027
        """Prepare the function; called once per subtask before any record."""

    def close(self) -> None:  # noqa: B027
        """Release the resources of `open`; called once, also after a failure."""


def check_function(func: Any, function_class: type, where: str, *, or_callable: bool) -> None:
    """Check the function that a transformation received.

    Args:
        func: The argument.
        function_class: The expected class.
        where: The name of the call, for the message.
        or_callable: True to accept any callable as well.

    Raises:
        InvalidProgramError: The argument is neither, or is written with ``async def``.
    """
    if isinstance(func, function_class) or (or_callable and _plain_callable(func)):
        refuse_coroutines(func, where)
        return
    wanted = f"a {function_class.__name__}" + (" or a callable" if or_callable else "")
    given, hint = repr(func), ""
    if isinstance(func, type) and issubclass(func, function_class):
        hint = f"; this is the class itself, pass an instance: {func.__name__}()"
    elif isinstance(func, Function):
        kind = _kind(func)
        given = f"{type(func).__name__}, a {kind}"
        hint = _HINTS.get((function_class.__name__, kind), "")
        if kind == "AsyncFunction":
            hint = "; pass it to AsyncDataStream.unordered_wait or ordered_wait"
    elif function_class.__name__ in ("ProcessFunction", "KeyedProcessFunction") and callable(func):
        hint = "; pass a plain function to map, flat_map or filter"
    elif function_class.__name__ == "KeySelector" and type(func) is int:
        hint = f"; write field({func}), or lambda record: record[{func}]"
    raise WrongArgumentError(f"{where} takes {wanted}, got {given}{hint}")


#: Hints, by the expected class and the class of the argument.
_HINTS: Final = {
    ("ProcessFunction", "KeyedProcessFunction"): "; call key_by() before it",
    ("KeyedProcessFunction", "ProcessFunction"): "; make it a KeyedProcessFunction",
    ("CoProcessFunction", "KeyedCoProcessFunction"): "; key both streams by key_by()",
    **{
        (wanted, kind): "; connect with stream.broadcast(state_descriptor)"
        for wanted in ("CoProcessFunction", "KeyedCoProcessFunction")
        for kind in ("BroadcastProcessFunction", "KeyedBroadcastProcessFunction")
    },
    ("BroadcastProcessFunction", "KeyedBroadcastProcessFunction"): "; key the stream by key_by()",
}


def _kind(func: Function) -> str:
    """Return the name of the penstock class of which a function is an instance."""
    return next(c.__name__ for c in type(func).__mro__ if c.__module__.startswith("penstock."))


def _plain_callable(func: Any) -> bool:
    return callable(func) and not (isinstance(func, type) and issubclass(func, Function))
