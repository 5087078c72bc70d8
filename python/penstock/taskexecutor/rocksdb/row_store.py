"""Brings rows into the tables in memory and changed entries back, a batch at a time.

The tables are a cache: what has changed is in them alone until it is written back, which happens
when there is no more room, before a snapshot, and before all entries of a namespace are read.  For
a snapshot that has changed entries beside the rows (``open_unwritten``) none of them is.  After it
those are written that do not change any more, in slices, once most of them are so: a row costs some
ten times what an entry of a snapshot does, which costs as much again with each.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.errors import SerializationError
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.rocksdb.expired_rows import ExpiredRows
from penstock.taskexecutor.rocksdb.list_table import ListTable
from penstock.taskexecutor.rocksdb.map_table import MapTable
from penstock.taskexecutor.rocksdb.namespaces import has_original
from penstock.taskexecutor.rocksdb.resting_entries import AT_A_TIME, RestingEntries
from penstock.taskexecutor.rocksdb.row_format import entry_of, group_prefix, read_row, rows_of
from penstock.taskexecutor.rocksdb.stored_namespaces import StoredNamespaces
from penstock.taskexecutor.rocksdb.stored_states import StoredKind
from penstock.taskexecutor.state.heap import LentValues, StateTable
from penstock.taskexecutor.state.naming import name_state
from penstock.taskexecutor.state.state_rows import FORM

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.rocksdb.database import Database
    from penstock.taskexecutor.state.heap import (
        StateMap,
        StateRows,
        TableSnapshot,
    )
    from penstock.taskexecutor.state.keyed_state_backend import KeyGrouping
    from penstock.taskexecutor.state.time_to_live import TimeToLive

#: Rows of a batch at most.
BATCH_ROWS: Final = 16_384

_ANY_BYTES: Final = (1 << 63) - 1

#: Removed keys that are remembered before they are removed from the database.
_MOST_REMOVED: Final = 65_536

#: The memory of a cached entry beside its key and value, and for each byte of its row.
_ENTRY_BYTES: Final = 64
_FACTOR: Final = 3

#: When less than one changed entry in so many has changed since the last snapshot, most rest.
_RESTING_SHARE: Final = 8

#: What the key of a row has in front of what an entry of a snapshot has as well.
_ROW_HEAD_BYTES: Final = 8

#: The share of the cache that is given up at a time.
_SHARE: Final = 4

#: Entries of a table between two looks at the size of all, at least.
_LEAST_ROOM: Final = 16


class CachedState(Protocol):
    """Cache of a state in memory."""

    #: Entries, or elements of entries, that may be added before the store makes room.
    room: int

    @property
    def name(self) -> str:
        """The name of the state."""

    @property
    def num_cached(self) -> int:
        """Number of what is in memory."""

    @property
    def stored_kind(self) -> StoredKind:
        """Layout of the state in the database."""

    def take_over(self, number: int) -> None:
        """The state has this number in the database; nothing is in memory."""

    def write(self, *, unwritten: bool) -> None:
        """Writes what has changed; not ``unwritten`` leaves out what `open_unwritten` gives."""

    def note_written(self, *, unwritten: bool) -> None:
        """Note that the pending entries are in rows."""

    def let_go(self, wanted: int) -> int:
        """Lets go of about so much that has not changed, and says of how much."""


class RowStore:
    """The rows of one operator of one subtask, and the tables in front of them."""

    def __init__(
        self,
        database: Database,
        rows: StateRows,
        keys: KeyReader,
        key_groups: range,
        cache_bytes: int,
        batch_bytes: int,
        new_table: Callable[[str, str], StateTable] = StateTable,
        *,
        lent: LentValues | None = None,
    ) -> None:
        """Starts without tables.

        Args:
            database: Has the rows.
            rows: Makes rows.
            keys: Gives what stands for a key in state.
            key_groups: Those of the subtask.
            cache_bytes: What the entries in memory may take.
            batch_bytes: Of rows, after which a batch is written; 0 for any number.
            new_table: Makes a table of a name and a kind.
            lent: The values that functions may change in place.
        """
        self.database = database
        self.rows = rows
        self.keys = keys
        self.key_groups = key_groups
        self._batch_bytes = batch_bytes or _ANY_BYTES
        #: Keys of rows that are removed with the next batch.
        self.removed: set[bytes] = set()
        self._cache_bytes = cache_bytes
        self._lent = LentValues() if lent is None else lent
        self.new_table = new_table
        self._states: list[CachedState] = []
        self._written_rows = 0
        self._written_bytes = 0
        self._rows_of_round = 0
        self._expired: dict[str, ExpiredRows] = {}
        #: The writer of entries that have stopped changing; None without one.
        self._resting: RestingEntries | None = None
        #: The number of the next row that comes after others.
        self.sequence = 0

    def add(self, name: str, kind: str, number: int) -> StateTable:
        """A table of a state of which each entry is a row."""
        table = self.new_table(name, kind)
        self._states.append(StoredState(self, table, number))
        return table

    def add_elements(self, name: str, kind: str, number: int) -> MapTable | ListTable:
        """A table of a state of which each element is a row; ``kind`` is ``map`` or ``list``."""
        table = (MapTable if kind == "map" else ListTable)(self, name, kind, number)
        self._states.append(table)
        return table

    def stored_kinds(self) -> list[tuple[str, StoredKind]]:
        """The name of each state, and how it is kept."""
        return [(state.name, state.stored_kind) for state in self._states]

    def remove_expired(self, name: str, ttl: TimeToLive | None) -> None:
        """Has what expires in a state removed from the database from now on; None for nothing."""
        self._expired.pop(name, None)
        if ttl is not None:
            [state] = [state for state in self._states if state.name == name]
            self._expired[name] = ExpiredRows(self, state, ttl)

    def renumber(self, numbers: Mapping[str, int]) -> None:
        """The database is another one, in which the states have other numbers."""
        for state in self._states:
            state.take_over(numbers[state.name])

    def next_sequence(self) -> int:
        """The number of a row that comes after all others."""
        self.sequence += 1
        return self.sequence

    @property
    def num_cached(self) -> int:
        """Number of the entries that are in memory."""
        return sum(state.num_cached for state in self._states)

    @property
    def most_cached(self) -> int:
        """Largest number of entries in memory, estimated from the sizes written."""
        mean = self._written_bytes / self._written_rows if self._written_rows else 0
        return max(_LEAST_ROOM, int(self._cache_bytes / (_ENTRY_BYTES + _FACTOR * mean)))

    def write_back(self, *, unwritten: bool = True) -> None:
        """Writes what has changed.

        Args:
            unwritten: Whether that is written as well which `open_unwritten` gives.

        Raises:
            SerializationError: An entry cannot be serialised; nothing is lost.
            StateBackendError: The database cannot be written.
        """
        self._lent.settle()
        self._lent.hold()
        if self.removed:
            self.database.write(sorted(self.removed), ())
        for state in self._states:
            try:
                state.write(unwritten=unwritten)
            except SerializationError as error:
                name_state(error, state.name)
                raise
        self.removed.clear()
        for state in self._states:
            state.note_written(unwritten=unwritten)
        # They stay in memory, and are written again: whoever holds them may change them.
        self._lent.touch()
        for name, expired in self._expired.items():
            try:
                expired.run(self._rows_of_round)
            except SerializationError as error:
                name_state(error, name)
                raise
        self._rows_of_round = 0

    def write_rows(self, rows: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Writes keys and values of rows, with the number of elements in each.

        Raises:
            SerializationError: What gives them cannot serialise one.
            StateBackendError: The database cannot be written.
        """
        batch: list[tuple[bytes, bytes]] = []
        elements = size = 0
        for key, value, number in rows:
            batch.append((key, value))
            elements += number
            size += len(key) + len(value)
            if len(batch) >= BATCH_ROWS or size >= self._batch_bytes:
                self.write_batch(batch, elements)
                batch, elements, size = [], 0, 0
        if batch:
            self.write_batch(batch, elements)

    def changed_rows(
        self, table: StateTable, most: int = BATCH_ROWS, last: int | None = None
    ) -> Iterator[tuple[list[tuple[bytes, bytes]], list[Any]]]:
        """Return the changes of a table, as `StateTable.changed_rows` does."""
        return table.changed_rows(self.rows, most, self._batch_bytes, last)

    def open_unwritten(self, grouping: KeyGrouping) -> dict[str, tuple[str, TableSnapshot]]:
        """Return the entries outside rows, by state: its kind, and the entries in slices."""
        return {
            state.name: (state.table.kind, state.table.open_unwritten(*grouping.arguments))
            for state in self._states
            if isinstance(state, StoredState)
        }

    def note_serialised(self, tables: Collection[TableSnapshot]) -> bool:
        """Note that the entries of `open_unwritten` are serialised.

        Returns:
            Whether most of it had not changed since the snapshot before.
        """
        number = sum(table.entries.num_added for table in tables)
        recent = sum(table.num_recent for table in tables)
        # It tells how large entries are, as rows do.
        self._written_rows += number
        self._written_bytes += number * _ROW_HEAD_BYTES
        self._written_bytes += sum(table.entries.added_bytes for table in tables)
        return recent * _RESTING_SHARE < number

    def resting(
        self, tables: Mapping[str, TableSnapshot], at_a_time: int = AT_A_TIME
    ) -> RestingEntries | None:
        """Return the writer of snapshots' entries that had not changed since earlier ones.

        None while others are being written.

        Args:
            tables: The snapshots of tables, by the names of states.
            at_a_time: How many rows are written at a time.
        """
        if self._resting is not None:
            return None
        states = [
            # Before the snapshot's epoch is the one in which that changed which is recent.
            (state, tables[state.name].epoch - 2)
            for state in self._states
            if isinstance(state, StoredState) and state.name in tables
        ]
        self._resting = RestingEntries(self, states, at_a_time)
        return self._resting

    def note_rested(self) -> None:
        """Note that the entries of `resting` are written, or will not be."""
        self._resting = None

    def write_batch(
        self, batch: list[tuple[bytes, bytes]], elements: int, *, is_needed: bool = True
    ) -> None:
        """Writes rows that have so many elements together.

        Args:
            batch: Keys and values.
            elements: Their elements.
            is_needed: Whether the next checkpoint must have them.

        Raises:
            StateBackendError: The database cannot be written.
        """
        if not batch:
            return
        # In order a memory table takes them several times faster.
        batch.sort(key=itemgetter(0))
        self.database.write((), batch, is_needed=is_needed)
        self._rows_of_round += len(batch)
        self._written_rows += elements
        self._written_bytes += sum(len(key) + len(value) for key, value in batch)

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
        room = max(most - self.num_cached, 0) // len(self._states)
        for state in self._states:
            state.room = max(room, _LEAST_ROOM)

    def _let_go(self, wanted: int) -> int:
        gone = 0
        # The largest first: evicting tables that are hardly used frees little.
        for state in sorted(self._states, key=lambda s: s.num_cached, reverse=True):
            gone += state.let_go(wanted - gone)
        return gone


class StoredState(StoredNamespaces):
    """The rows of one state, one for each entry: the ``TableStore`` of its table.

    Attributes:
        table: What is in memory.
    """

    _store: RowStore

    def __init__(self, store: RowStore, table: StateTable, number: int) -> None:
        """Attaches itself to a table.

        Args:
            store: Has the rows of all states.
            table: The table, without entries.
            number: What the state is in the keys of rows.
        """
        self.table = table
        super().__init__(store, number)

    @property
    def name(self) -> str:
        """The name of the state."""
        return self.table.name

    @property
    def num_cached(self) -> int:
        """Number of the entries that are in memory."""
        return self.table.num_cached

    @property
    def room(self) -> int:
        """Entries that may be added before the store makes room."""
        return self.table.room

    @room.setter
    def room(self, number: int) -> None:
        self.table.room = number

    @property
    def stored_kind(self) -> StoredKind:
        """Layout of the state in the database."""
        return StoredKind(self.table.kind, self.number, has_elements=False)

    def take_over(self, number: int) -> None:
        """The state has this number in the database; the table is empty."""
        super().take_over(number)
        self.table.attach(self)

    def write(self, *, unwritten: bool) -> None:
        """Writes what has changed; nothing if it is not to be ``unwritten``.

        Raises:
            SerializationError: An entry cannot be serialised; nothing is lost.
            StateBackendError: The database cannot be written.
        """
        if unwritten:
            for batch, new in self._store.changed_rows(self.table):
                self.note_stored(new)
                self._store.write_batch(batch, len(batch))

    def note_written(self, *, unwritten: bool) -> None:
        """Note that the pending entries are in rows."""
        if unwritten:
            self.table.note_written()

    def write_resting(self, last: int, most: int) -> Iterator[int]:
        """Writes what last changed in an epoch or earlier, while the state is used.

        Args:
            last: The epoch, which is over.
            most: How many rows are written at a time.

        Yields:
            The number of rows that were written.

        Raises: As ``write``.
        """
        for batch, new in self._store.changed_rows(self.table, most, last):
            self.note_stored(new)
            # Until the last one is written, a snapshot has all these entries beside the files.
            self._store.write_batch(batch, len(batch), is_needed=False)
            yield len(batch)
        self.table.note_written(last)
        self._store.database.version += 1

    def let_go(self, wanted: int) -> int:
        """Lets go of up to so many entries that have not changed."""
        return self.table.let_go(wanted)

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
        return self.stored_namespaces()

    def items(self, contents: StateMap) -> Iterator[tuple[Any, Any]]:
        """Every key and value of a namespace, as they are now."""
        self._store.write_back()
        tail = contents.tail
        assert tail is not None, "it was adopted"
        identity = self._store.keys.identity
        decode = TypeSerializer[Any]().deserialize
        for group in self._store.key_groups:
            for row, written in rows_of(self._store.database, group_prefix(group) + tail):
                try:
                    key, value = entry_of(tail, row, written, decode)
                except SerializationError as error:
                    name_state(error, self.name)
                    raise
                yield identity(key), value

    def clear(self, contents: StateMap) -> None:
        """Removes the rows of a namespace."""
        assert contents.tail is not None, "it was adopted"
        removed: list[bytes] = []
        for group in self._store.key_groups:
            for row, _ in rows_of(self._store.database, group_prefix(group) + contents.tail):
                removed.append(row)
                if len(removed) >= BATCH_ROWS:
                    self._store.database.write(removed, ())
                    removed = []
        self._store.database.write(removed, ())
        self.note_cleared(contents.namespace)
