"""TypeSerializer: writes and reads one kind of value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from io import BytesIO

__all__ = [
    "TypeSerializer",
]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes and reads values of one kind; two of the same class are interchangeable."""

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Write a record at the stream's position."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read one record from the stream's position."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self).__name__)


class VoidNamespaceSerializer(TypeSerializer[None]):
    """The namespace of state without a window: nothing is written."""

    def serialize(self, element: None, stream: BytesIO) -> None:
        """Write nothing."""

    def deserialize(self, stream: BytesIO) -> None:
        """Read nothing."""
