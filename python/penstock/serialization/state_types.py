"""The declared types of states in a savepoint, and the conversion of values between types.

A type is recorded as JSON: ``{"kind", "name"}``, and ``"fields"`` and ``"names"`` if the kind has
them; ``"ttl"`` marks values that carry the time of their last use.  If a job opens the state with
another type, its values are converted by the names of fields, or the job is rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.common.types import Row
from penstock.common.values.decoders import json_decoder
from penstock.errors import SerializationError
from penstock.serialization.type_schema import ANY, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation
    from penstock.serialization.type_schema import TypeSchema

    Migration = Callable[[Any], Any] | None

#: The version of the text of a type.
FORMAT_VERSION: Final = 1


class StateType(msgspec.Struct, frozen=True, omit_defaults=True):
    """A declared type.

    Attributes:
        kind: The kind of the `TypeSchema`.
        name: The type as the user wrote it.
        fields: The fields of a tuple or row, the element of a list, the key and value of a map.
        names: The field names of a row.
        ttl: Whether the state has a time to live.
        version: The version of the text's format; written if it is not 1.
    """

    kind: str
    name: str
    fields: tuple[StateType, ...] = ()
    names: tuple[str, ...] = ()
    ttl: bool = False
    version: int = FORMAT_VERSION

    def __str__(self) -> str:
        return f"{self.name} with a time to live" if self.ttl else self.name


_TYPES: Final = json_decoder(StateType)


@dataclass(frozen=True)
class IncompatibleTypesError(Exception):
    """Values of one type cannot be converted to another."""

    detail: str


def recorded_type(type_info: TypeInformation | None, *, ttl: bool = False) -> StateType:
    """Return the recorded form of a declared type; without a codec, only its name."""
    try:
        schema = schema_of(type_info)
    except SerializationError:
        return StateType("OTHER", str(type_info), ttl=ttl)
    recorded = _of_schema(schema)
    return msgspec.structs.replace(recorded, ttl=True) if ttl else recorded


def written_type(recorded: StateType) -> str:
    """Return the text of a recorded type."""
    return msgspec.json.encode(recorded).decode()


def read_type(text: str) -> StateType:
    """Return the type that `written_type` wrote.

    Raises:
        SerializationError: The text is malformed, or has a later version of the format.
    """
    try:
        found = _TYPES.decode(text)
    except msgspec.MsgspecError as error:
        raise SerializationError(f"{text!r} is not the type of a state: {error}") from error
    if found.version != FORMAT_VERSION:
        raise SerializationError(
            f"the type {found.name} of a state is recorded in version {found.version} of the "
            f"format; this version of penstock reads version {FORMAT_VERSION}"
        )
    return found


def migration(old: StateType, new: StateType) -> Migration:
    """Return the conversion of old values to the new type; None if they are the same.

    Raises:
        IncompatibleTypesError: Values of the old type cannot become values of the new one.
    """
    if (old.kind, old.name) == (new.kind, new.name) or new.kind == ANY.kind:
        return None
    if old.kind != new.kind:
        raise IncompatibleTypesError(f"{old.name} cannot become {new.name}")
    if old.kind == "ROW":
        return _row_migration(old, new)
    if old.kind == "TUPLE" and len(old.fields) == len(new.fields):
        return _tuple_migration(old, new)
    if old.kind == "LIST":
        element = migration(old.fields[0], new.fields[0])
        return None if element is None else lambda values: _each(values, element)
    if old.kind == "MAP" and migration(old.fields[0], new.fields[0]) is None:
        value = migration(old.fields[1], new.fields[1])
        return None if value is None else lambda content: _each_value(content, value)
    raise IncompatibleTypesError(f"{old.name} cannot become {new.name}")


def _of_schema(schema: TypeSchema) -> StateType:
    # The wire form of a converted type is not part of the type.
    fields = () if schema.kind == "CONVERTED" else tuple(map(_of_schema, schema.fields))
    return StateType(schema.kind, schema.name, fields, schema.field_names)


def _row_migration(old: StateType, new: StateType) -> Migration:
    """Match fields by name; an added field is None.

    Values of a field without a declared type are those that the new type has to describe.
    """
    sources: list[tuple[int, Migration] | None] = []
    for name, field in zip(new.names, new.fields, strict=True):
        if name in old.names:
            index = old.names.index(name)
            former = old.fields[index]
            sources.append((index, None if former.kind == ANY.kind else migration(former, field)))
        else:
            sources.append(None)
    positions = {name: index for index, name in enumerate(old.names)}

    def migrate(row: Any) -> Any:
        if row is None:
            return None
        named = row._field_names() if isinstance(row, Row) else None
        values = [None] * len(old.names)
        if named is None:
            values[: len(row)] = row
        else:
            for name, value in zip(named, row, strict=True):
                if name in positions:
                    values[positions[name]] = value
        found = [
            None if source is None else _migrated(values[source[0]], source[1])
            for source in sources
        ]
        made = Row(*found) if named is None else Row(**dict(zip(new.names, found, strict=True)))
        if isinstance(row, Row):
            made.set_row_kind(row.get_row_kind())
        return made

    return migrate


def _tuple_migration(old: StateType, new: StateType) -> Migration:
    fields = [migration(o, n) for o, n in zip(old.fields, new.fields, strict=True)]
    if not any(fields):
        return None
    return lambda values: tuple(
        _migrated(value, field) for value, field in zip(values, fields, strict=True)
    )


def _migrated(value: Any, field: Migration) -> Any:
    return value if field is None or value is None else field(value)


def _each(values: Any, element: Migration) -> list[Any]:
    return [_migrated(value, element) for value in values]


def _each_value(content: Any, value: Migration) -> dict[Any, Any]:
    return {key: _migrated(found, value) for key, found in content.items()}
