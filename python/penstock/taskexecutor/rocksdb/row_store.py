"""Brings rows into the tables in memory and changed entries back, a batch at a time.

The tables are a cache: what has changed is in them alone until it is written back, which happens
when there is no more room, before a snapshot, and before all entries of a namespace are read.
"""

from __future__ import annotations

import itertools
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import SerializationError
from penstock.taskexecutor.rocksdb.namespaces import has_original, namespace_of, tail_of
from penstock.taskexecutor.rocksdb.rows import entry_of, group_prefix, read_row, rows_of, tails_of
from penstock.taskexecutor.state.heap import StateTable
from penstock.taskexecutor.state.state_rows import FORM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.rocksdb.database import Database
    from penstock.taskexecutor.state.heap import StateMap, StateRows

#: Rows of a batch at most, and the bytes after which it is written.
_BATCH_ROWS: Final = 16_384
_BATCH_BYTES: Final = 8 << 20

#: Removed keys that are remembered before they are removed from the database.
_MOST_REMOVED: Final = 65_536

#: Namespaces of a state that are known to have rows; beyond, any may have some.
_MOST_NAMESPACES: Final = 100_000

#: What an entry in memory takes beside its key and value, and for each byte of its row.
_ENTRY_BYTES: Final = 64
_FACTOR: Final = 3

#: The share of the cache that is given up at a time.
_SHARE: Final = 4

#: Entries of a table between two looks at the size of all, at least.
_LEAST_ROOM: Final = 16


class RowStore:
    """The rows of one operator of one subtask, and the tables in front of them."""

    def __init__(
        self,
        database: Database,
        rows: StateRows,
        keys: KeyReader,
        key_groups: range,
        cache_bytes: int,
        new_table: Callable[[str, str], StateTable] = StateTable,
    ) -> None:
        """Starts without tables.

        Args:
            database: Has the rows.
            rows: Makes rows.
            keys: Gives what stands for a key in state.
            key_groups: Those of the subtask.
            cache_bytes: What the entries in memory may take.
            new_table: Makes a table of a name and a kind.
        """
        self.database = database
        self.rows = rows
        self.keys = keys
        self.key_groups = key_groups
        #: Keys of rows that are removed with the next batch.
        self.removed: set[bytes] = set()
        self._cache_bytes = cache_bytes
        self._new_table = new_table
        self._tables: list[StoredState] = []
        self._written_rows = 0
        self._written_bytes = 0

    def add(self, name: str, kind: str, number: int) -> StateTable:
        """A table of the rows of a state, by its number."""
        table = self._new_table(name, kind)
        self._tables.append(StoredState(self, table, number))
        return table

    def renumber(self, numbers: Mapping[str, int]) -> None:
        """The database is another one, in which the states have other numbers."""
        for state in self._tables:
            state.take_over(numbers[state.table.name])

    @property
    def num_cached(self) -> int:
        """Number of the entries that are in memory."""
        return sum(state.table.num_cached for state in self._tables)

    @property
    def most_cached(self) -> int:
        """How many entries may be in memory: those that were written tell how large they are."""
        mean = self._written_bytes / self._written_rows if self._written_rows else 0
        return max(_LEAST_ROOM, int(self._cache_bytes / (_ENTRY_BYTES + _FACTOR * mean)))

    def write_back(self) -> None:
        """Writes what has changed.

        Raises:
            SerializationError: An entry cannot be serialised; nothing is lost.
            StateBackendError: The database cannot be written.
        """
        if self.removed:
            self.database.write(sorted(self.removed), ())
        for state in self._tables:
            try:
                batches = state.table.changed_rows(self.rows, _BATCH_ROWS, _BATCH_BYTES)
                for batch in batches:
                    self._write(batch)
            except SerializationError as error:
                error.add_note(f"in the state {state.table.name!r}")
                raise
        self.removed.clear()
        for state in self._tables:
            state.note_written(state.table.note_written())

    def make_room(self) -> None:
        """Lets go of a part of the entries in memory, if they are too many."""
        most = self.most_cached
        wanted = self.num_cached - most
        if wanted >= 0:
            wanted += most // _SHARE
            wanted -= self._let_go(wanted)
            if wanted > 0:
                self.write_back()
                self._let_go(wanted)
        room = max(most - self.num_cached, 0) // len(self._tables)
        for state in self._tables:
            state.table.room = max(room, _LEAST_ROOM)

    def _let_go(self, wanted: int) -> int:
        gone = 0
        # The largest first: those that are hardly used have little to give.
        for state in sorted(self._tables, key=lambda s: s.table.num_cached, reverse=True):
            gone += state.table.let_go(wanted - gone)
        return gone

    def _write(self, batch: list[tuple[bytes, bytes]]) -> None:
        # In order a memory table takes them several times faster.
        batch.sort(key=itemgetter(0))
        self.database.write((), batch)
        self._written_rows += len(batch)
        self._written_bytes += sum(len(key) + len(value) for key, value in batch)


class StoredState:
    """The rows of one state: the ``TableStore`` of its table.

    Attributes:
        table: What is in memory.
    """

    def __init__(self, store: RowStore, table: StateTable, number: int) -> None:
        """Attaches itself to a table.

        Args:
            store: Has the rows of all states.
            table: The table, without entries.
            number: What the state is in the keys of rows.
        """
        self.table = table
        self._store = store
        self._number = number
        #: Those that may have rows; None for any.
        self._namespaces: set[Any] | None = None
        self.take_over(number)

    def take_over(self, number: int) -> None:
        """The state has this number in the database; the table is empty."""
        self._number = number
        self._namespaces = set(itertools.islice(self.namespaces(), _MOST_NAMESPACES + 1))
        self._check_namespaces()
        self.table.attach(self)

    def adopt(self, contents: StateMap) -> None:
        """A map was made for a namespace."""
        contents.tail, contents.original = tail_of(self._number, contents.namespace)
        known = self._namespaces
        contents.is_stored = known is None or contents.namespace in known

    def note_written(self, namespaces: Iterable[Any]) -> None:
        """These namespaces have rows now."""
        if self._namespaces is not None:
            self._namespaces.update(namespaces)
            self._check_namespaces()

    def read(self, contents: StateMap, key: Any) -> bytes | None:
        """The serialised value of a key that is not in memory, None when there is none."""
        tail = contents.tail
        assert tail is not None, "it was adopted"
        row = self._store.rows.key(tail, key)
        if row in self._store.removed:
            return None
        value = self._store.database.get(row)
        if value is None or (row[2 + len(tail)] != FORM and not has_original(tail)):
            return value
        return read_row(tail, row, value)[1]

    def note_removed(self, contents: StateMap, key: Any) -> None:
        """A key is no longer there."""
        assert contents.tail is not None, "it was adopted"
        self._store.removed.add(self._store.rows.key(contents.tail, key))
        if len(self._store.removed) >= _MOST_REMOVED:
            self._store.write_back()

    def make_room(self) -> None:
        """Lets go of entries of any state, and says how many more there may be."""
        self._store.make_room()

    def namespaces(self) -> Iterator[Any]:
        """The namespaces that have rows."""
        found = set()
        for group in self._store.key_groups:
            for tail, value in tails_of(self._store.database, group, self._number):
                if tail not in found:
                    found.add(tail)
                    yield namespace_of(tail, value)

    def items(self, contents: StateMap) -> Iterator[tuple[Any, Any]]:
        """Every key and value of a namespace, as they are now."""
        self._store.write_back()
        tail = contents.tail
        assert tail is not None, "it was adopted"
        identity = self._store.keys.identity
        for group in self._store.key_groups:
            for row, written in rows_of(self._store.database, group_prefix(group) + tail):
                key, value = entry_of(tail, row, written)
                yield identity(key), value

    def clear(self, contents: StateMap) -> None:
        """Removes the rows of a namespace."""
        assert contents.tail is not None, "it was adopted"
        removed: list[bytes] = []
        for group in self._store.key_groups:
            for row, _ in rows_of(self._store.database, group_prefix(group) + contents.tail):
                removed.append(row)
                if len(removed) >= _BATCH_ROWS:
                    self._store.database.write(removed, ())
                    removed = []
        self._store.database.write(removed, ())
        if self._namespaces is not None:
            self._namespaces.discard(contents.namespace)

    def _check_namespaces(self) -> None:
        if self._namespaces is not None and len(self._namespaces) > _MOST_NAMESPACES:
            self._namespaces = None
