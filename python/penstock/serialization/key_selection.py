"""Key selectors that only take a field, recognised so that they need not be called."""

import operator
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any


def field_of(selector: Callable[[Any], Any]) -> int | None:
    """The position ``i`` if the selector does nothing but ``value[i]``, else None.

    Recognised are ``operator.itemgetter(i)`` and functions of one parameter whose body is the
    subscript of that parameter by a literal, ``lambda t: t[0]`` for example.
    """
    if type(selector) is operator.itemgetter:
        arguments: tuple[Any, ...] = selector.__reduce__()[1]  # type: ignore[assignment]
        position = arguments[0] if len(arguments) == 1 else None
        return position if type(position) is int and 0 <= position < 1 << 31 else None
    if not isinstance(selector, FunctionType) or selector.__closure__ or selector.__defaults__:
        return None
    return _field_of_code(selector.__code__)


@lru_cache(maxsize=256)
def _field_of_code(code: CodeType) -> int | None:
    if code.co_argcount != 1 or code.co_nlocals != 1 or code.co_kwonlyargcount or code.co_names:
        return None
    positions = [c for c in code.co_consts if type(c) is int and 0 <= c < 1 << 31]
    if len(positions) != 1 or code.co_flags & 0x0C:  # *args, **kwargs
        return None
    model = eval(f"lambda t: t[{positions[0]}]", {}).__code__
    # Constant 0 is a docstring or None; the code refers to the others by their position.
    same = model.co_code == code.co_code and model.co_consts[1:] == code.co_consts[1:]
    return positions[0] if same else None
