"""Attributes of instances of plain classes, of classes with slots and of attrs classes.

The attributes that ``__init__`` sets are read from its code, so every process finds the same names
for a class.  This is a prediction: an instance with other attributes, or with another order,
travels with its attribute names.
"""

import dis
import inspect
from collections.abc import Collection
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final


def attributes_of(cls: Any) -> Collection[str]:
    """Return the expected attributes of instances of a class, in their order; none if unknown."""
    fields = getattr(cls, "__attrs_attrs__", None)
    if fields is not None:
        return [field.name for field in fields]
    bases = [base for base in reversed(cls.__mro__) if base is not object]
    if all("__slots__" in vars(base) for base in bases):
        return [name for base in bases for name in _declared_slots(base)]
    names: dict[str, None] = {}
    _add_set_by_init(names, cls.__mro__)
    return names


def _declared_slots(cls: type) -> list[str]:
    """Return the slots in ``__slots__``: a class that was pickled by value loses its slots."""
    declared = vars(cls)["__slots__"]
    names = [declared] if isinstance(declared, str) else list(declared)
    return [
        f"_{cls.__name__.lstrip('_')}{name}"
        if name.startswith("__") and not name.endswith("__")
        else name
        for name in names
        if name != "__weakref__"
    ]


def _add_set_by_init(names: dict[str, None], mro: tuple[type, ...]) -> None:
    for i, base in enumerate(mro):
        method = vars(base).get("__init__")
        if method is None:
            continue
        method = inspect.unwrap(method)
        if isinstance(method, FunctionType):
            for name in _set_by(method.__code__):
                if name is None:
                    _add_set_by_init(names, mro[i + 1 :])
                else:
                    names[name] = None
        return


@lru_cache(maxsize=4096)
def _set_by(code: CodeType) -> tuple[str | None, ...]:
    """Return the attributes that a method sets on its instance; None for a call of a base."""
    if code.co_argcount == 0:
        return ()
    instance = code.co_varnames[0]
    found: dict[str | None, None] = {}
    loaded: Any = None
    for instruction in dis.get_instructions(code):
        operation, argument = instruction.opname, instruction.argval
        if operation == "STORE_ATTR" and loaded == instance:
            found[argument] = None
        elif operation in _ATTRIBUTE_LOADS and argument == "__init__":
            found[None] = None
        # Some versions load two variables at once: the second one is on top.
        if not operation.startswith(("LOAD_FAST", "LOAD_DEREF")):
            loaded = None
        else:
            loaded = argument[-1] if isinstance(argument, tuple) else argument
    return tuple(found)


_ATTRIBUTE_LOADS: Final = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
