"""Keyed state in memory: the entries of one named state, by namespace and key.

``penstock._native.state_table`` is the native twin.  Take both from
``penstock.taskexecutor.state.heap``.  Keys are identities, as a ``KeyReader`` gives them, so that
those are equal whose serialised forms are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Iterator


#: The sum of two integers below it is one that the native twin keeps without an object.
_MAX_TERM: Final = 1 << 61


class StateMap:
    """The entries of one namespace, in the order of insertion save that removed ones are replaced.

    An entry has a position as long as it is not removed, so that it may be found once and then be
    read and written.

    Attributes:
        table: What it is a part of.
        namespace: The namespace; None outside of windows.
    """

    def __init__(self, table: StateTable, namespace: Any) -> None:
        """Creates an empty map; use ``StateTable.map``."""
        self.table = table
        self.namespace = namespace
        self._positions: dict[Any, int] = {}
        self._entries: list[tuple[Any, Any] | None] = []
        self._free: list[int] = []
        #: The position that was found last, until something is removed.
        self._found = -1

    def find(self, key: Any) -> int:
        """The position of a key, -1 when it is not there."""
        self._found = self._positions.get(key, -1)
        return self._found

    def at(self, position: int) -> Any:
        """The value at a position.

        Raises:
            IllegalStateError: There is none.
        """
        entry = self._entries[position] if 0 <= position < len(self._entries) else None
        if entry is None:
            raise IllegalStateError(f"state {self.table.name!r} has no entry at {position}")
        return entry[1]

    def put_at(self, position: int, key: Any, value: Any) -> None:
        """Sets the value of a key that was looked for: ``position`` is what ``find`` gave."""
        if position < 0 or position != self._found:
            # It is new, or what was called since it was found has used or changed the state.
            self.put(key, value)
        else:
            self._entries[position] = (key, value)

    def increase(self, key: Any, number: Any) -> Any:
        """Adds an integer to that of a key and gives the sum.

        None, and nothing has changed, where the key is not there, one of both is no integer, or one
        has more than 60 bits.
        """
        position = self._positions.get(key)
        if position is None or type(number) is not int:
            return None
        kept = self._entries[position][1]  # type: ignore[index]
        if type(kept) is not int or not -_MAX_TERM < number < _MAX_TERM:
            return None
        total = kept + number
        if not -_MAX_TERM < total < _MAX_TERM:
            return None
        self._entries[position] = (key, total)
        return total

    def get(self, key: Any) -> Any:
        """The value of a key, None when it is not there."""
        position = self._positions.get(key)
        return None if position is None else self._entries[position][1]  # type: ignore[index]

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        position = self._positions.get(key)
        if position is None:
            if self._free:
                position = self._free.pop()
                self._entries[position] = (key, value)
            else:
                position = len(self._entries)
                self._entries.append((key, value))
            self._positions[key] = position
        else:
            self._entries[position] = (key, value)

    def remove(self, key: Any) -> Any:
        """Removes a key and gives its value, None when it is not there."""
        position = self._positions.pop(key, None)
        if position is None:
            return None
        entry = self._entries[position]
        assert entry is not None
        self._entries[position] = None
        self._free.append(position)
        self._found = -1
        return entry[1]

    def clear(self) -> None:
        """Removes every entry."""
        self._found = -1
        self._positions.clear()
        self._entries.clear()
        self._free.clear()

    def keys(self) -> list[Any]:
        """The keys, as a list."""
        return [entry[0] for entry in self._entries if entry is not None]

    def values(self) -> list[Any]:
        """The values, as a list."""
        return [entry[1] for entry in self._entries if entry is not None]

    def items(self) -> list[tuple[Any, Any]]:
        """Pairs of key and value, as a list."""
        return [entry for entry in self._entries if entry is not None]

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of key and value, taken while it goes on."""
        return (entry for entry in self._entries if entry is not None)

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, key: object) -> bool:
        return key in self._positions


class StateTable:
    """All keys and namespaces of one state of one operator.

    Attributes:
        name: The name of its descriptor.
        kind: ``value``, ``list``, ``map``, ``reducing`` or ``aggregating``.
    """

    def __init__(self, name: str, kind: str) -> None:
        """Creates an empty table."""
        self.name = name
        self.kind = kind
        self._maps: dict[Any, StateMap] = {}
        self.map(None)

    def map(self, namespace: Any) -> StateMap:
        """The entries of a namespace, created when missing."""
        found = self._maps.get(namespace)
        if found is None:
            found = self._maps[namespace] = StateMap(self, namespace)
        return found

    def namespaces(self) -> list[StateMap]:
        """The maps of all namespaces, as a list."""
        return list(self._maps.values())

    def drop_if_empty(self, namespace: Any) -> None:
        """Forgets a namespace that holds no key any more."""
        if namespace is not None:
            found = self._maps.get(namespace)
            if found is not None and len(found) == 0:
                del self._maps[namespace]

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """Every entry as (namespace, key, value)."""
        for found in self.namespaces():
            for key, value in found:
                yield found.namespace, key, value

    def __len__(self) -> int:
        return sum(len(found) for found in self._maps.values())
