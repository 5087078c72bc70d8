"""The keyed state of one operator in RocksDB."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from penstock.checkpoint_storage.file_systems import is_lasting
from penstock.common.options import changelog, rocksdb
from penstock.errors import ConfigurationError, SerializationError, StateBackendError
from penstock.serialization.former_layouts import former_fields_taken
from penstock.taskexecutor.rocksdb.database import Database
from penstock.taskexecutor.rocksdb.element_tables import ElementTable
from penstock.taskexecutor.rocksdb.namespaces import state_tail
from penstock.taskexecutor.rocksdb.restoring import restore_files
from penstock.taskexecutor.rocksdb.row_format import group_prefix, successor
from penstock.taskexecutor.rocksdb.row_log import RowLog
from penstock.taskexecutor.rocksdb.row_store import RowStore
from penstock.taskexecutor.rocksdb.runtime_element_states import (
    ElementListState,
    ElementMapState,
    ExpiringListState,
    ExpiringMapState,
)
from penstock.taskexecutor.rocksdb.settings import RocksDBSettings, memory_of_slot
from penstock.taskexecutor.rocksdb.snapshot import (
    LinkedFiles,
    RocksDBLog,
    RocksDBSnapshot,
    UnwrittenEntries,
)
from penstock.taskexecutor.rocksdb.stored_states import StateEntries
from penstock.taskexecutor.state.backends.declared_types import migrate_table
from penstock.taskexecutor.state.backends.table_keyed_state_backend import TableKeyedStateBackend
from penstock.taskexecutor.state.heap import StateRows, value_check
from penstock.taskexecutor.state.naming import name_state
from penstock.taskexecutor.state.snapshots.changelog import TableChanges, replay
from penstock.taskexecutor.state.snapshots.snapshot_contents import ROWS
from penstock.taskexecutor.worker.local_directories import LocalDirectory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.rocksdb.list_table import ListTable
    from penstock.taskexecutor.rocksdb.map_table import MapTable
    from penstock.taskexecutor.rocksdb.stored_states import StoredKind
    from penstock.taskexecutor.state.backends.keyed_state_backend import (
        BackendSurroundings,
        KeyedBase,
        KeyedSnapshot,
        KeyGrouping,
        LogBase,
    )
    from penstock.taskexecutor.state.heap import StateTable
    from penstock.taskexecutor.state.snapshots.snapshot_contents import (
        DatabaseFiles,
        KeyedStates,
        LogSegment,
    )
    from penstock.taskexecutor.state.time_to_live import TimeToLive

_DATABASE = "db"

#: States of which each element is a row, unless an operator uses their table.
_KINDS_WITH_ELEMENTS = frozenset(("map", "list"))


class RocksDBKeyedStateBackend(TableKeyedStateBackend):
    """All keyed states of one operator; the database holds the entries that memory does not.

    The tables of states cache the rows of a database.  Timers are kept in memory.  The database is
    created with the first state.
    """

    keeps_elements = True

    def __init__(self, surroundings: BackendSurroundings) -> None:
        """Create a backend without states."""
        super().__init__(surroundings.clock_ms, surroundings.evaluation)
        self._surroundings = surroundings
        logs_changes = changelog.ENABLED.read(surroundings.configuration)
        #: The rows that change, if snapshots may be logs.
        self._row_log = RowLog() if logs_changes else None
        assert rocksdb.TIMERS.read(surroundings.configuration) == "HEAP", "there is no other"
        self._directory: LocalDirectory | None = None
        #: The files of the last snapshot, until rows may have changed.
        self._linked: LinkedFiles | None = None
        self._store: RowStore | None = None
        # Rows of a checkpoint are read while records are processed, by this thread only.
        self._former_fields = ExitStack()
        #: The states' numbers in the keys of rows.
        self._numbers: dict[str, int] = {}

    @property
    def num_cached(self) -> int:
        """Number of entries in memory."""
        return 0 if self._store is None else self._store.num_cached

    @property
    def most_cached(self) -> int:
        """Most entries allowed in memory."""
        return 0 if self._store is None else self._store.most_cached

    @property
    def is_unused(self) -> bool:
        """Return whether no state or timer has been opened or restored."""
        return self._store is None and super().is_unused

    def _open_snapshot(
        self, grouping: KeyGrouping, checkpoint_id: int, base: KeyedBase | None
    ) -> KeyedSnapshot:
        """Return a snapshot of all states and timers.

        Changes are written to the database, whose files are linked; a base identifies shared files
        by name.  With a base, changed entries are serialised beside the files.
        """
        if self._row_log is not None:
            # A log requires a database.
            self._opened_store()
        # A table's filter may drop entries that must count as newer.
        has_unwritten = base is not None and all(
            table.snapshot_filter is None for table in self._tables.values()
        )
        failure = self._written_back(unwritten=not has_unwritten)
        timers = {
            name: (table.kind, table.open_snapshot(*grouping.arguments))
            for name, table in self._timers.items()
        }
        if self._row_log is not None:
            self._row_log.begin(checkpoint_id)
        states = [] if self._store is None else self._store.stored_kinds()
        files = None
        if self._store is not None and failure is None:
            files = self._linked_files(keeps=has_unwritten)
        unwritten = None
        if self._store is not None and has_unwritten and failure is None:
            unwritten = UnwrittenEntries(self._store, grouping)
        kept = {name: table.snapshot_filter for name, table in self._tables.items()}
        sequence = 0 if self._store is None else self._store.sequence
        return RocksDBSnapshot(
            files, states, kept, timers, grouping.key_groups, sequence, failure, unwritten
        )

    def _linked_files(self, *, keeps: bool) -> LinkedFiles:
        """Link the database's files, or return the last links if no row has changed since.

        Args:
            keeps: Whether to keep the links for the next snapshot: then rows seldom change.
        """
        assert self._store is not None, "there is a database"
        assert self._directory is not None, "the database is in it"
        database = self._store.database
        if self._linked is not None:
            if self._linked.version == database.version:
                return self._linked.held()
            self._linked.let_go()
            self._linked = None
        folder = f"{self._directory.path}/snapshot-{os.urandom(8).hex()}"
        database.checkpoint(folder)
        files = LinkedFiles(folder, database.version)
        if keeps:
            self._linked = files.held()
        return files

    def _written_back(self, *, unwritten: bool) -> Exception | None:
        """Write changes as `RowStore.write_back` does; return a serialisation error.

        That error fails the checkpoint, not the task.
        """
        if self._store is not None:
            self._store.database.log = self._row_log
            try:
                self._store.write_back(unwritten=unwritten)
            except ValueError as error:
                return error
        return None

    @property
    def logged_tables(self) -> tuple[StateTable, ...]:
        """The tables of timers; states are logged as rows."""
        return tuple(self._timers.values())

    def _open_log(
        self,
        grouping: KeyGrouping,
        checkpoint_id: int,
        base: LogBase,
        since: Mapping[StateTable, int],
    ) -> RocksDBLog | None:
        assert self._row_log is not None, "the job logs changes"
        store = self._opened_store()
        failure = self._written_back(unwritten=True)
        self._row_log.begin(checkpoint_id)
        changes = self._row_log.since(base.snapshot_id)
        self._row_log.forget(base.needed)
        if changes is None:
            return None
        timers = TableChanges(self._timers, grouping, since)
        return RocksDBLog(changes, store.stored_kinds(), store.sequence, timers, failure)

    def restore(
        self,
        keyed: KeyedStates,
        timers: KeyedStates,
        key_groups: range,
        keys: KeyReader,
        files: tuple[DatabaseFiles, ...] = (),
        log: tuple[LogSegment, ...] = (),
    ) -> None:
        """Restore the entries of this subtask's key groups, then apply the log.

        Args: As of the heap backend; ``files`` are those of checkpoints.

        Raises:
            CorruptStreamError: The entries cannot be deserialised.
            CorruptCheckpointError: A file differs from what was written.
            InvalidProgramError: The entries are of another type than declared.
        """
        if files:
            self._restore_files(files, log, key_groups, keys)
        for name, (kind, _) in keyed.items():
            self._table_of_elements(name, kind)
        # A log changes the states in the files, and is applied to them directly.
        others = tuple(replace(one, keyed={}) for one in log) if files else log
        self.restore_tables(keyed, timers, key_groups, keys, others)

    def dispose(self) -> None:
        """Close the database and remove its files."""
        super().dispose()
        self._former_fields.close()
        if self._store is not None:
            # On a full disk the database cannot flush its memory, which is no longer needed.
            with suppress(StateBackendError):
                self._store.database.close()
            self._store = None
        if self._directory is not None:
            self._directory.close()
            self._directory = None

    def map_state(self, descriptor: MapStateDescriptor) -> Any:
        """Return the state of a ``MapStateDescriptor``."""
        if not self._table_of_elements(descriptor.get_name(), "map"):
            return super().map_state(descriptor)
        table, ttl, check = self._open(descriptor, "map", "value_type")
        entries = cast("MapTable", table)
        state = (
            ElementMapState(self, entries, check)
            if ttl is None
            else self._cleaned(cast("Any", ExpiringMapState(self, entries, ttl, check)))
        )
        state.check_keys(value_check(descriptor.key_type, descriptor.get_name()))
        return state

    def list_state(self, descriptor: ListStateDescriptor) -> Any:
        """Return the state of a ``ListStateDescriptor``."""
        if not self._table_of_elements(descriptor.get_name(), "list"):
            return super().list_state(descriptor)
        table, ttl, check = self._open(descriptor, "list", "element_type")
        entries = cast("ListTable", table)
        if ttl is not None:
            return self._cleaned(cast("Any", ExpiringListState(self, entries, ttl, check)))
        return ElementListState(self, entries, check)

    def own_list_state(self, name: str) -> Any:
        """Return a list state of the operator itself, whose values have no declared type."""
        if not self._table_of_elements(name, "list"):
            return super().own_list_state(name)
        return ElementListState(self, cast("ListTable", self.table(name, "list")))

    def _clean_up(self, table: StateTable, ttl: TimeToLive) -> None:
        super()._clean_up(table, ttl)
        if ttl.is_compaction_default:
            configuration = self._surroundings.configuration
            ttl = replace(
                ttl,
                compaction_query_rows=rocksdb.FILTER_QUERY_ROWS.read(configuration),
                compaction_period_ms=rocksdb.FILTER_PERIOD.read(configuration),
            )
        is_compacted = ttl.compaction_query_rows > 0
        self._opened_store().remove_expired(table.name, ttl if is_compacted else None)

    def _table_of_elements(self, name: str, kind: str) -> bool:
        """Open a state with a row for each element, if possible.

        Returns:
            Whether the state has that layout: an operator that uses the state's table has opened it
            with a row for each entry.
        """
        if name not in self._tables and kind in _KINDS_WITH_ELEMENTS:
            table = self._opened_store().add_elements(name, kind, self._number_of(name))
            # It offers what operators and snapshots use of a table.
            self._tables[name] = cast("StateTable", table)
        return name in self._tables and _has_elements(self._tables[name])

    def _new_table(self, name: str, kind: str) -> StateTable:
        return self._opened_store().add(name, kind, self._number_of(name))

    def _number_of(self, name: str) -> int:
        return self._numbers.setdefault(name, 1 + max(self._numbers.values(), default=-1))

    def _opened_store(self) -> RowStore:
        if self._store is None:
            surroundings = self._surroundings
            grouping = surroundings.grouping()
            self._store = RowStore(
                self._open_database(),
                StateRows(*grouping.arguments),
                surroundings.keys(),
                grouping.key_groups,
                rocksdb.CACHE_SIZE.read(surroundings.configuration),
                rocksdb.WRITE_BATCH_SIZE.read(surroundings.configuration),
                lent=self.lent,
            )
        return self._store

    def _local_directory(self) -> LocalDirectory:
        if self._directory is None:
            surroundings = self._surroundings
            folders = rocksdb.LOCAL_FOLDERS.read(surroundings.configuration)
            if folders:
                parent = folders[surroundings.subtask % len(folders)]
            else:
                parent = surroundings.temp_directory()
            try:
                self._directory = LocalDirectory(parent, "penstock-rocksdb-")
            except OSError as error:
                # A restart does not help against a wrong configuration.
                kind = ConfigurationError if folders and is_lasting(error) else StateBackendError
                raise kind(
                    f"cannot create a database in {parent}: {error.strerror or error}; "
                    f"{rocksdb.LOCAL_FOLDERS.key} names folders that the workers may create and "
                    "write"
                ) from error
        return self._directory

    def _open_database(self) -> Database:
        surroundings = self._surroundings
        configuration = surroundings.configuration
        memory = memory_of_slot(configuration, surroundings.job_id, surroundings.subtask)
        return Database(
            f"{self._local_directory().path}/{_DATABASE}",
            RocksDBSettings.of(configuration),
            memory,
        )

    def _restore_files(
        self,
        files: tuple[DatabaseFiles, ...],
        log: tuple[LogSegment, ...],
        key_groups: range,
        keys: KeyReader,
    ) -> None:
        """Replace the empty database by the files of checkpoints.

        A class may have had other fields when a row was written, as in any restore.
        """
        self._former_fields.enter_context(former_fields_taken())
        store = self._opened_store()
        store.database.close()
        assert self._linked is None, "no snapshot has been taken"
        directory = self._local_directory().path
        shutil.rmtree(f"{directory}/{_DATABASE}")
        store.database, states = restore_files(
            files,
            log,
            f"{directory}/{_DATABASE}",
            directory,
            key_groups,
            self._open_database,
            rocksdb.TRANSFER_THREADS.read(self._surroundings.configuration),
        )
        store.sequence = max(int(one.meta.get("sequence", 0)) for one in files)
        opened = self._numbers
        others = {
            name: state for name, state in states.items() if self._is_kept_otherwise(name, state)
        }
        self._numbers = {name: state.number for name, state in states.items()}
        # The rows of such a state are read, and written again under another number.
        for name in dict.fromkeys((*others, *opened)):
            free = 1 + max(self._numbers.values(), default=-1)
            self._numbers[name] = free if name in others else self._numbers.get(name, free)
        store.renumber(self._numbers)
        for name, (kind, _, _) in states.items():
            self._table_of_elements(name, kind)
            self.table(name, kind)
        for name, state in others.items():
            entries = StateEntries(store.database, state, key_groups)
            for group in entries:
                try:
                    self._tables[name].load(entries[group], keys)
                except SerializationError as error:
                    name_state(error, name)
                    raise
                prefix = group_prefix(group) + state_tail(state.number)
                store.database.remove_range(prefix, successor(prefix))
        for segment in log:
            beside = replace(segment, keyed=_without_rows(segment.keyed), timers={})
            replay(beside, self.table, self._timers_of, key_groups, keys)
        for _, name, migrate in self.types.pending():
            migrate_table(self._tables[name], migrate)

    def _is_kept_otherwise(self, name: str, state: StoredKind) -> bool:
        """Return whether the files store a state in another layout than this backend."""
        table = self._tables.get(name)
        has_elements = state.kind in _KINDS_WITH_ELEMENTS if table is None else _has_elements(table)
        return has_elements != state.has_elements


def _without_rows(keyed: KeyedStates) -> KeyedStates:
    return {name: state for name, state in keyed.items() if state[0] != ROWS}


def _has_elements(table: object) -> bool:
    return isinstance(table, ElementTable)
