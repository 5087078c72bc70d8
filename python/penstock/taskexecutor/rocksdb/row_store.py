"""Reads rows into the tables in memory and writes changed entries back, in batches.

The tables are a cache: changes are only in memory until they are written back, which happens if
memory is full, before a snapshot, and before all entries of a namespace are read.  A snapshot that
includes changed entries beside the rows (``open_unwritten``) writes none back.  After it, entries
that no longer change are written in slices, once most entries are such: a row costs about ten times
as much as an entry of a snapshot, which costs the same again in each snapshot.
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
    from penstock.taskexecutor.state.backends.keyed_state_backend import KeyGrouping
    from penstock.taskexecutor.state.heap import (
        CopyOnWriteStateMap,
        StateRows,
        TableSnapshot,
    )
    from penstock.taskexecutor.state.time_to_live import TimeToLive

#: Most rows in a batch.
BATCH_ROWS: Final = 16_384

_ANY_BYTES: Final = (1 << 63) - 1

#: Removed keys remembered before they are removed from the database.
_MOST_REMOVED: Final = 65_536

#: Memory of a cached entry beside its key and value, and per byte of its row.
_ENTRY_BYTES: Final = 64
_FACTOR: Final = 3

#: If less than one changed entry in so many changed since the last snapshot, most are resting.
_RESTING_SHARE: Final = 8

#: Bytes of a row's key in front of the part that snapshot entries have as well.
_ROW_HEAD_BYTES: Final = 8

#: Share of the cache that is evicted at a time.
_SHARE: Final = 4

#: Fewest entries of a table between two checks of the total size.
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
        """Number of entries or elements in memory."""

    @property
    def stored_kind(self) -> StoredKind:
        """Layout of the state in the database."""

    def take_over(self, number: int) -> None:
        """Use a new number in the database; nothing is in memory."""

    def write(self, *, unwritten: bool) -> None:
        """Write changes; if not ``unwritten``, except the entries of `open_unwritten`."""

    def note_written(self, *, unwritten: bool) -> None:
        """Note that the pending entries are in rows."""

    def let_go(self, wanted: int) -> int:
        """Evict about so many unchanged entries or elements; return the number evicted."""


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
        """Create a store without tables.

        Args:
            database: The database with the rows.
            rows: Creates rows.
            keys: Returns the identity of a key in state.
            key_groups: The subtask's key groups.
            cache_bytes: Memory for the cached entries.
            batch_bytes: Size of rows after which a batch is written; 0 for no limit.
            new_table: Creates a table of a name and a kind.
            lent: The values that functions may change in place.
        """
        self.database = database
        self.rows = rows
        self.keys = keys
        self.key_groups = key_groups
        self._batch_bytes = batch_bytes or _ANY_BYTES
        #: Keys of rows to be removed with the next batch.
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
        #: The sequence number of the last row written with one.
        self.sequence = 0

    def add(self, name: str, kind: str, number: int) -> StateTable:
        """Return a new table of a state in which each entry is a row."""
        table = self.new_table(name, kind)
        self._states.append(StoredState(self, table, number))
        return table

    def add_elements(self, name: str, kind: str, number: int) -> MapTable | ListTable:
        """Return a new table of a state with a row per element; ``kind`` is ``map`` or ``list``."""
        table = (MapTable if kind == "map" else ListTable)(self, name, kind, number)
        self._states.append(table)
        return table

    def stored_kinds(self) -> list[tuple[str, StoredKind]]:
        """Return the name and the layout of each state."""
        return [(state.name, state.stored_kind) for state in self._states]

    def remove_expired(self, name: str, ttl: TimeToLive | None) -> None:
        """Remove a state's expired entries from the database from now on; None to stop."""
        self._expired.pop(name, None)
        if ttl is not None:
            [state] = [state for state in self._states if state.name == name]
            self._expired[name] = ExpiredRows(self, state, ttl)

    def renumber(self, numbers: Mapping[str, int]) -> None:
        """Switch to the state numbers of another database."""
        for state in self._states:
            state.take_over(numbers[state.name])

    def next_sequence(self) -> int:
        """Return the number of a row that comes after all others."""
        self.sequence += 1
        return self.sequence

    @property
    def num_cached(self) -> int:
        """Number of entries in memory."""
        return sum(state.num_cached for state in self._states)

    @property
    def most_cached(self) -> int:
        """Most entries allowed in memory, estimated from the sizes written."""
        mean = self._written_bytes / self._written_rows if self._written_rows else 0
        return max(_LEAST_ROOM, int(self._cache_bytes / (_ENTRY_BYTES + _FACTOR * mean)))

    def write_back(self, *, unwritten: bool = True) -> None:
        """Write changes to the database.

        Args:
            unwritten: Whether to write the entries of `open_unwritten` as well.

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
        # Lent values stay in memory and are written again: their holders may change them.
        self._lent.touch()
        for name, expired in self._expired.items():
            try:
                expired.run(self._rows_of_round)
            except SerializationError as error:
                name_state(error, name)
                raise
        self._rows_of_round = 0

    def write_rows(self, rows: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Write keys and values of rows, with the number of elements in each.

        Raises:
            SerializationError: A row cannot be serialised.
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
    ) -> Iterator[tuple[list[tuple[bytes, bytes]], list[object]]]:
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
            Whether most of them had not changed since the previous snapshot.
        """
        number = sum(table.entries.num_added for table in tables)
        recent = sum(table.num_recent for table in tables)
        # Their sizes tell how large entries are, as those of rows do.
        self._written_rows += number
        self._written_bytes += number * _ROW_HEAD_BYTES
        self._written_bytes += sum(table.entries.added_bytes for table in tables)
        return recent * _RESTING_SHARE < number

    def resting(
        self, tables: Mapping[str, TableSnapshot], at_a_time: int = AT_A_TIME
    ) -> RestingEntries | None:
        """Return the writer of snapshots' entries that had not changed since earlier ones.

        Return None while another writer is active.

        Args:
            tables: Table snapshots by state name.
            at_a_time: Number of rows written at a time.
        """
        if self._resting is not None:
            return None
        states = [
            # Recent entries changed in the epoch before the snapshot's.
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
        """Write rows that have so many elements together.

        Args:
            batch: Keys and values.
            elements: Number of their elements.
            is_needed: Whether the next checkpoint must contain the rows.

        Raises:
            StateBackendError: The database cannot be written.
        """
        if not batch:
            return
        # A memory table inserts ordered rows several times faster.
        batch.sort(key=itemgetter(0))
        self.database.write((), batch, is_needed=is_needed)
        self._rows_of_round += len(batch)
        self._written_rows += elements
        self._written_bytes += sum(len(key) + len(value) for key, value in batch)

    def make_room(self) -> None:
        """Evict some entries if there are too many in memory."""
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
        # The largest first: evicting from small tables frees little.
        for state in sorted(self._states, key=lambda s: s.num_cached, reverse=True):
            gone += state.let_go(wanted - gone)
        return gone


class StoredState(StoredNamespaces):
    """The rows of one state, one for each entry: the ``TableStore`` of its table.

    Attributes:
        table: The entries in memory.
    """

    _store: RowStore

    def __init__(self, store: RowStore, table: StateTable, number: int) -> None:
        """Attach the store to a table.

        Args:
            store: The store with the rows of all states.
            table: The table, without entries.
            number: The state's number in the keys of rows.
        """
        self.table = table
        super().__init__(store, number)

    @property
    def name(self) -> str:
        """The name of the state."""
        return self.table.name

    @property
    def num_cached(self) -> int:
        """Number of entries in memory."""
        return self.table.num_cached

    @property
    def room(self) -> int:
        """Number of entries that may be added before the store evicts some."""
        return self.table.room

    @room.setter
    def room(self, number: int) -> None:
        self.table.room = number

    @property
    def stored_kind(self) -> StoredKind:
        """Layout of the state in the database."""
        return StoredKind(self.table.kind, self.number, has_elements=False)

    def take_over(self, number: int) -> None:
        """Use a new number in the database; the table is empty."""
        super().take_over(number)
        self.table.attach(self)

    def write(self, *, unwritten: bool) -> None:
        """Write changes; nothing if not ``unwritten``.

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
        """Write entries last changed in an epoch or earlier, while the state is in use.

        Args:
            last: The epoch, which is over.
            most: Number of rows written at a time.

        Yields:
            The number of rows written.

        Raises: As ``write``.
        """
        for batch, new in self._store.changed_rows(self.table, most, last):
            self.note_stored(new)
            # Until the last row is written, snapshots include all these entries beside the files.
            self._store.write_batch(batch, len(batch), is_needed=False)
            yield len(batch)
        self.table.note_written(last)
        self._store.database.version += 1

    def let_go(self, wanted: int) -> int:
        """Evict up to so many unchanged entries."""
        return self.table.let_go(wanted)

    def read(self, contents: CopyOnWriteStateMap, key: object) -> bytes | None:
        """Return the serialised value of a key that is not in memory, or None."""
        tail = contents.tail
        assert tail is not None, "it was adopted"
        row = self._store.rows.key(tail, key)
        if row in self._store.removed:
            return None
        value = self._store.database.get(row)
        if value is None or (row[2 + len(tail)] != FORM and not has_original(tail)):
            return value
        return read_row(tail, row, value)[1]

    def note_removed(self, contents: CopyOnWriteStateMap, key: object) -> None:
        """Record the removal of a key."""
        assert contents.tail is not None, "it was adopted"
        self._store.removed.add(self._store.rows.key(contents.tail, key))
        if len(self._store.removed) >= _MOST_REMOVED:
            self._store.write_back()

    def make_room(self) -> None:
        """Evict entries of any state, and set how many more there may be."""
        self._store.make_room()

    def namespaces(self) -> Iterator[object]:
        """Yield the namespaces with rows."""
        return self.stored_namespaces()

    def items(self, contents: CopyOnWriteStateMap) -> Iterator[tuple[object, object]]:
        """Yield every current key and value of a namespace."""
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

    def clear(self, contents: CopyOnWriteStateMap) -> None:
        """Remove the rows of a namespace."""
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
