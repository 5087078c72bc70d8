"""Restored values whose classes had other fields when the savepoint was taken.

While state is restored, fields of an instance are matched with the current class by name: removed
fields are dropped, and added fields take their defaults.  Everywhere else a difference is an error,
since all processes of a job have the same class.

A program that reads a savepoint may lack the classes of the job; it reads their instances as rows.
"""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from threading import local
from types import MemberDescriptorType as _Slot
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.common.types import Row
from penstock.errors import SerializationError
from penstock.serialization.models import (
    REST,
    former_model,
    former_model_of,
    is_model,
    model_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

#: The kind of a `Layout` whose class is a function that creates an instance from written fields.
FORMER: Final = 12


class _Restoring(local):
    """Marks threads that restore or read state."""

    depth: int = 0
    reads_rows: bool = False


_restoring: Final = _Restoring()


@contextmanager
def former_fields_taken() -> Iterator[None]:
    """Mark this thread as restoring state, whose classes may have had other fields."""
    _restoring.depth += 1
    try:
        yield
    finally:
        _restoring.depth -= 1


@contextmanager
def unknown_classes_read_as_rows() -> Iterator[None]:
    """Mark this thread as a reader of state that may lack the classes of the job."""
    before, _restoring.reads_rows = _restoring.reads_rows, True
    try:
        with former_fields_taken():
            yield
    finally:
        _restoring.reads_rows = before


def reads_unknown_classes_as_rows() -> bool:
    """Return whether instances of classes that cannot be imported become rows."""
    return _restoring.reads_rows


def row_maker(written: Sequence[str]) -> Callable[[list[Any]], Any]:
    """Return the function that creates a row from the fields of an instance of an unknown class.

    Args:
        written: The fields that the class had, in the order of their values.
    """
    if written[0][:1] == "*" and written[0] != REST:  # a subclass of a builtin class
        return lambda values: values[0]
    names = [name for name in written if name != REST]

    def make(values: list[Any]) -> Row:
        row = Row(*values[: len(names)])
        row.set_field_names(names)
        return row

    return make


def takes_former_fields() -> bool:
    """Return whether this thread restores state."""
    return _restoring.depth > 0


def maker_of(cls: Any, written: Sequence[str], now: Sequence[str]) -> Callable[[list[Any]], Any]:
    """Return the function that creates an instance from the values of its former fields.

    Args:
        cls: The class.
        written: The fields that it had, in the order of their values.
        now: The fields that it has.

    Raises:
        SerializationError: An added field has no default; the message names the field.
    """

    def by_name(values: list[Any]) -> tuple[dict[str, Any], Any]:
        fields = dict(zip(written, values, strict=True))
        return fields, fields.pop(REST, None)

    if is_model(cls):
        return lambda values: former_model(cls, *by_name(values))
    if not (issubclass(cls, tuple) or dataclasses.is_dataclass(cls)):
        return lambda values: former_instance(cls, by_name(values)[0])
    gained = _defaults(cls, [name for name in now if name not in written])

    def make(values: list[Any]) -> Any:
        fields, _ = by_name(values)
        found = {name: fields[name] if name in fields else gained[name]() for name in now}
        if issubclass(cls, tuple):
            return tuple.__new__(cls, found.values())
        # As in unpickling, __init__ and __post_init__ are not called again.
        value = object.__new__(cls)
        for name, field in found.items():
            object.__setattr__(value, name, field)
        return value

    return make


def instance_of(cls: Any, attributes: Mapping[str, Any], *rest: Any) -> Any:
    """Return an instance created as by unpickling, without __init__ and __post_init__.

    Args:
        cls: The class.
        attributes: The contents of its dict or slots.
        rest: For a model, the fields that were set, and its private and extra attributes.
    """
    if rest:
        return model_of(cls, dict(attributes), *rest)
    value: Any = object.__new__(cls)
    held = getattr(value, "__dict__", None)
    if held is not None:
        held.update(attributes)
    else:
        for name, attribute in attributes.items():
            object.__setattr__(value, name, attribute)
    return value


def former_instance(cls: Any, attributes: Mapping[str, Any], *rest: Any) -> Any:
    """Return an instance from written attributes, of which the class may now have others.

    Attributes without a slot are dropped; missing fields of dataclasses and attrs take their
    defaults.  A deleted field also takes its default, since it cannot be distinguished from a field
    that did not exist when the instance was written.

    Raises:
        SerializationError: A missing field of attrs or of a model has no default; names the field.
    """
    if is_model(cls):
        names = tuple(attributes)
        return former_model_of(cls, dict(attributes), *(rest or (set(names), None, None, names)))
    found = dict(attributes)
    if dataclasses.is_dataclass(cls):
        missing = [f.name for f in dataclasses.fields(cls) if f.name not in attributes]
        gained = _defaults(cls, [name for name in missing if _has_default(cls, name)])
        found |= {name: default() for name, default in gained.items()}
    if cls.__dictoffset__ == 0:
        slots = [name for name in found if isinstance(getattr(cls, name, None), _Slot)]
        found = {name: found[name] for name in slots}
    value = instance_of(cls, found)
    if hasattr(cls, "__attrs_attrs__"):
        _add_fields_of_attrs(cls, value, attributes)
    return value


def _add_fields_of_attrs(cls: Any, value: Any, names: Collection[str]) -> None:
    """Set the added fields of an attrs instance to their defaults.

    Args:
        cls: The class.
        value: The instance, whose other fields are set.
        names: The fields that were written.

    Raises:
        SerializationError: A field has no default; names it.
    """
    written = set(names)
    for field in cls.__attrs_attrs__:
        if field.name in written:
            continue
        default = field.default
        if type(default).__name__ == "_Nothing":
            raise SerializationError(
                f"a value of {cls.__module__}:{cls.__qualname__} was written with the fields "
                f"({', '.join(names)}): {field.name!r} would need a default to be added to it"
            )
        factory = getattr(default, "factory", None)
        if factory is not None:
            default = factory(value) if default.takes_self else factory()
        object.__setattr__(value, field.name, default)


def _defaults(cls: Any, names: Sequence[str]) -> dict[str, Callable[[], Any]]:
    missing = [name for name in names if not _has_default(cls, name)]
    if missing:
        raise SerializationError(
            f"{', '.join(map(repr, missing))} would need a default to be added to it"
        )
    if issubclass(cls, tuple):
        defaults: Mapping[str, Any] = cls._field_defaults
        return {name: _constant(defaults[name]) for name in names}
    fields = {field.name: field for field in dataclasses.fields(cls)}
    return {name: _default(fields[name]) for name in names}


def _default(field: dataclasses.Field[Any]) -> Callable[[], Any]:
    if not _is_missing(field.default_factory):
        return cast("Callable[[], Any]", field.default_factory)
    return _constant(field.default)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _has_default(cls: Any, name: str) -> bool:
    if issubclass(cls, tuple):
        return name in cls._field_defaults
    field = next(field for field in dataclasses.fields(cls) if field.name == name)
    return not (_is_missing(field.default) and _is_missing(field.default_factory))


def _is_missing(default: object) -> bool:
    """Return whether a value marks a missing default, also in a class pickled by value."""
    return isinstance(default, type(dataclasses.MISSING))
