"""Function: the base of all user functions, and the check of function arguments."""

from __future__ import annotations

import functools
import inspect
import warnings
from abc import ABC
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.argument_kinds import accepts
from penstock.common.calls.coroutines import refuse_coroutines
from penstock.errors import WrongArgumentError
from penstock.user_location import user_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.datastream.functions.runtime_context import RuntimeContext


class Function(ABC):  # noqa: B024
    """A user function with a life cycle: `open`, many calls, `close`."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027
        """Prepare the function; called once per subtask before any record."""

    def close(self) -> None:  # noqa: B027
        """Release the resources of `open`; called once, also after a failure."""


class WrappedFunction(Function):
    """A function of penstock's own that calls a user's function, with its life cycle."""

    def __init__(self, function: Any) -> None:
        """Wrap a function: an object with or without ``open`` and ``close``."""
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function."""
        if hasattr(self._function, "open"):
            self._function.open(runtime_context)

    def close(self) -> None:
        """Close the function."""
        if hasattr(self._function, "close"):
            self._function.close()


def check_function(func: Any, function_class: type, where: str, *, or_callable: bool) -> None:
    """Check the function that a transformation received.

    Args:
        func: The argument.
        function_class: The expected class.
        where: The name of the call, for the message.
        or_callable: True to accept any callable as well.

    Raises:
        InvalidProgramError: The argument is neither, is written with ``async def``, or is a plain
            function with another number of parameters.
    """
    if isinstance(func, function_class) or (or_callable and _plain_callable(func)):
        refuse_coroutines(func, where)
        if function_class.__name__ in _RECORDS:
            check_parameters(func, *_RECORDS[function_class.__name__], where)
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
    elif callable(func) and (methods := _methods_of(function_class)):
        hint = f"; pass an object of a subclass, with {methods}"
    raise WrongArgumentError(f"{where} takes {wanted}, got {given}{hint}")


def _methods_of(function_class: type) -> str:
    """Return the methods that a subclass has to define, as their definitions begin."""
    return " and ".join(
        f"def {name}({', '.join(inspect.signature(getattr(function_class, name)).parameters)})"
        for name in sorted(getattr(function_class, "__abstractmethods__", ()))
    )


def warn_of_generator(func: Any) -> None:
    """Warn that a function of ``map`` yields: each of its results would be a generator."""
    if inspect.isgeneratorfunction(getattr(func, "map", func)):
        name = func.__qualname__ if inspect.isroutine(func) else f"{type(func).__name__}.map"
        file, line = user_line() or ("<program>", 1)
        message = (
            f"map: {name} yields, so that each result is a generator: write return, or call "
            "flat_map for several results of a record"
        )
        warnings.warn_explicit(message, UserWarning, file, line)


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


#: The numbers of records that plain functions receive, by the class for which they stand; the third
#: argument of a join is its context.  A `ReduceFunction` is not among them: PyFlink accepts any
#: function there, and calls it only for the second record of a key.
_RECORDS: Final = {
    "MapFunction": ("one record", (1,)),
    "FlatMapFunction": ("one record", (1,)),
    "FilterFunction": ("one record", (1,)),
    "KeySelector": ("one record", (1,)),
    "JoinFunction": ("two records, and ctx if it needs the context", (2, 3)),
    "CoGroupFunction": ("two lists of records, and ctx if it needs the context", (2, 3)),
}


def check_parameters(func: Any, wanted: str, counts: Sequence[int], where: str) -> None:
    """Check that a plain function accepts the arguments that it will receive.

    Args:
        func: The function; other callables pass.
        wanted: The arguments, for the message.
        counts: The numbers of arguments that it may receive.
        where: The name of the call, for the message.

    Raises:
        WrongArgumentError: It requires more arguments, or accepts fewer.
    """
    if not isinstance(func, (FunctionType, MethodType, functools.partial)):
        return
    try:
        # Of a wrapper, whose `__wrapped__` function may have other parameters.
        signature = inspect.signature(func, follow_wrapped=False)
    except ValueError:  # a partial of a builtin function without a signature
        return
    if not any(accepts(signature, count) for count in counts):
        name = getattr(func, "__name__", "partial")
        raise WrongArgumentError(f"{where} takes a function of {wanted}; got {name}{signature}")


def _kind(func: Function) -> str:
    """Return the name of the penstock class of which a function is an instance."""
    return next(c.__name__ for c in type(func).__mro__ if c.__module__.startswith("penstock."))


def _plain_callable(func: Any) -> bool:
    return callable(func) and not (isinstance(func, type) and issubclass(func, Function))
