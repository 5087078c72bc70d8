"""Instances of plain classes, of classes with slots and of attrs: which attributes they have.

What ``__init__`` sets is read from its code, so that every process finds the same names for a
class.  It is a guess, which instances need not keep to: one with other attributes, or with the same
in another order, travels with their names.
"""

import datetime
import decimal
import dis
import enum
import inspect
import uuid
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import chain
from types import CodeType, FunctionType
from typing import Any, Final

#: Values that lead to no other, so that nothing is lost when references to them are not kept;
#: members of enums are such, too.
SCALARS: Final = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes,
        datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone,
        decimal.Decimal, uuid.UUID,
    }
)  # fmt: skip

#: As many collections may an instance hold; with more it is pickled.
MAX_COLLECTIONS: Final = 8

_COLLECTIONS: Final = frozenset({list, tuple, dict, set, frozenset})


def stand_alone(attributes: Iterable[Any]) -> bool:
    """Whether attributes lead neither back to their instance nor to one value by two ways.

    They are scalars, or collections of scalars, each held once.
    """
    met: list[Any] = []
    for value in attributes:
        cls = type(value)
        if _is_scalar(cls):
            continue
        if cls not in _COLLECTIONS or len(met) == MAX_COLLECTIONS:
            return False
        if any(value is other for other in met):
            return False
        elements = chain(value.keys(), value.values()) if cls is dict else value
        if not all(_is_scalar(type(element)) for element in elements):
            return False
        met.append(value)
    return True


def _is_scalar(cls: type) -> bool:
    return cls in SCALARS or issubclass(cls, enum.Enum)


def attributes_of(cls: Any) -> Collection[str]:
    """The attributes that instances of a class will have, in their order; none if unknown."""
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
    """What ``__slots__`` says: a class that was pickled by value comes back without its slots."""
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
    """The attributes that a method sets of its instance; None where it calls a base's method."""
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
        # Some versions load two variables at once: the second is what is on top.
        if not operation.startswith(("LOAD_FAST", "LOAD_DEREF")):
            loaded = None
        else:
            loaded = argument[-1] if isinstance(argument, tuple) else argument
    return tuple(found)


_ATTRIBUTE_LOADS: Final = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
