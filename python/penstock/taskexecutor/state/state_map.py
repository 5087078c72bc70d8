"""StateMap: the entries of one namespace of a state, copied on write for open snapshots.

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

#: The sum of two integers below it is one that the native twin keeps without an object.
_MAX_TERM: Final = 1 << 61

#: Values of these classes cannot be changed in place, nor can tuples of them.
CONSTANT: Final = frozenset((str, int, float, bool, bytes, type(None)))
_TUPLE_DEPTH: Final = 3


def never_changes(value: Any, depth: int = _TUPLE_DEPTH) -> bool:
    """Return whether a value is immutable, as far as a quick check can tell."""
    if type(value) in CONSTANT:
        return True
    if type(value) is not tuple or depth == 0 or len(value) > 16:
        return False
    return all(never_changes(item, depth - 1) for item in value)


class TableStore(Protocol):
    """Storage of a table's entries that are not in memory."""

    def read(self, contents: StateMap, key: Any) -> bytes | None:
        """The serialised value of a key that is not in memory, None when there is none."""

    def note_removed(self, contents: StateMap, key: Any) -> None:
        """A key is no longer there."""

    def make_room(self) -> None:
        """Lets go of entries, and says by ``StateTable.room`` how many more there may be."""

    def adopt(self, contents: StateMap) -> None:
        """A map was made for a namespace: sets ``is_stored``, ``tail`` and ``original``."""

    def namespaces(self) -> Iterable[Any]:
        """The namespaces that have entries that were written."""

    def items(self, contents: StateMap) -> Iterator[tuple[Any, Any]]:
        """Every key and value of a namespace, as they are now, in memory or not."""

    def clear(self, contents: StateMap) -> None:
        """Removes what was written of a namespace."""


class StateMap:
    """The entries of one namespace, in the order of insertion save that removed ones are replaced.

    An entry has a position as long as it is not removed, so that it may be found once and then be
    read and written.

    Attributes:
        table: What it is a part of.
        namespace: The namespace; None outside of windows.
        is_stored: Whether the table's store may have entries that are not here.
        tail: For the store, which sets it: what the namespace is in its keys.
        original: The same, for its values.
    """

    def __init__(self, table: StateTable, namespace: Any) -> None:
        """Creates an empty map; use ``StateTable.map``."""
        self.table = table
        self.namespace = namespace
        self._positions: dict[Any, int] = {}
        self._entries: list[tuple[Any, Any] | None] = []
        self._epochs: list[int] = []
        self._free: list[int] = []
        #: Its place in the table; -1 when it was taken out.
        self.slot = -1
        #: Differs between the namespaces of a table; 0 is None.
        self.number = 0
        #: The position that was found last, until something is removed.
        self._found = -1
        self.is_stored = False
        self.tail: bytes | None = None
        self.original = b""

    def find(self, key: Any) -> int:
        """The position of a key, -1 when it is not there."""
        position = self._located(key)
        self._found = -1 if position is None else position
        return self._found

    def at(self, position: int) -> Any:
        """The value at a position.

        Raises:
            IllegalStateError: There is none.
        """
        entry = self._entries[position] if 0 <= position < len(self._entries) else None
        if entry is None:
            raise IllegalStateError(f"state {self.table.name!r} has no entry at {position}")
        self._lend(position, entry[1])
        return entry[1]

    def put_at(self, position: int, key: Any, value: Any) -> None:
        """Sets the value of a key that was looked for: ``position`` is what ``find`` gave."""
        if position < 0 or position != self._found:
            # It is new, or what was called since it was found has used or changed the state.
            self.put(key, value)
        else:
            self._touch(position)
            self._entries[position] = (key, value)

    def increase(self, key: Any, number: Any) -> Any:
        """Adds an integer to that of a key and gives the sum.

        None, and nothing has changed, where the key is not there, one of both is no integer, or one
        has more than 60 bits.
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

    def get(self, key: Any) -> Any:
        """The value of a key, None when it is not there."""
        position = self._located(key)
        if position is None:
            return None
        value = self._entries[position][1]  # type: ignore[index]
        self._lend(position, value)
        return value

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        position = self._positions.get(key)
        if position is None:
            self._insert(key, value, is_changed=True)
        else:
            self._touch(position)
            self._entries[position] = (key, value)

    def remove(self, key: Any) -> Any:
        """Removes a key and gives its value, None when it is not there."""
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
        """Removes every entry."""
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
            # They may be many: the snapshots serialise them later.
            contents = StateMap(self.table, self.namespace)
            contents.number = self.number
            contents._entries, contents._epochs = self._entries, self._epochs
            self._entries, self._epochs = [], []
            for snapshot in self.table.snapshots:
                snapshot.detach(self, contents)
        self._positions.clear()
        self._epochs.clear()
        self._free.clear()
        # Last, since it may run code of users.
        self._entries.clear()

    def keys(self) -> list[Any]:
        """The keys, as a list."""
        if self.is_stored:
            return [key for key, _ in self]
        return [entry[0] for entry in self._entries if entry is not None]

    def values(self) -> list[Any]:
        """The values, as a list."""
        return [value for _, value in self]

    def items(self) -> list[tuple[Any, Any]]:
        """Pairs of key and value, as a list."""
        return list(self)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of key and value, taken while it goes on.

        Where they are in a store they are taken as they are now.
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

    def touch(self, key: Any) -> None:
        """Counts the entry of a key as changed in this epoch, if it is here."""
        position = self._positions.get(key)
        if position is not None:
            self._touch(position)

    def _in_memory(self) -> list[tuple[Any, Any]]:
        """The pairs that are here, which may be let go of while they are looked at."""
        for position, entry in enumerate(self._entries):
            if entry is not None:
                self._lend(position, entry[1])
        return [entry for entry in self._entries if entry is not None]

    def _located(self, key: Any) -> int | None:
        """The position of a key, which may be brought here from the store."""
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

    def _insert(self, key: Any, value: Any, *, is_changed: bool) -> int:
        """Adds a key that is not here; an entry from the store has not changed."""
        table = self.table
        if table.store is not None:
            if table.room <= 0:
                table.store.make_room()
            table.room -= 1
        # Only now: making room may begin an epoch.
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
        assert entry is not None, "who asks has looked"
        del self._positions[entry[0]]
        self._entries[position] = None
        self._free.append(position)
        self._found = -1
        return entry

    def _touch(self, position: int) -> None:
        """Prepares for a change of an entry."""
        table = self.table
        if self._epochs[position] != table.epoch:
            if table.changes is not None:
                entry = self._entries[position]
                assert entry is not None, "who asks has looked"
                table.changes.note_change(entry[0], table.epoch)
            for snapshot in table.snapshots:
                snapshot.save(self, position)
            self._epochs[position] = table.epoch

    def _lend(self, position: int, value: Any) -> None:
        """Prepares for giving a value away, who has which may change it in place."""
        if self._epochs[position] != self.table.epoch and not never_changes(value):
            self._touch(position)
