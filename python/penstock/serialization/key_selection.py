"""Detection of key selectors that only read a field, so that they need not be called."""

import operator
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple


def field_of(selector: Callable[[Any], Any]) -> int | None:
    """Return the position ``i`` if the selector only returns ``value[i]``, else None.

    It recognises ``operator.itemgetter(i)`` and functions of one parameter that only subscript it
    with a literal, such as ``lambda t: t[0]``.
    """
    if type(selector) is operator.itemgetter:
        arguments: tuple[Any, ...] = selector.__reduce__()[1]  # type: ignore[assignment]
        position = arguments[0] if len(arguments) == 1 else None
        return position if type(position) is int and 0 <= position < 1 << 31 else None
    return _field_of_code(selector.__code__) if _is_bare(selector) else None


class Part(NamedTuple):
    """The part of a value that is its key.

    Attributes:
        is_attribute: True if the part is an attribute; False if it is an item.
        name: The name.
    """

    is_attribute: bool
    name: str

    def __str__(self) -> str:
        return f"{'attribute' if self.is_attribute else 'item'} {self.name!r}"


def part_of(selector: Callable[[Any], Any]) -> Part | None:
    """Return the part if the selector only returns ``value.name`` or ``value["name"]``, or None.

    It recognises ``operator.attrgetter`` and ``itemgetter`` of one name, and equivalent functions
    of one parameter, such as ``lambda order: order.user``.
    """
    getter = type(selector)
    if getter is operator.itemgetter or getter is operator.attrgetter:
        arguments: tuple[Any, ...] = selector.__reduce__()[1]  # type: ignore[assignment]
        name = arguments[0] if len(arguments) == 1 else None
        is_attribute = getter is operator.attrgetter
        if type(name) is not str or (is_attribute and "." in name):
            return None
        return Part(is_attribute, name)
    return _part_of_code(selector.__code__) if _is_bare(selector) else None


def _is_bare(selector: Any) -> bool:
    """Return whether a selector is a function that depends on nothing but its code."""
    if not isinstance(selector, FunctionType):
        return False
    return not (selector.__closure__ or selector.__defaults__ or selector.__kwdefaults__)


def _takes_one_value(code: CodeType) -> bool:
    is_variadic = code.co_flags & 0x0C  # *args, **kwargs
    return code.co_argcount == code.co_nlocals == 1 and not code.co_kwonlyargcount | is_variadic


_ATTRIBUTE: Final = (lambda value: value.name).__code__
_ITEM: Final = (lambda value: value["name"]).__code__
_ITEM_AT: Final = _ITEM.co_consts.index("name")


@lru_cache(maxsize=256)
def _part_of_code(code: CodeType) -> Part | None:
    if not _takes_one_value(code):
        return None
    if code.co_code == _ATTRIBUTE.co_code and len(code.co_names) == 1:
        return Part(True, code.co_names[0])
    is_item = code.co_code == _ITEM.co_code and len(code.co_consts) == len(_ITEM.co_consts)
    name = code.co_consts[_ITEM_AT] if is_item else None
    return Part(False, name) if type(name) is str else None


@lru_cache(maxsize=256)
def _field_of_code(code: CodeType) -> int | None:
    if not _takes_one_value(code) or code.co_names:
        return None
    positions = [c for c in code.co_consts if type(c) is int and 0 <= c < 1 << 31]
    if len(positions) != 1:
        return None
    model = eval(f"lambda t: t[{positions[0]}]", {}).__code__
    # Constant 0 is a docstring or None; the code refers to the others by their position.
    same = model.co_code == code.co_code and model.co_consts[1:] == code.co_consts[1:]
    return positions[0] if same else None
