"""Keyed state in memory: the entries of one named state, by namespace and key.

A table can be read as of one moment while it changes (``StateTable.open_snapshot``).  It counts the
snapshots opened, and an entry stores the count at its last change: its epoch.  An entry of an
earlier epoch than a snapshot's is serialised for it before the entry changes, before its value is
returned to code that may mutate it, or when the snapshot's cursor reaches it, whichever is first.

A table may also be the cache of a larger store (``StateTable.attach``): missing keys are looked up
there.  Then an entry of a later epoch than ``written`` has changed since it was last written, and
the others may be evicted.

``penstock._native.state.state_table`` is the native twin.  Import both from
``penstock.taskexecutor.state.heap``.  Keys are identities, as a ``KeyReader`` returns them: they
are equal if their serialised forms are.
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
from penstock.taskexecutor.state.state_map import CopyOnWriteStateMap as CopyOnWriteStateMap
from penstock.taskexecutor.state.state_map import TableStore as TableStore
from penstock.taskexecutor.state.state_map import never_changes as never_changes
from penstock.taskexecutor.state.table_snapshot import TableSnapshot as TableSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.state_rows import StateRows


#: Entries visited for each row that may be returned at a time.
_LOOKED: Final = 16


class StateTable:
    """All keys and namespaces of one state of one operator.

    Attributes:
        name: The name of the state's descriptor.
        kind: ``value``, ``list``, ``map``, ``reducing`` or ``aggregating``; in a ``timer`` table
            namespaces are times and keys are pairs of key and namespace.
        epoch: Number of the snapshots opened until now.
        written: Entries of a later epoch differ from the store.
        snapshots: The open snapshots.
        changes: Last change of each key group; None if not needed.
        removals: The removed entries; None if not needed.
        snapshot_filter: Returns the part of a value to snapshot, or None; None keeps everything.
        store: Holds the entries that are not in memory; None if all are.
        room: Number of entries that may be added before the store must make room.
    """

    def __init__(self, name: str, kind: str) -> None:
        """Create an empty table."""
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
        #: Where `let_go` continues: a slot, and a position in its map.
        self._cursor = (0, 0)
        self._maps: dict[Any, CopyOnWriteStateMap] = {}
        self._slots: list[CopyOnWriteStateMap | None] = []
        self._free_slots: list[int] = []
        self._numbers = 0
        self.map(None)

    def map(self, namespace: object) -> CopyOnWriteStateMap:
        """Return the map of a namespace, created when missing."""
        found = self._maps.get(namespace)
        if found is None:
            found = self._maps[namespace] = CopyOnWriteStateMap(self, namespace)
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

    def namespaces(self) -> list[CopyOnWriteStateMap]:
        """Return the maps of all namespaces, as a list."""
        if self.store is not None:
            for namespace in self.store.namespaces():
                self.map(namespace)
        return list(self._maps.values())

    def dispose(self) -> None:
        """Release the entries in memory; the store disposes of its own."""
        self.changes = None
        self.removals = None
        for found in self._maps.values():
            found.is_stored = False
            found.clear()

    def drop_if_empty(self, namespace: object) -> None:
        """Drop a namespace that has no key, or with a store no key in memory."""
        if namespace is not None:
            found = self._maps.get(namespace)
            if found is not None and not found._positions:
                self._drop(found)

    def attach(self, store: TableStore) -> None:
        """Make the table, which is empty, the cache of a store."""
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
        """Yield the entries changed since ``note_written`` as rows, in batches.

        Entries up to a past ``last`` epoch may be read while the table changes: entries that change
        meanwhile are left out, and one that changes after it was yielded counts as changed again.

        Args:
            rows: Encodes the rows.
            most: Maximum number of rows in a batch.
            most_bytes: Number of bytes after which a batch is yielded.
            last: Entries of a later epoch are left out; None leaves none out.

        Yields:
            Rows, sometimes none so that no search takes long, and the namespaces that may have got
            their first rows.

        Raises:
            SerializationError: An entry cannot be serialised.
        """
        end = self.epoch if last is None else last
        changed: list[tuple[bytes, bytes]] = []
        new: list[CopyOnWriteStateMap] = []
        given: CopyOnWriteStateMap | None = None
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

    def _stored(self, maps: list[CopyOnWriteStateMap]) -> list[Any]:
        """Mark maps as stored; return the namespaces that were not."""
        new = [found.namespace for found in maps if not found.is_stored]
        for found in maps:
            found.is_stored = True
        return new

    def note_written(self, last: int | None = None) -> None:
        """Note that the store now has the rows of ``changed_rows``.

        Args:
            last: See ``changed_rows``.
        """
        if last is None:
            last = self.epoch
            self.epoch += 1
            for found in self._maps.values():
                found._found = -1
        self.written = max(self.written, last)

    def let_go(self, wanted: int) -> int:
        """Evict up to ``wanted`` unchanged entries; return their number.

        Each call continues where the last one stopped.  Namespaces without entries in memory are
        dropped, unless other code holds their map.
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
                # The table has two references, this function and its call one each.
                if is_empty and sys.getrefcount(found) == 4:
                    self._drop(found)
            slot, position = (slot + 1) % len(self._slots), 0
            visited += 1
        self._cursor = (slot, position)
        return gone

    def _is_written(self, found: CopyOnWriteStateMap, position: int) -> bool:
        """Return whether a position has an entry that the store has as well."""
        if position >= len(found._entries) or found._entries[position] is None:
            return False
        return found._epochs[position] <= self.written

    def _drop(self, found: CopyOnWriteStateMap) -> None:
        del self._maps[found.namespace]
        self._slots[found.slot] = None
        self._free_slots.append(found.slot)
        found.slot = -1

    def peek(
        self, slot: int, position: int, count: int
    ) -> tuple[list[tuple[CopyOnWriteStateMap, Any, Any]], int, int]:
        """Return some entries, for a caller that visits all in turn and mutates none.

        Args:
            slot: Where to begin: 0, or the slot that the last call returned.
            position: As ``slot``.
            count: Number of places to visit, including those without an entry.

        Returns:
            The map, key and value of each; and where to continue, 0 and 0 at the end.
        """
        found: list[tuple[CopyOnWriteStateMap, Any, Any]] = []
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
        """Make the table note from now on which key groups change; see `changed_groups`.

        Args: See ``open_snapshot``.
        """
        if self.changes is None:
            self.changes = KeyGroupEntries(kind, max_parallelism, key_groups, self.kind == "timer")

    def changed_groups(self, since: int) -> list[int]:
        """Return the key groups with an entry that has changed, may have, or was removed.

        Args:
            since: The epoch of an earlier snapshot; 0 returns all groups.

        Raises:
            IllegalStateError: The table does not note its changes.
        """
        if self.changes is None:
            raise IllegalStateError(f"state {self.name!r} does not note which key groups change")
        return self.changes.changed_since(since)

    def note_removals(self) -> None:
        """Make the table note in ``removals`` from now on which entries are removed."""
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

        Several may be open at a time.  Only the thread of the table may read them.

        Args:
            kind: Kind of the declared type of keys, which their hash depends on, or None.
            max_parallelism: Number of all key groups.
            key_groups: The key groups of all keys of the table.
            kept: Key groups to leave out: an earlier snapshot has them.
            since: The epoch of an earlier snapshot, unchanged since which entries are left out; 0
                for none.
        """
        entries = KeyGroupEntries(kind, max_parallelism, key_groups, self.kind == "timer", kept)
        return TableSnapshot(self, entries, since)

    def open_unwritten(
        self, kind: str | None, max_parallelism: int, key_groups: range
    ) -> TableSnapshot:
        """Open a snapshot of the entries that are not in the store, read in slices.

        Args: See ``open_snapshot``.
        """
        return self.open_snapshot(kind, max_parallelism, key_groups, (), self.written + 1)

    def load(self, data: bytes, keys: KeyReader) -> None:
        """Add the entries that a snapshot serialised.

        Args:
            data: The bytes of a key group.
            keys: Maps a key to its identity in state.

        Raises:
            CorruptStreamError: The bytes are malformed.
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

    def __iter__(self) -> Iterator[tuple[object, object, object]]:
        """Yield every entry as (namespace, key, value)."""
        for found in self.namespaces():
            for key, value in found:
                yield found.namespace, key, value

    def __len__(self) -> int:
        return sum(len(found) for found in self.namespaces())
