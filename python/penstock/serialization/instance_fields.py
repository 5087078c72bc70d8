"""The fields of an instance whose class has a layout, and the check whether it may be used.

The native twin is ``penstock._native.codecs.plain_instances``.
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

#: Values that refer to no other value, so their identity need not be preserved; members of enums
#: count, too.
SCALARS: Final = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes,
        datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone,
        decimal.Decimal, uuid.UUID,
    }
)  # fmt: skip

#: The most collections and instances within an instance; with more, the instance is pickled.
MAX_PARTS: Final = 128

_COLLECTIONS: Final = frozenset({list, tuple, dict, set, frozenset})
_TEXTS_AND_NUMBERS: Final = (str, int, float, bytes)

_UNKNOWN: Any = object()
_layouts: dict[type, Layout | None] = {}


def _forget(cls: type) -> None:
    _layouts.pop(cls, None)


on_change.append(_forget)


def known_layout(cls: type) -> Layout | None:
    """Return the layout of a class; None if its instances do not travel by one."""
    layout: Layout | None = _layouts.get(cls, _UNKNOWN)
    if layout is _UNKNOWN:
        layout = layout_of(cls)
        # More of the job's own classes may be registered later.
        if layout is not None or not is_own(cls) or not has_fields(cls):
            _layouts[cls] = layout
    return layout


def fields_of(value: Any, layout: Layout) -> Sequence[Any] | None:
    """Return the field values; None if a field is missing or the value needs another form."""
    fields = _fields_of(value, layout)
    if fields is None or not layout.is_plain or stand_alone(_led_to(value, layout, fields)):
        return fields
    return None


def _led_to(value: Any, layout: Layout, fields: Sequence[Any]) -> Sequence[Any]:
    """Return the values that an instance refers to."""
    return [*fields[:-1], *attachments_of(value)] if layout.kind == MODEL else fields


def stand_alone(values: Iterable[Any]) -> bool:
    """Return whether values contain neither cycles nor shared references.

    Such values are scalars, or collections and instances of such values, each referenced once.
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
    # Plain instances also preserve the order of attributes.
    return None if layout.is_plain and tuple(attributes) != names else fields


def _has_attributes(value: Any) -> bool:
    return type(value).__dictoffset__ != 0 and bool(value.__dict__)


def builtin_of(value: Any) -> Any:
    """Return the builtin value of a subclass instance, without calling methods of the subclass."""
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
