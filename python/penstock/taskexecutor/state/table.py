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
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.errors import CorruptStreamError, IllegalStateError, SerializationError
from penstock.serialization.pure.dynamic_codec import decode_dynamic
from penstock.serialization.pure.value_bytes import Reader
from penstock.taskexecutor.state.key_group_entries import ENTRY, NAMESPACE, KeyGroupEntries
from penstock.taskexecutor.state.naming import name_state
from penstock.taskexecutor.state.removals import Removals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.state_rows import StateRows


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


#: Entries that are looked at for each row that may be given at a time.
_LOOKED: Final = 16


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


class TableSnapshot:
    """The content of a table at one moment.

    What the cursor has passed, and what was changed since, is serialised already.

    Attributes:
        entries: What is serialised, by key group; whole once ``advance`` has given True.
        epoch: Entries of an earlier one are part of the snapshot.
        since: Unless it is one before this.
        num_recent: How many of what was serialised have changed in the last epoch.
    """

    def __init__(self, table: StateTable, entries: KeyGroupEntries, since: int = 0) -> None:
        """Opens one; use ``StateTable.open_snapshot``."""
        table.epoch += 1
        if table.removals is not None:
            table.removals.begin(table.epoch)
        self.entries = entries
        self.since = since
        self.num_recent = 0
        self._table: StateTable | None = table
        self.epoch = table.epoch
        #: Up to this map, and to the position in it, all has been serialised.
        self._slot = 0
        self._position = 0
        # Where all groups are kept there is nothing to look for.
        self._end_slot = 0 if entries.keeps_all else len(table._slots)
        #: Contents that were cleared meanwhile, and how far they have been serialised.
        self._detached: list[tuple[StateMap, int]] = []
        self._failure: Exception | None = None
        table.snapshots.append(self)

    def advance(self, deadline_ns: int, steps: int = 64) -> bool:
        """Serialises entries until a time is reached; True when it has come to the end.

        Args:
            deadline_ns: When to stop, by the monotonic clock.
            steps: Entries between two looks at the clock.

        Raises:
            Exception: An entry could not be serialised, now or when it was changed.
        """
        done = False
        while self._table is not None and self._failure is None and not done:
            try:
                done = self._scan(self._table, steps)
            except Exception:
                self.close()
                raise
            if not done and time.monotonic_ns() >= deadline_ns:
                return False
        self.close()
        if self._failure is not None:
            raise self._failure
        return True

    def close(self) -> None:
        """Reads no further; the table's contents are nobody's but its own."""
        if self._table is not None:
            self._table.snapshots.remove(self)
            self._table = None
            self._detached.clear()

    def save(self, contents: StateMap, position: int) -> None:
        """Serialises an entry before it changes, unless that was done."""
        if not self.since <= contents._epochs[position] < self.epoch or self._failure is not None:
            return
        if (contents.slot, position) < (self._slot, self._position):
            return
        try:
            self._add(contents, position)
        except Exception as error:
            # It is the checkpoint that fails, not the element that is being processed.
            self._failure = error

    def detach(self, cleared: StateMap, contents: StateMap) -> None:
        """Keeps the contents of a map that is being cleared."""
        if cleared.slot > self._slot:
            self._detached.append((contents, 0))
        elif cleared.slot == self._slot:
            self._detached.append((contents, self._position))

    def _scan(self, table: StateTable, steps: int) -> bool:
        """Looks at some entries or maps; True when there are no more."""
        while steps > 0:
            if self._slot < self._end_slot:
                contents = table._slots[self._slot]
                steps -= 1
                if contents is not None:
                    self._position, steps = self._scan_map(contents, self._position, steps)
                    if self._position < len(contents._entries):
                        continue
                self._slot += 1
                self._position = 0
            elif self._detached:
                contents, position = self._detached.pop()
                position, steps = self._scan_map(contents, position, steps - 1)
                if position < len(contents._entries):
                    self._detached.append((contents, position))
            else:
                return True
        return False

    def _scan_map(self, contents: StateMap, position: int, steps: int) -> tuple[int, int]:
        """Serialises entries from a position on; gives the next one and the steps left."""
        end = min(len(contents._entries), position + steps)
        for at in range(position, end):
            is_part = self.since <= contents._epochs[at] < self.epoch
            if is_part and contents._entries[at] is not None:
                self._add(contents, at)
        return max(position, end), steps - max(0, end - position)

    def _add(self, contents: StateMap, position: int) -> None:
        entry = contents._entries[position]
        assert entry is not None, "who asks has looked"
        key, value = entry
        self.num_recent += contents._epochs[position] == self.epoch - 1
        if contents.table.snapshot_filter is not None:
            value = contents.table.snapshot_filter(value)
            if value is None:
                return
        self.entries.add(contents.namespace, contents.number, key, value)
