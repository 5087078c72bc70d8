"""ListView and MapView: collections in the accumulators of aggregate functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["DataView", "ListView", "MapView"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class DataView(ABC):
    """A collection in an accumulator."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all values."""


class ListView(DataView, Generic[T]):
    """A list in an accumulator."""

    def __init__(self) -> None:
        self._list: list[T] = []

    def get(self) -> Iterable[T]:
        """Return the values, in the order in which they were added."""
        return self._list

    def add(self, value: T) -> None:
        """Append a value."""
        self._list.append(value)

    def add_all(self, values: list[T]) -> None:
        """Append several values."""
        self._list.extend(values)

    def clear(self) -> None:
        """Remove all values."""
        self._list = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListView) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self._list))

    def __iter__(self) -> Iterator[T]:
        return iter(self._list)


class MapView(DataView, Generic[K, V]):
    """A map in an accumulator."""

    def __init__(self) -> None:
        self._dict: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return the value of a key; None without one."""
        return self._dict.get(key)

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        self._dict[key] = value

    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of several keys."""
        self._dict.update(dict_value)

    def remove(self, key: K) -> None:
        """Remove a key, if it exists."""
        self._dict.pop(key, None)

    def contains(self, key: K) -> bool:
        """Return whether a key has a value."""
        return key in self._dict

    def items(self) -> Iterable[tuple[K, V]]:
        """Return the keys with their values."""
        return self._dict.items()

    def keys(self) -> Iterable[K]:
        """Return the keys."""
        return self._dict.keys()

    def values(self) -> Iterable[V]:
        """Return the values."""
        return self._dict.values()

    def is_empty(self) -> bool:
        """Return whether the map is empty."""
        return not self._dict

    def clear(self) -> None:
        """Remove all keys."""
        self._dict = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapView) and self._dict == other._dict

    def __hash__(self) -> int:
        return hash(tuple(self._dict))

    def __getitem__(self, key: K) -> V:
        return self._dict[key]

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: object) -> bool:
        return key in self._dict

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dict)
