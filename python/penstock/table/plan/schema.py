"""The columns of a relation: names, logical types with time attributes, and the primary key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.table.types import DataType


@dataclass(frozen=True)
class Field:
    """One column.

    Attributes:
        name: The name of the column.
        type: The logical type, with its nullability and time attribute.
    """

    name: str
    type: DataType

    @property
    def is_rowtime(self) -> bool:
        """True if the column is an event-time attribute."""
        return getattr(self.type, "is_rowtime", False)

    @property
    def is_proctime(self) -> bool:
        """True if the column is a processing-time attribute."""
        return getattr(self.type, "is_proctime", False)

    @property
    def is_time(self) -> bool:
        """True if the column is a time attribute."""
        return is_time_attribute(self.type)

    def plain(self) -> Field:
        """Return the column as an ordinary timestamp, if it is a time attribute."""
        return Field(self.name, materialized(self.type)) if self.is_time else self


def is_time_attribute(data_type: DataType) -> bool:
    """Return whether a type is an event-time or processing-time attribute."""
    return bool(getattr(data_type, "is_rowtime", False) or getattr(data_type, "is_proctime", False))


def without_time(data_type: DataType) -> DataType:
    """Return a type without its time attribute."""
    typed: Any = data_type
    return typed.with_time_attribute(None) if hasattr(typed, "with_time_attribute") else data_type


def materialized(data_type: DataType) -> DataType:
    """Return a type without its time attribute, which DESCRIBE still shows."""
    typed: Any = data_type
    return typed.materialized() if hasattr(typed, "materialized") else data_type


@dataclass(frozen=True)
class Schema:
    """The columns of a relation, in order.

    Attributes:
        fields: The columns.
        primary_key: The positions of the key columns; None without a key.
    """

    fields: tuple[Field, ...]
    primary_key: tuple[int, ...] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in self.fields]

    @property
    def types(self) -> list[DataType]:
        """The logical types of the columns."""
        return [field.type for field in self.fields]

    def index(self, name: str) -> int | None:
        """Return the position of the column ``name``, or None."""
        for position, field in enumerate(self.fields):
            if field.name == name:
                return position
        return None

    def renamed(self, names: Sequence[str]) -> Schema:
        """Return the schema with other names; there must be one for each column."""
        pairs = zip(self.fields, names, strict=True)
        return Schema(tuple(Field(name, field.type) for field, name in pairs), self.primary_key)

    def without_times(self) -> Schema:
        """Return the schema with ordinary columns in place of time attributes."""
        return Schema(tuple(field.plain() for field in self.fields), self.primary_key)

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)
