"""CopyOnWriteStateMap: the entries of one namespace of a state, copied on write for open snapshots.

It is a part of a `StateTable`, whose module says how snapshots are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.errors import IllegalStateError, SerializationError
from penstock.serialization.pure.dynamic_codec import decode_dynamic
from penstock.serialization.pure.value_bytes import Reader
from penstock.taskexecutor.state.naming import name_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.taskexecutor.state.table import StateTable

#: Below it, the native twin adds two integers without creating objects.
_MAX_TERM: Final = 1 << 61

#: Values of these classes are immutable, and so are tuples of them.
CONSTANT: Final = frozenset((str, int, float, bool, bytes, type(None)))
_TUPLE_DEPTH: Final = 3


def never_changes(value: object, depth: int = _TUPLE_DEPTH) -> bool:
    """Return whether a value is immutable, as far as a quick check can tell."""
    if type(value) in CONSTANT:
        return True
    if type(value) is not tuple or depth == 0 or len(value) > 16:
        return False
    return all(never_changes(item, depth - 1) for item in value)


class TableStore(Protocol):
    """Storage of a table's entries that are not in memory."""

    def read(self, contents: CopyOnWriteStateMap, key: object) -> bytes | None:
        """Return the serialised value of a key that is not in memory, or None."""

    def note_removed(self, contents: CopyOnWriteStateMap, key: object) -> None:
        """Note the removal of a key."""

    def make_room(self) -> None:
        """Evict entries, and set ``StateTable.room`` to the number that may be added."""

    def adopt(self, contents: CopyOnWriteStateMap) -> None:
        """Attach a new map of a namespace: set ``is_stored``, ``tail`` and ``original``."""

    def namespaces(self) -> Iterable[Any]:
        """Return the namespaces that have written entries."""

    def items(self, contents: CopyOnWriteStateMap) -> Iterator[tuple[Any, Any]]:
        """Yield every present key and value of a namespace, in memory or not."""

    def clear(self, contents: CopyOnWriteStateMap) -> None:
        """Remove the written entries of a namespace."""


class CopyOnWriteStateMap:
    """The entries of one namespace in order of insertion, save that new ones fill gaps.

    An entry keeps its position until it is removed, so that one look-up serves a read and a write.

    Attributes:
        table: The table that the map belongs to.
        namespace: The namespace; None outside of windows.
        is_stored: Whether the table's store may have entries that are not here.
        tail: Set by the store: the namespace's bytes in its keys.
        original: Set by the store: the namespace's bytes in its values.
    """

    def __init__(self, table: StateTable, namespace: Any) -> None:
        """Create an empty map; use ``StateTable.map``."""
        self.table = table
        self.namespace = namespace
        self._positions: dict[Any, int] = {}
        self._entries: list[tuple[Any, Any] | None] = []
        self._epochs: list[int] = []
        self._free: list[int] = []
        #: Its place in the table; -1 after it was dropped.
        self.slot = -1
        #: Unique among the namespaces of a table; 0 is None.
        self.number = 0
        #: The position found last, until an entry is removed.
        self._found = -1
        self.is_stored = False
        self.tail: bytes | None = None
        self.original = b""

    def find(self, key: object) -> int:
        """Return the position of a key, or -1."""
        position = self._located(key)
        self._found = -1 if position is None else position
        return self._found

    def at(self, position: int) -> Any:
        """Return the value at a position.

        Raises:
            IllegalStateError: There is no entry at the position.
        """
        entry = self._entries[position] if 0 <= position < len(self._entries) else None
        if entry is None:
            raise IllegalStateError(f"state {self.table.name!r} has no entry at {position}")
        self._lend(position, entry[1])
        return entry[1]

    def put_at(self, position: int, key: object, value: object) -> None:
        """Set the value of a key; ``position`` is the result of ``find``."""
        if position < 0 or position != self._found:
            # The key is new, or a call since then has used or changed the state.
            self.put(key, value)
        else:
            self._touch(position)
            self._entries[position] = (key, value)

    def increase(self, key: object, number: object) -> object:
        """Add an integer to that of a key and return the sum.

        Return None, without a change, if the key is missing, if one of both is not an integer, or
        if one has more than 60 bits.
        """
        position = self._located(key)
        if position is None or type(number) is not int:
            return None
        kept = self._entries[position][1]  # type: ignore[index]
        if type(kept) is not int or not -_MAX_TERM < number < _MAX_TERM:
            return None
        total = kept + number
        if not -_MAX_TERM < total < _MAX_TERM:
            return None
        self._touch(position)
        self._entries[position] = (key, total)
        return total

    def get(self, key: object) -> Any:
        """Return the value of a key, or None."""
        position = self._located(key)
        if position is None:
            return None
        value = self._entries[position][1]  # type: ignore[index]
        self._lend(position, value)
        return value

    def put(self, key: object, value: object) -> None:
        """Set the value of a key."""
        position = self._positions.get(key)
        if position is None:
            self._insert(key, value, is_changed=True)
        else:
            self._touch(position)
            self._entries[position] = (key, value)

    def remove(self, key: object) -> Any:
        """Remove a key and return its value, or None."""
        position = self._located(key)
        if position is None:
            return None
        self._touch(position)
        value = self._take_out(position)[1]
        if self.table.removals is not None:
            self.table.removals.note(self.namespace, key)
        if self.is_stored:
            assert self.table.store is not None
            self.table.store.note_removed(self, key)
        return value

    def clear(self) -> None:
        """Remove every entry."""
        self._found = -1
        if self.is_stored:
            assert self.table.store is not None
            self.table.store.clear(self)
            self.is_stored = False
        if self.table.changes is not None and self._positions:
            self.table.changes.note_all_changed(self.table.epoch)
        if self.table.removals is not None:
            for key in self._positions:
                self.table.removals.note(self.namespace, key)
        if self.table.snapshots and self._positions:
            # There may be many: the snapshots serialise them later.
            contents = CopyOnWriteStateMap(self.table, self.namespace)
            contents.number = self.number
            contents._entries, contents._epochs = self._entries, self._epochs
            self._entries, self._epochs = [], []
            for snapshot in self.table.snapshots:
                snapshot.detach(self, contents)
        self._positions.clear()
        self._epochs.clear()
        self._free.clear()
        # Last, since it may run user code.
        self._entries.clear()

    def keys(self) -> list[object]:
        """Return the keys, as a list."""
        if self.is_stored:
            return [key for key, _ in self]
        return [entry[0] for entry in self._entries if entry is not None]

    def values(self) -> list[Any]:
        """Return the values, as a list."""
        return [value for _, value in self]

    def items(self) -> list[tuple[Any, Any]]:
        """Return the pairs of key and value, as a list."""
        return list(self)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield pairs of key and value, read during the iteration.

        Pairs of a store are read at the start.
        """
        if self.table.store is not None:
            yield from self.table.store.items(self) if self.is_stored else self._in_memory()
            return
        for position, entry in enumerate(self._entries):
            if entry is not None:
                self._lend(position, entry[1])
                yield entry

    def __len__(self) -> int:
        return sum(1 for _ in self) if self.is_stored else len(self._positions)

    def __contains__(self, key: object) -> bool:
        return self._located(key) is not None

    def touch(self, key: object) -> None:
        """Mark the entry of a key as changed in this epoch, if it is in memory."""
        position = self._positions.get(key)
        if position is not None:
            self._touch(position)

    def _in_memory(self) -> list[tuple[Any, Any]]:
        """Return the pairs in memory, which may be evicted during the iteration."""
        for position, entry in enumerate(self._entries):
            if entry is not None:
                self._lend(position, entry[1])
        return [entry for entry in self._entries if entry is not None]

    def _located(self, key: object) -> int | None:
        """Return the position of a key, loading the entry from the store if necessary."""
        position = self._positions.get(key)
        if position is None and self.is_stored:
            store = self.table.store
            assert store is not None
            data = store.read(self, key)
            if data is not None:
                try:
                    value = decode_dynamic(Reader(data))
                except SerializationError as error:
                    name_state(error, self.table.name)
                    raise
                position = self._insert(key, value, is_changed=False)
        return position

    def _insert(self, key: object, value: object, *, is_changed: bool) -> int:
        """Add a missing key; an entry loaded from the store counts as unchanged."""
        table = self.table
        if table.store is not None:
            if table.room <= 0:
                table.store.make_room()
            table.room -= 1
        # Only now: making room may start an epoch.
        epoch = table.epoch if is_changed else 0
        if table.changes is not None:
            table.changes.note_change(key, table.epoch)
        if self._free:
            position = self._free.pop()
            self._entries[position] = (key, value)
            self._epochs[position] = epoch
        else:
            position = len(self._entries)
            self._entries.append((key, value))
            self._epochs.append(epoch)
        self._positions[key] = position
        return position

    def _take_out(self, position: int) -> tuple[Any, Any]:
        entry = self._entries[position]
        assert entry is not None, "the caller has found it"
        del self._positions[entry[0]]
        self._entries[position] = None
        self._free.append(position)
        self._found = -1
        return entry

    def _touch(self, position: int) -> None:
        """Save an entry for snapshots before it changes, and mark it as changed."""
        table = self.table
        if self._epochs[position] != table.epoch:
            if table.changes is not None:
                entry = self._entries[position]
                assert entry is not None, "the caller has found it"
                table.changes.note_change(entry[0], table.epoch)
            for snapshot in table.snapshots:
                snapshot.save(self, position)
            self._epochs[position] = table.epoch

    def _lend(self, position: int, value: object) -> None:
        """Save an entry before its value is returned, if the caller may mutate the value."""
        if self._epochs[position] != self.table.epoch and not never_changes(value):
            self._touch(position)
