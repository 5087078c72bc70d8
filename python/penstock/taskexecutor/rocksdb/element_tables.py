"""Maps and lists in which each element is a row: the parts of them that are in memory."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.errors import SerializationError
from penstock.taskexecutor.rocksdb.element_parts import PART_SIZE, Part
from penstock.taskexecutor.rocksdb.element_rows import (
    decode,
    element_prefix,
    encode,
    num_entries,
    whole_entries,
)
from penstock.taskexecutor.rocksdb.namespaces import namespace_of
from penstock.taskexecutor.rocksdb.row_format import rows_of, successor
from penstock.taskexecutor.rocksdb.stored_namespaces import StoredNamespaces
from penstock.taskexecutor.rocksdb.stored_states import StoredKind
from penstock.taskexecutor.state.naming import name_state
from penstock.taskexecutor.state.table import never_changes
from penstock.taskexecutor.state.time_to_live import Aged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.rocksdb.state_store import StateStore

#: Rows of an entry removed one by one; beyond, they are removed as a range.
_MOST_REMOVED: Final = 1024

_NONE: Final = encode(None)

P = TypeVar("P", bound=Part)


class Contents(Generic[P]):
    """The entries of one namespace.

    Attributes:
        table: The table of the contents.
        namespace: The namespace.
        parts: The parts of entries in memory, by key identity.
        is_stored: Whether there may be rows of entries that are not in memory.
        is_released: Whether no user of the contents is left.
        tail: The namespace in the keys of rows.
        original: The namespace in the values of rows.
    """

    def __init__(self, table: ElementTable[P], namespace: object) -> None:
        """Create contents without entries; use ``ElementTable.map``."""
        self.table = table
        self.namespace = namespace
        self.parts: dict[Any, P] = {}
        self.is_stored = False
        self.is_released = False
        self.tail: bytes | None = None
        self.original = b""

    def get(self, key: object) -> object:
        """Return a copy of the whole dictionary or list of a key, or None."""
        return self.table.whole(self, key)

    def put(self, key: object, value: object) -> None:
        """Replace the whole dictionary or list of a key."""
        self.table.clear(self, key)
        self.table.fill(self, key, value)

    def remove(self, key: object) -> None:
        """Remove the entry of a key."""
        self.table.clear(self, key)


class ElementTable(StoredNamespaces, Generic[P]):
    """All keys and namespaces of one state in which each element is a row.

    It offers what operators and snapshots use of a `StateTable`; states use the rest.

    Attributes:
        name: The name of the state.
        kind: ``map`` or ``list``.
        snapshot_filter: Returns the part of an entry that a snapshot stores; None stores all.
        room: Elements that may be added before the store evicts some.
        num_cached: Number of elements in memory.
        version: Incremented by each change.
    """

    _new: Callable[[Contents[P], Any, bytes, bytes], P]

    def __init__(self, store: StateStore, name: str, kind: str, number: int) -> None:
        """Open a state.

        Args:
            store: The store with the rows of all states.
            name: The state's name.
            kind: The state's kind.
            number: The state's number in the keys of rows.
        """
        self.name = name
        self.kind = kind
        self.snapshot_filter: Callable[[Any], Any] | None = None
        self.room = 0
        self.num_cached = 0
        self.version = 0
        self._store = store
        self._contents: dict[Any, Contents[P]] = {}
        #: The parts in the order in which eviction checks them.
        self._parts: OrderedDict[P, None] = OrderedDict()
        self._changed: dict[P, None] = {}
        self._peeked: Iterator[tuple[Any, Any, Any]] = iter(())
        super().__init__(store, number)

    @property
    def stored_kind(self) -> StoredKind:
        """Layout of the state in the database."""
        return StoredKind(self.kind, self.number, has_elements=True)

    def take_over(self, number: int) -> None:
        """Use a new number in the database; nothing is in memory."""
        super().take_over(number)
        for contents in self._contents.values():
            self.adopt(contents)

    # The interface of a table.

    def map(self, namespace: object) -> Contents[P]:
        """Return the entries of a namespace, creating the contents if missing."""
        contents = self._contents.get(namespace)
        if contents is None:
            contents = self._contents[namespace] = Contents(self, namespace)
            self.adopt(contents)
        contents.is_released = False
        return contents

    def namespaces(self) -> list[Contents[P]]:
        """Return the contents of all namespaces."""
        for namespace in self.stored_namespaces():
            self.map(namespace)
        return list(self._contents.values())

    def drop_if_empty(self, namespace: object) -> None:
        """Forget a namespace once none of its parts is in memory."""
        contents = self._contents.get(namespace)
        if namespace is not None and contents is not None:
            contents.is_released = True
            self._forget_unused(contents)

    def _forget_unused(self, contents: Contents[P]) -> None:
        is_known = self._contents.get(contents.namespace) is contents
        if is_known and contents.is_released and not contents.parts:
            del self._contents[contents.namespace]

    def load(self, data: bytes, keys: KeyReader) -> None:
        """Add the entries that a snapshot serialised; see `StateTable.load`."""
        loaded = self._store.new_table(self.name, self.kind)
        loaded.load(data, keys)
        for namespace, key, value in loaded:
            self.map(namespace).put(key, value)

    def dispose(self) -> None:
        """Drop all parts in memory; the store closes the rows."""
        for contents in self._contents.values():
            contents.parts.clear()  # the user's states hold the contents
        self._parts.clear()
        self._changed.clear()
        self._contents.clear()
        self._peeked = iter(())

    def peek(
        self, slot: int, position: int, count: int
    ) -> tuple[list[tuple[Any, Any, Any]], int, int]:
        """Return some elements in memory, in turn; see `StateTable.peek`."""
        found = list(itertools.islice(self._peeked, count))
        if len(found) < count:
            self._peeked = self._in_memory()
        return found, slot, position

    def __iter__(self) -> Iterator[tuple[object, object, object]]:
        """Yield namespace, key and whole value of each entry."""
        self._store.write_back()
        identity = self._store.keys.identity
        for group in self._store.key_groups:
            for tail, row, key, value in whole_entries(
                self._store.database, group, self.number, self.kind
            ):
                try:
                    entry = namespace_of(tail, row), identity(decode(key)), decode(value)
                except SerializationError as error:
                    name_state(error, self.name)
                    raise
                yield entry

    def __len__(self) -> int:
        self._store.write_back()
        return num_entries(self._store.database, self._store.key_groups, self.number)

    # The interface of the store.

    def write(self, *, unwritten: bool) -> None:
        """Write changes: a snapshot contains elements as rows only.

        Raises:
            SerializationError: An element cannot be serialised; nothing is lost.
            StateBackendError: The database cannot be written.
        """
        del unwritten
        removed: list[bytes] = []
        for part in self._changed:
            removed += self._rows_of(part) if part.is_cleared else part.removed_rows()
        if removed:
            self._store.database.write(sorted(removed), ())
        self._store.write_rows(row for part in self._changed for row in part.rows())

    def note_written(self, *, unwritten: bool) -> None:
        """Note that everything in memory is in rows as well."""
        del unwritten
        new = []
        for part in self._changed:
            self.num_cached -= part.written()
            contents = part.contents
            if part.has_rows and not contents.is_stored:
                contents.is_stored = True
                new.append(contents.namespace)
            if not len(part):
                self._drop(part)
        self._changed.clear()
        self.note_stored(new)

    def let_go(self, wanted: int) -> int:
        """Evict up to so many unchanged elements, those in use last."""
        left = wanted
        for _ in range(2 * len(self._parts)):
            if left <= 0 or not self._parts:
                break
            part = next(iter(self._parts))
            self._parts.move_to_end(part)
            if part.is_used:
                part.is_used = False
                continue
            gone = part.let_go(left)
            self.num_cached -= gone
            left -= gone
            if not len(part) and not part.is_changed:
                left -= PART_SIZE
                # Eviction leaves nothing to write of elements added and removed since the last
                # write.
                self._changed.pop(part, None)
                self._drop(part)
        return wanted - left

    # The interface of states.

    def part(self, contents: Contents[P], key: object) -> P:
        """Return the entry's part in memory; for one access, since it may be evicted later."""
        if self.room <= 0:
            self._store.make_room()
        part = contents.parts.get(key)
        if part is None:
            part = self._new_part(contents, key)
        part.is_used = True
        return part

    def clear(self, contents: Contents[P], key: object) -> None:
        """Remove an entry."""
        part = self.part(contents, key)
        self._grow(-len(part))
        part.reset()
        self.note_change(part)
        if not part.is_changed:
            del self._changed[part]
            self._drop(part)

    def note_change(self, part: P) -> None:
        """Note that a part differs from its rows."""
        self.version += 1
        self._changed[part] = None

    def touch(self, contents: Contents[P], key: object, element: object) -> None:
        """Mark an element in memory, or a whole entry, as changed."""
        raise NotImplementedError

    def hold(self, contents: Contents[P], key: object) -> None:
        """Keep the values of an entry in memory when they are written."""

    def keep_copy(
        self,
        contents: Contents[P],
        key: object,
        element: object,
        copied: Callable[[object], object],
    ) -> None:
        """Replace an element, or a whole entry, by a copy."""
        raise NotImplementedError

    def next_sequence(self) -> int:
        """Return the number of a row that comes after all others."""
        return self._store.next_sequence()

    def whole(self, contents: Contents[P], key: object) -> object:
        """Return the whole value of an entry, or None."""
        raise NotImplementedError

    def fill(self, contents: Contents[P], key: object, value: object) -> None:
        """Add the elements of a value."""
        raise NotImplementedError

    def _elements(self, part: P) -> Iterator[tuple[object, object, object]]:
        raise NotImplementedError

    def _in_memory(self) -> Iterator[tuple[object, object, object]]:
        for part in list(self._parts):
            if part in self._parts:
                yield from self._elements(part)

    def _new_part(self, contents: Contents[P], key: object) -> P:
        tail = contents.tail
        assert tail is not None, "it was adopted"
        row, original = self._store.rows.row(contents, key, None)
        original = original.removesuffix(_NONE)
        part = contents.parts[key] = self._new(contents, key, element_prefix(row, tail), original)
        self._parts[part] = None
        self._grow(PART_SIZE)
        return part

    def _drop(self, part: P) -> None:
        """Forget a part without elements."""
        del self._parts[part]
        del part.contents.parts[part.key]
        self._grow(-PART_SIZE)
        self._forget_unused(part.contents)

    def _grow(self, number: int) -> None:
        self.num_cached += number
        self.room -= number

    def _rows_of(self, part: P) -> list[bytes]:
        """Return the keys of an entry's rows; if there are many, remove them at once instead."""
        database = self._store.database
        rows = rows_of(database, part.prefix)
        keys = [key for key, _ in itertools.islice(rows, _MOST_REMOVED)]
        if len(keys) < _MOST_REMOVED:
            return keys
        database.remove_range(part.prefix, successor(part.prefix))
        return []


def is_constant(element: object) -> bool:
    """Return whether an element is immutable; its time is replaced with it."""
    return never_changes(element.value if type(element) is Aged else element)
