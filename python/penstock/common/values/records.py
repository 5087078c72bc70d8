"""Records: instances of classes with named fields, read by the name of a field.

Rows, dictionaries, dataclasses, NamedTuples, pydantic models and attrs classes are records.
"""

from __future__ import annotations

import copy
import dataclasses
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from types import BuiltinMethodType, MethodType
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.names import nearest_hint
from penstock.common.exception_deadline import repr_in_time
from penstock.common.types import Row
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Sequence


#: Classes of values that are no members of enums and have no parts.
_SCALARS: Final = frozenset(
    {bool, int, float, str, bytes, type(None), date, datetime, time, Decimal}
)

_METHODS: Final = (BuiltinMethodType, MethodType)

#: Classes whose fields are remembered: more than a program has, unless it creates classes.
_CACHED_CLASSES: Final = 1024


@lru_cache(maxsize=_CACHED_CLASSES)
def field_names_of(record_class: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a class in their order; None if it declares none.

    A class declares fields as a dataclass, NamedTuple, pydantic model, or by attrs.
    """
    if dataclasses.is_dataclass(record_class):
        return tuple(field.name for field in dataclasses.fields(record_class))
    if issubclass(record_class, tuple):
        return getattr(record_class, "_fields", None)
    if hasattr(record_class, "__pydantic_core_schema__"):
        fields: Any = record_class
        return tuple(fields.model_fields)
    by_attrs = record_class.__dict__.get("__attrs_attrs__")
    return None if by_attrs is None else tuple(attribute.name for attribute in by_attrs)


def names_in(value: object) -> tuple[str, ...] | None:
    """Return the names of the fields of a value's class; None if it declares none."""
    record_class: Any = type(value)
    return field_names_of(record_class)


def is_record(value: object) -> bool:
    """Return whether a value is an instance of a class that declares fields."""
    return names_in(value) is not None


def record_field(record: Any, name: str) -> Any:
    """Return the field of a record with a name.

    Raises:
        InvalidProgramError: The record has no such field, or no fields at all.
    """
    if isinstance(record, Row | dict):
        try:
            return record[name]
        except (KeyError, ValueError, AttributeError):
            raise _no_field(record, name) from None
    found = getattr(record, name, None)
    # A missing field may be the name of a method, such as `count` and `index` of tuples.
    if (found is None and not hasattr(record, name)) or isinstance(found, _METHODS):
        raise _no_field(record, name)
    return found


def plain_fields(record: Any, names: Sequence[str]) -> list[Any]:
    """Return fields of an instance of a class with fields; enum members as their values.

    Raises:
        AttributeError: The class has no such field.
    """
    return plain_values([getattr(record, name) for name in names])


def plain_values(values: list[Any]) -> list[Any]:
    """Return values with members of enums, also those in lists, tuples and dictionaries, as theirs.

    Args:
        values: Fields of a record; the list does not change.
    """
    if _SCALARS.issuperset(map(type, values)):
        return values
    return [_plain_value(value) for value in values]


def _plain_value(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list or kind is tuple:
        # The elements of a list have one type: without a member at its beginning it has none.
        first = next((each for each in value if each is not None), None)
        if kind is list and type(first) in _SCALARS:
            return value
        return kind(plain_values(list(value)))
    if kind is dict:
        return dict(zip(plain_values(list(value)), plain_values(list(value.values())), strict=True))
    return value.value if isinstance(value, Enum) else value


def with_field(record: Any, name: str, value: Any) -> Any:
    """Return a copy of a record in which one field has another value.

    Raises:
        InvalidProgramError: The record has no field with that name.
    """
    record_field(record, name)
    if isinstance(record, tuple) and not isinstance(record, Row):
        fields: Any = record
        return fields._replace(**{name: value})
    changed = copy.copy(record)
    if isinstance(record, dict):
        changed[name] = value
    else:
        # Frozen classes reject assignments, and models validate them.
        object.__setattr__(changed, name, value)
    return changed


def _no_field(record: Any, name: str) -> InvalidProgramError:
    if isinstance(record, Row):
        names = list(record._field_names() or ())
    elif isinstance(record, dict):
        names = list(map(str, record))
    else:
        declared: Any = names_in(record)
        names = list(
            vars(record) if declared is None and hasattr(record, "__dict__") else declared or ()
        )
    text = repr_in_time(record)
    shown = text if len(text) <= 100 else f"{text[:97]}…"
    return InvalidProgramError(f"{shown} has no field {name!r}{nearest_hint(name, names)}")
