"""Encoding of an instance whose class has a layout, and whether it may be used.

The native twin is ``penstock._native.plain_instances``.
"""

import datetime
import decimal
import enum
import uuid
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from penstock.serialization.class_reference import is_own
from penstock.serialization.models import attachments_of, rest_of
from penstock.serialization.standard_collections import TAGS, content_of
from penstock.serialization.value_layouts import (
    BUILTIN,
    MODEL,
    NAMED_TUPLE,
    SLOTS,
    Layout,
    has_fields,
    layout_of,
    on_change,
)

#: Values that lead to no other, so that nothing is lost when references to them are not kept;
#: members of enums are such, too.
SCALARS: Final = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes,
        datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone,
        decimal.Decimal, uuid.UUID,
    }
)  # fmt: skip

#: As many collections and instances may lie within an instance; with more it is pickled.
MAX_PARTS: Final = 128

_COLLECTIONS: Final = frozenset({list, tuple, dict, set, frozenset})
_TEXTS_AND_NUMBERS: Final = (str, int, float, bytes)

_UNKNOWN: Any = object()
_layouts: dict[type, Layout | None] = {}


def _forget(cls: type) -> None:
    _layouts.pop(cls, None)


on_change.append(_forget)


def known_layout(cls: type) -> Layout | None:
    """The layout of a class, if its instances travel by one."""
    layout: Layout | None = _layouts.get(cls, _UNKNOWN)
    if layout is _UNKNOWN:
        layout = layout_of(cls)
        # Of the job's own classes more may become known.
        if layout is not None or not is_own(cls) or not has_fields(cls):
            _layouts[cls] = layout
    return layout


def fields_of(value: Any, layout: Layout) -> Sequence[Any] | None:
    """The values of the fields; None if some are missing or the value is to travel otherwise."""
    fields = _fields_of(value, layout)
    if fields is None or not layout.is_plain or stand_alone(_led_to(value, layout, fields)):
        return fields
    return None


def _led_to(value: Any, layout: Layout, fields: Sequence[Any]) -> Sequence[Any]:
    """The values that an instance leads to."""
    return [*fields[:-1], *attachments_of(value)] if layout.kind == MODEL else fields


def stand_alone(values: Iterable[Any]) -> bool:
    """Return whether values lead neither back to what holds them nor to one value by two ways.

    They are scalars, or collections and instances whose parts are such, each held once.
    """
    met: set[int] = set()
    return all(_stands_alone(value, met) for value in values)


def _stands_alone(value: Any, met: set[int]) -> bool:
    cls = type(value)
    if cls in SCALARS or issubclass(cls, enum.Enum):
        return True
    layout = None
    if cls not in _COLLECTIONS and cls not in TAGS:
        layout = known_layout(cls)
        if layout is None:
            return False
        if isinstance(value, _TEXTS_AND_NUMBERS):
            return not _has_attributes(value)
    elif cls is tuple and not value:
        return True  # there is but one
    if len(met) == MAX_PARTS or id(value) in met:
        return False
    met.add(id(value))
    parts: Any = value
    if cls in TAGS:
        parts = content_of(value)
        if parts is None:
            return False
    elif layout is not None:
        parts = _fields_of(value, layout)
        if parts is None:
            return False
        if layout.kind == BUILTIN:
            (parts,) = parts
        else:
            parts = _led_to(value, layout, parts)
    if isinstance(parts, dict):
        parts = chain.from_iterable(parts.items())
    return all(_stands_alone(part, met) for part in parts)


def _fields_of(value: Any, layout: Layout) -> Sequence[Any] | None:
    if layout.kind == NAMED_TUPLE:
        return value if len(value) == len(layout.names) else None
    if layout.kind == BUILTIN:
        return None if _has_attributes(value) else (builtin_of(value),)
    try:
        if layout.kind == SLOTS:
            return [getattr(value, name) for name in layout.names]
        names = layout.names[:-1] if layout.kind == MODEL else layout.names
        attributes = value.__dict__
        fields = [attributes[name] for name in names]
        if layout.kind == MODEL:
            rest = rest_of(value, names)
            fields.append(rest)
            if rest is None:
                return None
    except (AttributeError, KeyError):
        return None
    if len(attributes) != len(names):
        return None
    # Of plain instances the order is kept, too.
    return None if layout.is_plain and tuple(attributes) != names else fields


def _has_attributes(value: Any) -> bool:
    return type(value).__dictoffset__ != 0 and bool(value.__dict__)


def builtin_of(value: Any) -> Any:
    """The builtin value that an instance of a subclass is, without asking the subclass."""
    if isinstance(value, dict):
        return dict.copy(value)
    if isinstance(value, list):
        return list.copy(value)
    if isinstance(value, set):
        return set(value)
    if isinstance(value, frozenset):
        return frozenset(value)
    base = next(base for base in (*_TEXTS_AND_NUMBERS, tuple) if isinstance(value, base))
    (builtin,) = base.__getnewargs__(value)  # type: ignore[union-attr]
    return builtin
