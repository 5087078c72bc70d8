"""Values of a savepoint whose classes had other fields when it was taken.

While state is restored, an instance that was written with other fields than its class has now is
made by the names of the fields: what the class has lost is dropped, what it has gained takes its
default.  Everywhere else other fields are an error: within a job all processes have one class.
"""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from threading import local
from types import MemberDescriptorType as _Slot
from typing import TYPE_CHECKING, Any, Final, cast

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

#: The kind of a `Layout` whose class is a function that makes an instance of the written fields.
FORMER: Final = 12


class _Restoring(local):
    """Marks threads that restore state."""

    depth: int = 0


_restoring: Final = _Restoring()


@contextmanager
def former_fields_taken() -> Iterator[None]:
    """State is restored by this thread: classes may have had other fields."""
    _restoring.depth += 1
    try:
        yield
    finally:
        _restoring.depth -= 1


def takes_former_fields() -> bool:
    """Return whether this thread restores state."""
    return _restoring.depth > 0


def maker_of(cls: Any, written: Sequence[str], now: Sequence[str]) -> Callable[[list[Any]], Any]:
    """Return the function that makes an instance of a class from its former fields' values.

    Args:
        cls: The class.
        written: The fields that it had, in the order of their values.
        now: The fields that it has.

    Raises:
        SerializationError: It has gained a field without a default; names it.
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
        # As unpickling does: __init__ and __post_init__ ran when the value was made.
        value = object.__new__(cls)
        for name, field in found.items():
            object.__setattr__(value, name, field)
        return value

    return make


def instance_of(cls: Any, attributes: Mapping[str, Any], *rest: Any) -> Any:
    """An instance made as unpickling does: __init__ and __post_init__ ran when the value was.

    Args:
        cls: The class.
        attributes: What its dict or its slots hold.
        rest: Of a model, which fields were set, and its private and extra attributes.
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
    """An instance of what was written of one, whose class may have other attributes now.

    What it has no slot for is dropped; fields of dataclasses and attrs that are missing take their
    defaults.  They may lack because they were deleted: while state is restored that cannot be told
    from an instance that was written before there were any.

    Raises:
        SerializationError: A field of attrs or of a model is missing that has no default; names it.
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
    """Gives an instance of an attrs class the defaults of the fields that it has gained.

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
