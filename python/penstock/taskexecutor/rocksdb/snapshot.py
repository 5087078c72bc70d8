"""A snapshot of the RocksDB backend: linked files, and timers from memory."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any

from penstock.errors import IllegalStateError
from penstock.taskexecutor.rocksdb.database import ReadOnlyDatabase
from penstock.taskexecutor.rocksdb.row_log import grouped
from penstock.taskexecutor.rocksdb.stored_states import StateEntries
from penstock.taskexecutor.state.snapshots.heap_snapshot import taken
from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedParts
from penstock.taskexecutor.state.snapshots.snapshot_contents import (
    FILES_FORMAT,
    FILES_VERSION,
    ROWS,
    DatabaseFolder,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.taskexecutor.rocksdb.resting_entries import RestingEntries
    from penstock.taskexecutor.rocksdb.row_log import Change
    from penstock.taskexecutor.rocksdb.row_store import RowStore
    from penstock.taskexecutor.rocksdb.stored_states import StoredKind
    from penstock.taskexecutor.state.backends.keyed_state_backend import KeyGrouping
    from penstock.taskexecutor.state.heap import TableSnapshot
    from penstock.taskexecutor.state.snapshots.changelog import TableChanges
    from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedPart
    from penstock.taskexecutor.state.snapshots.snapshot_contents import KeyedStates


class _Timers:
    """The timers beside a database, whose snapshot is serialised in slices."""

    def __init__(self, left: SlicedPart, failure: Exception | None) -> None:
        """Create the snapshot of timers.

        Args:
            left: Serialises the timers.
            failure: The error that prevents the snapshot; None if there is none.
        """
        self._left = left
        self._failure = failure

    def advance(self, deadline_ns: int) -> bool:
        """Serialise timers until a time of the monotonic clock; return True when none is left.

        Raises:
            Exception: A timer cannot be serialised.
        """
        if self._failure is not None:
            self.close()
            raise self._failure
        return self._left.advance(deadline_ns)

    def close(self) -> None:
        """Discard the snapshot."""
        self._left.close()


class RocksDBLog(_Timers):
    """Changes of a database and of the timers since an earlier snapshot."""

    def __init__(
        self,
        changes: Sequence[Sequence[Change]],
        states: Sequence[tuple[str, StoredKind]],
        sequence: int,
        timers: TableChanges,
        failure: Exception | None,
    ) -> None:
        """Create the log of a snapshot.

        Args:
            changes: Changes of rows, in order.
            states: Name and layout of each state.
            sequence: The last sequence number of a row.
            timers: Changes of the timers.
            failure: The error that makes the changes incomplete.
        """
        super().__init__(timers, failure)
        self._changes = changes
        self._state_names = states
        self._sequence = sequence
        self._timers = timers

    @property
    def is_empty(self) -> bool:
        """Return False: there is a database."""
        return False

    def follow_up(self) -> SlicedPart | None:
        """Return None: no work is left."""
        return None

    def database_files(self) -> DatabaseFolder | None:
        """Return None: the files belong to another snapshot."""
        return None

    def database_states(self) -> Mapping[str, object]:
        """Return the descriptions of the current states."""
        return _description(self._state_names, self._sequence)

    def states(self) -> tuple[KeyedStates, KeyedStates]:
        """Return the states of a `LogSegment`, once ``advance`` returned True; once, any thread."""
        rows: KeyedStates = {ROWS: (ROWS, grouped(self._changes))}
        return rows, self._timers.states()

    def release(self) -> None:
        """Do nothing: ``states`` belongs to its readers."""


def _description(states: Sequence[tuple[str, StoredKind]], sequence: int) -> dict[str, object]:
    return {"states": [[name, *state] for name, state in states], "sequence": sequence}


class LinkedFiles:
    """A folder with the files of a database, removed with its last holder.

    Attributes:
        path: The folder.
        version: The database's version.
    """

    def __init__(self, path: str, version: int) -> None:
        """Create a snapshot with one reference, which the creator holds."""
        self.path = path
        self.version = version
        self._holders = 1
        self._lock = threading.Lock()

    def held(self) -> LinkedFiles:
        """Add a holder and return the files."""
        with self._lock:
            assert self._holders, "the caller is a holder"
            self._holders += 1
        return self

    def let_go(self) -> None:
        """Remove a holder; any thread."""
        with self._lock:
            self._holders -= 1
            is_last = self._holders == 0
        if is_last:
            shutil.rmtree(self.path, ignore_errors=True)


class UnwrittenEntries:
    """Entries that were only in memory, serialised in slices like a snapshot of heap tables."""

    _rests = False

    def __init__(self, store: RowStore, grouping: KeyGrouping) -> None:
        """Create a snapshot of the entries that are not in rows now."""
        self._store = store
        self._tables = store.open_unwritten(grouping)
        self._left = SlicedParts(table for _, table in self._tables.values())

    def advance(self, deadline_ns: int) -> bool:
        """Serialise until a time of the monotonic clock; return True when nothing is left.

        Raises:
            Exception: An entry cannot be serialised.
        """
        if not self._left.advance(deadline_ns):
            return False
        self._rests = self._store.note_serialised([table for _, table in self._tables.values()])
        return True

    def resting(self) -> RestingEntries | None:
        """Return a writer of the entries that no longer change, if most are such; else None."""
        if not self._rests:
            return None
        return self._store.resting({name: table for name, (_, table) in self._tables.items()})

    def close(self) -> None:
        """Discard the rest."""
        self._left.close()

    def taken(self) -> KeyedStates:
        """Return the entries by state and key group, after ``advance`` returned True; once."""
        return {name: state for name, state in taken(self._tables).items() if state[1]}


class RocksDBSnapshot(_Timers):
    """A folder with the database's files, and snapshots of the timers' tables."""

    def __init__(
        self,
        files: LinkedFiles | None,
        states: Sequence[tuple[str, StoredKind]],
        kept: Mapping[str, Callable[[object], object] | None],
        timers: Mapping[str, tuple[str, TableSnapshot]],
        key_groups: range,
        sequence: int,
        failure: Exception | None,
        unwritten: UnwrittenEntries | None = None,
    ) -> None:
        """Create the snapshot.

        Args:
            files: The files, released when they are not read any more; None without state.
            states: Name and layout of each state.
            kept: The snapshot filter of each state, by name.
            timers: Name, kind and snapshot of each table of timers.
            key_groups: The key groups of the subtask.
            sequence: The last sequence number of a row.
            failure: The reason why there are no files.
            unwritten: The entries that the files lack; None for none.  With them, the content must
                be read as files.
        """
        parts: list[SlicedPart] = [table for _, table in timers.values()]
        super().__init__(SlicedParts(parts if unwritten is None else [*parts, unwritten]), failure)
        self._unwritten = unwritten
        self._files = files
        self._folder = None if files is None else files.path
        self._state_names = states
        self._kept = kept
        self._timers = timers
        self._key_groups = key_groups
        self._sequence = sequence
        self._lock = threading.Lock()
        self._is_read = False
        self._is_closed = False
        self._are_files_taken = False
        self._database: ReadOnlyDatabase | None = None
        self._taken_timers: KeyedStates | None = None

    def close(self) -> None:
        """Discard the snapshot; files that are being read stay until ``release``."""
        super().close()
        with self._lock:
            self._is_closed = True
            if not self._is_read:
                self._remove()

    @property
    def is_empty(self) -> bool:
        """Return whether there is neither a database nor a timer service."""
        return self._folder is None and self._failure is None and not self._timers

    def follow_up(self) -> SlicedPart | None:
        """Return the writer of entries that no longer change, which later snapshots skip."""
        return None if self._unwritten is None else self._unwritten.resting()

    def database_files(self) -> DatabaseFolder | None:
        """Return the content as database files, after ``advance`` returned True.

        Raises:
            IllegalStateError: The snapshot was discarded.
        """
        if self._folder is None:
            return None
        self._begin_reading()
        self._are_files_taken = True
        changed: KeyedStates = {} if self._unwritten is None else self._unwritten.taken()
        meta: dict[str, Any] = {
            "format": FILES_FORMAT,
            "version": FILES_VERSION,
            **_description(self._state_names, self._sequence),
            "timers": {
                name: [kind, dict(groups)] for name, (kind, groups) in self._timer_states().items()
            },
            "changed": {name: [kind, dict(groups)] for name, (kind, groups) in changed.items()},
        }
        return DatabaseFolder(self._folder, meta, self._key_groups)

    def database_states(self) -> Mapping[str, object]:
        """Return nothing: the snapshot is full."""
        return {}

    def states(self) -> tuple[KeyedStates, KeyedStates]:
        """Return keyed states and timers, after ``advance`` returned True; valid until ``release``.

        There are no keyed states if they were requested as files.

        Raises:
            IllegalStateError: The snapshot was discarded, or has entries beside the files.
            StateBackendError: The files cannot be opened.
        """
        keyed: KeyedStates = {}
        if self._folder is not None and not self._are_files_taken:
            if self._unwritten is not None:
                raise IllegalStateError("an incremental snapshot of RocksDB is read as files")
            self._begin_reading()
            self._database = ReadOnlyDatabase(self._folder)
            for name, state in self._state_names:
                entries = StateEntries(self._database, state, self._key_groups, self._kept[name])
                keyed[name] = state.kind, entries
        return keyed, self._timer_states()

    def release(self) -> None:
        """Release the snapshot: its contents are no longer read."""
        with self._lock:
            self._is_read = False
            self._is_closed = True
            if self._database is not None:
                self._database.close()
                self._database = None
            self._remove()

    def _begin_reading(self) -> None:
        with self._lock:
            if self._is_closed:
                raise IllegalStateError("the snapshot was given up")
            self._is_read = True

    def _timer_states(self) -> KeyedStates:
        if self._taken_timers is None:
            self._taken_timers = taken(self._timers)
        return self._taken_timers

    def _remove(self) -> None:
        if self._files is not None:
            self._files.let_go()
            self._files = None
