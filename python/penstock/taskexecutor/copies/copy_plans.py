"""Plans for copying a class's values; both copiers look them up once per class.

A value is *unchanging* if nothing reachable from it ever changes: it is shared, not copied.
"""

from __future__ import annotations

import collections
import copyreg
import dataclasses
import datetime
import decimal
import enum
import fractions
import gc
import ipaddress
import pathlib
import re
import types
import uuid
import zoneinfo
from typing import Any, Final, NamedTuple

from penstock.common.exception_deadline import described_in_time
from penstock.common.types import Row
from penstock.errors import ValueCopyError
from penstock.serialization.loaded_numpy import loaded_numpy
from penstock.serialization.models import is_model, is_of_pydantic, slots_of_model
from penstock.serialization.value_layouts import has_only_items, slots_of

UNCHANGING: Final = 0
NAMED_TUPLE: Final = 1
FROZEN: Final = 2
INSTANCE: Final = 3
DEEPCOPY: Final = 4
ROW: Final = 5


class CopyPlan(NamedTuple):
    """Plan for copying a class's values.

    Attributes:
        kind: ``UNCHANGING`` values are shared, and so are ``FROZEN`` instances whose attributes
            are.  A ``NAMED_TUPLE`` or an ``INSTANCE`` is rebuilt from its attributes.  For
            ``DEEPCOPY`` the class decides, by ``copy.deepcopy``.  ``ROW`` is penstock's own.
        slots: The names of the slots of an instance.
        has_dict: Whether an instance has further attributes.
    """

    kind: int
    slots: tuple[str, ...] = ()
    has_dict: bool = False


#: Classes whose instances never change, subclasses excluded.
UNCHANGING_CLASSES: Final[frozenset[type]] = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, range, type(...), type(NotImplemented),
        types.FunctionType, types.BuiltinFunctionType,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
        zoneinfo.ZoneInfo, decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern,
        pathlib.PurePosixPath, pathlib.PosixPath, pathlib.PureWindowsPath,
        ipaddress.IPv4Address, ipaddress.IPv6Address,
    }
)  # fmt: skip

_ATOMS: Final = (int, float, complex, str, bytes)

#: Methods by which a class defines its copies.
_OWN_WAYS: Final = (
    "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__new__",
    "__getnewargs__", "__getnewargs_ex__",
)  # fmt: skip

#: Methods of frozen dataclasses with slots, equivalent to those of ``object``.
_WAYS_OF_DATACLASSES: Final = (
    getattr(dataclasses, "_dataclass_getstate", None),
    getattr(dataclasses, "_dataclass_setstate", None),
)


def plan_of(value: object) -> CopyPlan:
    """Return the plan for values of the class of ``value``, which is not a builtin container."""
    cls = type(value)
    if _is_unchanging(cls):
        return CopyPlan(UNCHANGING)
    if cls is Row:
        return CopyPlan(ROW)
    if issubclass(cls, tuple):
        return CopyPlan(NAMED_TUPLE if _is_plain_named_tuple(cls) else DEEPCOPY)
    if is_model(cls) and is_of_pydantic(cls, "__deepcopy__") and _is_made_by_object(cls):
        return CopyPlan(INSTANCE, slots_of_model(cls), has_dict=True)
    if not _is_plain(value, cls):
        return CopyPlan(DEEPCOPY)
    parameters = getattr(cls, "__dataclass_params__", None)
    frozen = dataclasses.is_dataclass(cls) and parameters is not None and parameters.frozen
    return CopyPlan(FROZEN if frozen else INSTANCE, tuple(slots_of(cls)), cls.__dictoffset__ != 0)


def parts_of(value: Any) -> list[object]:
    """Return the objects in which a value stores its content, as far as known.

    Args:
        value: A value of a class that defines its own copies.
    """
    if isinstance(value, (dict, list, set, frozenset, tuple, collections.deque)):
        return gc.get_referents(value)
    numpy = loaded_numpy()
    if numpy is not None and isinstance(value, numpy.ndarray):
        return gc.get_referents(value) if value.base is None else [value.base]
    return []


def _is_unchanging(cls: type) -> bool:
    if cls in UNCHANGING_CLASSES or issubclass(cls, (enum.Enum, type)):
        return True
    numpy = loaded_numpy()
    if numpy is not None and issubclass(cls, numpy.generic):
        # The fields of a structured scalar are mutable.
        return cls.__module__ == "numpy" and not issubclass(cls, numpy.void)
    return issubclass(cls, _ATOMS) and cls.__dictoffset__ == 0 and not _own_ways(cls, _ATOMS)


def _own_ways(cls: type, builtin: tuple[type, ...]) -> bool:
    """Return whether a subclass of a builtin class has slots, or defines its own copies."""
    bases = [base for base in cls.__mro__ if base is not object and base not in builtin]
    return any(
        vars(base).get("__slots__") or any(name in vars(base) for name in _OWN_WAYS)
        for base in bases
    )


def cannot_be_copied(where: str, value: object, error: Exception) -> ValueCopyError:
    """Return the error for a value that cannot be copied."""
    cls = type(value)
    return ValueCopyError(
        f"{where} a value of {cls.__module__}.{cls.__qualname__} that cannot be copied "
        f"({described_in_time(error)}); make it of data alone, give its class a "
        "__deepcopy__, or call enable_object_reuse() on the execution config if no function "
        "changes a value after passing it on"
    )


def _is_plain_named_tuple(cls: Any) -> bool:
    """Return whether a class is a named tuple, or only adds methods to one."""
    return (
        isinstance(getattr(cls, "_fields", None), tuple)
        and has_only_items(cls)
        and cls.__reduce__ is object.__reduce__
        and cls.__reduce_ex__ is object.__reduce_ex__
        and not hasattr(cls, "__deepcopy__")
    )


def _is_made_by_object(cls: object) -> bool:
    return cls.__new__ is object.__new__


def _is_plain(value: object, cls: type) -> bool:
    """Return whether an instance consists of its attributes alone, by the methods of ``object``."""
    if cls in copyreg.dispatch_table or any(
        getattr(cls, name, None) not in (getattr(object, name, None), *_WAYS_OF_DATACLASSES)
        for name in _OWN_WAYS
    ):
        return False
    try:
        reduced: Any = value.__reduce_ex__(4)
    except TypeError:
        return False  # it has content that Python cannot see
    # Of the five items, the last two would be elements of a list or a dict.
    return (
        type(reduced) is tuple
        and reduced[0] is copyreg.__newobj__  # type: ignore[attr-defined]
        and reduced[1] == (cls,)
        and len(reduced) == 5
        and reduced[3] is reduced[4] is None
    )
