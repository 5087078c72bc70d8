"""Keyed state in memory: the entries of one named state, by namespace and key.

A table may be read as it was while it changes (``StateTable.open_snapshot``).  It counts the
snapshots that were opened, and an entry knows the count at its last change: its epoch.  An entry of
an earlier epoch than a snapshot's is serialised for it before it changes, before its value is given
to somebody who may change it in place, or when the snapshot's cursor comes to it, whichever is
first.

A table may also be what is in memory of a store that holds more (``StateTable.attach``): a key that
is not here is looked for there.  Then an entry of a later epoch than ``written`` has changed since
it was last written there, and the others may be let go of.

``penstock._native.state_table`` is the native twin.  Take both from
``penstock.taskexecutor.state.heap``.  Keys are identities, as a ``KeyReader`` gives them, so that
those are equal whose serialised forms are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import CorruptStreamError, IllegalStateError
from penstock.serialization.pure.dynamic_codec import decode_dynamic
from penstock.serialization.pure.value_bytes import Reader
from penstock.taskexecutor.state.key_group_entries import ENTRY, NAMESPACE, KeyGroupEntries
from penstock.taskexecutor.state.removals import Removals
from penstock.taskexecutor.state.state_map import CONSTANT as CONSTANT
from penstock.taskexecutor.state.state_map import StateMap as StateMap
from penstock.taskexecutor.state.state_map import TableStore as TableStore
from penstock.taskexecutor.state.state_map import never_changes as never_changes
from penstock.taskexecutor.state.table_snapshot import TableSnapshot as TableSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.state_rows import StateRows


#: Entries that are looked at for each row that may be given at a time.
_LOOKED: Final = 16


class StateTable:
    """All keys and namespaces of one state of one operator.

    Attributes:
        name: The name of its descriptor.
        kind: ``value``, ``list``, ``map``, ``reducing`` or ``aggregating``; ``timer`` is one whose
            namespaces are times and whose keys are pairs of key and namespace.
        epoch: Number of the snapshots opened until now.
        written: Entries of a later epoch are not as in the store.
        snapshots: Those that are open.
        changes: Knows when entries of a group last changed; None if it need not.
        removals: Knows which entries were removed; None if it need not.
        snapshot_filter: Gives what a snapshot keeps of a value, None for nothing; None keeps all.
        store: Where the entries are that are not here; None when all of them are.
        room: How many entries may be added before the store must make room.
    """

    def __init__(self, name: str, kind: str) -> None:
        """Creates an empty table."""
        self.name = name
        self.kind = kind
        self.epoch = 0
        self.written = 0
        self.snapshots: list[TableSnapshot] = []
        self.changes: KeyGroupEntries | None = None
        self.removals: Removals | None = None
        self.snapshot_filter: Callable[[Any], Any] | None = None
        self.store: TableStore | None = None
        self.room = 0
        #: Where `let_go` goes on: a slot, and a position in its map.
        self._cursor = (0, 0)
        self._maps: dict[Any, StateMap] = {}
        self._slots: list[StateMap | None] = []
        self._free_slots: list[int] = []
        self._numbers = 0
        self.map(None)

    def map(self, namespace: Any) -> StateMap:
        """The entries of a namespace, created when missing."""
        found = self._maps.get(namespace)
        if found is None:
            found = self._maps[namespace] = StateMap(self, namespace)
            if self.store is not None:
                self.store.adopt(found)
            found.number = self._numbers
            self._numbers += 1
            if self._free_slots:
                found.slot = self._free_slots.pop()
                self._slots[found.slot] = found
            else:
                found.slot = len(self._slots)
                self._slots.append(found)
        return found

    def namespaces(self) -> list[StateMap]:
        """The maps of all namespaces, as a list."""
        if self.store is not None:
            for namespace in self.store.namespaces():
                self.map(namespace)
        return list(self._maps.values())

    def dispose(self) -> None:
        """Lets go of the entries in memory; what a store has goes with the store."""
        self.changes = None
        self.removals = None
        for found in self._maps.values():
            found.is_stored = False
            found.clear()

    def drop_if_empty(self, namespace: Any) -> None:
        """Forgets a namespace that holds no key any more, or none that is not in the store."""
        if namespace is not None:
            found = self._maps.get(namespace)
            if found is not None and not found._positions:
                self._drop(found)

    def attach(self, store: TableStore) -> None:
        """Keeps a part of a store from now on; the table is empty."""
        self.store = store
        self.epoch = 1
        for found in self._maps.values():
            store.adopt(found)

    @property
    def num_cached(self) -> int:
        """Number of the entries that are in memory."""
        return sum(len(found._positions) for found in self._maps.values())

    def changed_rows(
        self, rows: StateRows, most: int, most_bytes: int, last: int | None = None
    ) -> Iterator[tuple[list[tuple[bytes, bytes]], list[Any]]]:
        """The entries that have changed since ``note_written``, as rows, some at a time.

        Those of a ``last`` epoch that is over may be asked for while the table changes: what
        changes meanwhile is left out, and what was given has changed again.

        Args:
            rows: Makes them.
            most: How many rows are given at a time at most.
            most_bytes: After how many bytes those that there are are given.
            last: Entries of a later epoch are left out; None for none.

        Yields:
            Rows, at times none so that no search lasts long, and the namespaces that may have got
            their first ones.

        Raises:
            SerializationError: An entry cannot be serialised.
        """
        end = self.epoch if last is None else last
        changed: list[tuple[bytes, bytes]] = []
        new: list[StateMap] = []
        given: StateMap | None = None
        size = looked = slot = 0
        while slot < len(self._slots):
            found = self._slots[slot]
            slot += 1
            position = -1
            while found is not None and position + 1 < len(found._entries):
                position += 1
                looked += 1
                entry = found._entries[position]
                if entry is not None and self.written < found._epochs[position] <= end:
                    row = rows.row(found, *entry)
                    changed.append(row)
                    size += len(row[0]) + len(row[1])
                    if found is not given:
                        given = found
                        new.append(found)
                if len(changed) >= most or size >= most_bytes or looked >= _LOOKED * most:
                    yield changed, self._stored(new)
                    changed, new, given, size, looked = [], [], None, 0, 0
            looked += 1
        if changed:
            yield changed, self._stored(new)

    def _stored(self, maps: list[StateMap]) -> list[Any]:
        """Maps are about to have rows; the namespaces of those that had none."""
        new = [found.namespace for found in maps if not found.is_stored]
        for found in maps:
            found.is_stored = True
        return new

    def note_written(self, last: int | None = None) -> None:
        """Note that the result of ``changed_rows`` is in the store as well.

        Args:
            last: As of ``changed_rows``.
        """
        if last is None:
            last = self.epoch
            self.epoch += 1
            for found in self._maps.values():
                found._found = -1
        self.written = max(self.written, last)

    def let_go(self, wanted: int) -> int:
        """Lets go of up to so many entries that have not changed; gives how many they were.

        It goes on where it stopped the last time.  Namespaces without entries in memory are
        forgotten, unless somebody else holds their map.
        """
        gone, visited = 0, 0
        slot, position = self._cursor
        while gone < wanted and visited <= len(self._slots):
            found = self._slots[slot] if slot < len(self._slots) else None
            if found is not None:
                end = len(found._entries)
                while position < end and gone < wanted:
                    if self._is_written(found, position):
                        for snapshot in self.snapshots:
                            snapshot.save(found, position)
                        # Again: serialising may run code of a value's class.
                        if self._is_written(found, position):
                            found._take_out(position)
                            gone += 1
                    position += 1
                if position < end:
                    break
                is_empty = found.namespace is not None and not found._positions
                # The table holds it twice, this function and its call once each.
                if is_empty and sys.getrefcount(found) == 4:
                    self._drop(found)
            slot, position = (slot + 1) % len(self._slots), 0
            visited += 1
        self._cursor = (slot, position)
        return gone

    def _is_written(self, found: StateMap, position: int) -> bool:
        """Return whether there is an entry at a position that is in the store as well."""
        if position >= len(found._entries) or found._entries[position] is None:
            return False
        return found._epochs[position] <= self.written

    def _drop(self, found: StateMap) -> None:
        del self._maps[found.namespace]
        self._slots[found.slot] = None
        self._free_slots.append(found.slot)
        found.slot = -1

    def peek(
        self, slot: int, position: int, count: int
    ) -> tuple[list[tuple[StateMap, Any, Any]], int, int]:
        """Some entries, for one who looks at all in turn and changes none in place.

        Args:
            slot: Where to begin: 0, or what the last call gave.
            position: As ``slot``.
            count: How many places are looked at, those without an entry among them.

        Returns:
            The map, key and value of each; and where to go on, 0 and 0 at the end.
        """
        found: list[tuple[StateMap, Any, Any]] = []
        for _ in range(count):
            if slot >= len(self._slots):
                return found, 0, 0
            contents = self._slots[slot]
            if contents is None or position >= len(contents._entries):
                slot, position = slot + 1, 0
                continue
            entry = contents._entries[position]
            if entry is not None:
                found.append((contents, *entry))
            position += 1
        return found, slot, position

    def note_changes(self, kind: str | None, max_parallelism: int, key_groups: range) -> None:
        """Has the table know from now on which key groups change: `changed_groups` tells them.

        Args: As of ``open_snapshot``.
        """
        if self.changes is None:
            self.changes = KeyGroupEntries(kind, max_parallelism, key_groups, self.kind == "timer")

    def changed_groups(self, since: int) -> list[int]:
        """The key groups with an entry that is not as it was, may not be, or is gone.

        Args:
            since: The epoch of an earlier snapshot; 0 for none, which all groups differ from.

        Raises:
            IllegalStateError: The table does not note its changes.
        """
        if self.changes is None:
            raise IllegalStateError(f"state {self.name!r} does not note which key groups change")
        return self.changes.changed_since(since)

    def note_removals(self) -> None:
        """Has the table know from now on which entries are removed: ``removals`` tells them."""
        if self.removals is None:
            self.removals = Removals(self.epoch)

    def open_snapshot(
        self,
        kind: str | None,
        max_parallelism: int,
        key_groups: range,
        kept: Collection[int] = (),
        since: int = 0,
    ) -> TableSnapshot:
        """Open a snapshot of the table, read in slices while the table changes.

        Several may be open at a time.  Only the thread that uses the table may read them.

        Args:
            kind: That of the declared type of keys, which their hash depends on; None for none.
            max_parallelism: Number of all key groups.
            key_groups: Those that all keys of the table are in.
            kept: Those of them that are not serialised: they are as in an earlier snapshot.
            since: The epoch of an earlier snapshot: entries are left out that are as they were
                then; 0 for none.
        """
        entries = KeyGroupEntries(kind, max_parallelism, key_groups, self.kind == "timer", kept)
        return TableSnapshot(self, entries, since)

    def open_unwritten(
        self, kind: str | None, max_parallelism: int, key_groups: range
    ) -> TableSnapshot:
        """Open a snapshot of the entries that are not in the store, read in slices.

        Args: As of ``open_snapshot``.
        """
        return self.open_snapshot(kind, max_parallelism, key_groups, (), self.written + 1)

    def load(self, data: bytes, keys: KeyReader) -> None:
        """Puts the entries in that a snapshot serialised.

        Args:
            data: Those of a key group.
            keys: Gives what stands for a key.

        Raises:
            CorruptStreamError: The bytes are not what was written.
        """
        reader = Reader(data)
        contents = self.map(None)
        while reader.position < reader.end:
            tag = reader.take(1)[0]
            if tag == NAMESPACE:
                contents = self.map(decode_dynamic(reader))
                continue
            if tag != ENTRY:
                raise CorruptStreamError(f"0x{tag:02x} where an entry of state begins")
            key = keys.identity(decode_dynamic(reader))
            value = decode_dynamic(reader)
            if self.kind == "timer":
                contents.put(key if value is None and type(key) is not tuple else (key, value), 1)
            else:
                contents.put(key, value)

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """Every entry as (namespace, key, value)."""
        for found in self.namespaces():
            for key, value in found:
                yield found.namespace, key, value

    def __len__(self) -> int:
        return sum(len(found) for found in self.namespaces())
