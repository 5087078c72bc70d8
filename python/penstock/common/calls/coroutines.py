"""Rejects functions written with ``async def`` where a plain function is called.

Calling one returns a coroutine, or an asynchronous generator, that never runs: a filter would keep
every record, a sink would write nothing.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Final

from penstock.errors import InvalidProgramError

_COROUTINE: Final = "a coroutine"


def refuse_coroutines(given: Any, where: str) -> None:
    """Check a function of the user, or an object with the user's methods.

    For an object, the check covers the methods that a base class of penstock declares without
    ``async``, except those in its ``__awaited__``.  If the class itself is penstock's, such as a
    strategy or a trigger, the check covers the attributes as well.

    Args:
        given: The user's argument.
        where: The call, for the message.

    Raises:
        InvalidProgramError: The argument is, or has, a function written with ``async def``.
    """
    seen: set[int] = set()
    waiting = [given]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            _refuse_one(one, where)
            waiting += _parts(one)


def _refuse_one(given: Any, where: str) -> None:
    if isinstance(given, type):
        return
    while isinstance(given, functools.partial):
        given = given.func
    kind = type(given)
    what = _asynchronous(given)
    if what is None and callable(given):
        what = _asynchronous(kind.__call__)
    if what is not None:
        _refuse(where, getattr(given, "__qualname__", repr(given)), what)
    awaited = getattr(kind, "__awaited__", ())
    for declaring in filter(_is_ours, kind.__mro__):
        for name, declared in vars(declaring).items():
            if inspect.isfunction(declared) and _asynchronous(declared) is None:
                what = _asynchronous(getattr(kind, name))
                if what is not None and not (what == _COROUTINE and name in awaited):
                    _refuse(where, f"{kind.__qualname__}.{name}", what)


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("penstock.")


def _parts(given: Any) -> list[Any]:
    """Return the attributes of one of penstock's own objects."""
    if isinstance(given, dict):
        return list(given.values())
    if not _is_ours(type(given)):
        return []
    slots = [getattr(given, name, None) for name in getattr(type(given), "__slots__", ())]
    return [*getattr(given, "__dict__", {}).values(), *slots]


def _asynchronous(function: Any) -> str | None:
    """Return the kind of object an asynchronous function returns instead of a result."""
    if inspect.iscoroutinefunction(function):
        return _COROUTINE
    if inspect.isasyncgenfunction(function):
        return "an asynchronous generator"
    return None


def _refuse(where: str, name: str, what: str) -> None:
    raise InvalidProgramError(
        f"{where}: {name} is written with async def, so calling it returns {what}, which nothing "
        "awaits here: write def, or make it the async_invoke of an AsyncFunction for "
        "AsyncDataStream"
    )
