"""Creates a database from the files of checkpoints, linked if they are local, else fetched."""

from __future__ import annotations

import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.checkpoint_storage.file_systems import LocalFileSystem
from penstock.checkpoint_storage.handles import CHECKED_BYTES, FileHandle
from penstock.checkpoint_storage.streams import read_stream
from penstock.common.options.rocksdb import LOCAL_FOLDERS
from penstock.errors import (
    CheckpointStorageError,
    CorruptCheckpointError,
    InvalidProgramError,
    StateBackendError,
)
from penstock.taskexecutor.rocksdb.database import (
    END,
    Database,
    ReadOnlyDatabase,
    link_or_copy,
)
from penstock.taskexecutor.rocksdb.namespaces import GROUP_BYTES, state_in, state_tail
from penstock.taskexecutor.rocksdb.row_format import group_prefix, rows_of
from penstock.taskexecutor.rocksdb.row_log import replay_rows
from penstock.taskexecutor.rocksdb.settings import RocksDBSettings
from penstock.taskexecutor.rocksdb.stored_states import StateEntries, StoredKind, states_in
from penstock.taskexecutor.state.snapshots.snapshot_contents import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.checkpoint_storage.handles import StreamHandle
    from penstock.taskexecutor.state.snapshots.snapshot_contents import (
        DatabaseFiles,
        KeyedStates,
        LogSegment,
    )

#: Rows copied at a time from one database to another.
_BATCH_ROWS: Final = 16_384
_STATE_END: Final = GROUP_BYTES + 2

#: Layouts of states, by name.
States = dict[str, StoredKind]


def restore_files(
    files: Sequence[DatabaseFiles],
    log: Sequence[LogSegment],
    target: str,
    scratch: str,
    key_groups: range,
    open_database: Callable[[], Database],
    threads: int,
) -> tuple[Database, States]:
    """Create a database with the rows of a range of key groups.

    It starts with the files that have most of the key groups and removes the others; the rows of
    the other files are copied.

    Args:
        files: The files of the checkpoint's subtasks that have some of the key groups.
        log: Later changes of the rows in any of them, in order.
        target: The folder of the database, which must not exist.
        scratch: A folder for temporary files.
        key_groups: The key groups.
        open_database: Opens the database in ``target``.
        threads: Number of files fetched at a time.

    Returns:
        The database, and its states.

    Raises:
        CheckpointStorageError: A file cannot be read.
        CorruptCheckpointError: A file differs from what was written.
        InvalidProgramError: The files store a state in different layouts.
        StateBackendError: The files are not a database.
    """
    base = max(files, key=lambda one: _overlap(one.key_groups, key_groups))
    fetch_files(base, target, threads)
    database = open_database()
    states = states_in(base.meta)
    if base.key_groups.start < key_groups.start:
        database.remove_range(group_prefix(0), group_prefix(key_groups.start))
    if base.key_groups.stop > key_groups.stop:
        database.remove_range(group_prefix(key_groups.stop), END)
    _replay(log, base.key_groups, key_groups, database, None)
    for number, other in enumerate(one for one in files if one is not base):
        folder = f"{scratch}/part-{number}"
        fetch_files(other, folder, threads)
        part = ReadOnlyDatabase(folder)
        wanted = [group for group in other.key_groups if group in key_groups]
        numbers = _renumbered(states, states_in(other.meta))
        _copy_rows(part, wanted, numbers, database)
        part.close()
        _replay(log, other.key_groups, key_groups, database, numbers)
        shutil.rmtree(folder)
    return database, states


def _replay(
    log: Sequence[LogSegment],
    logged: range,
    key_groups: range,
    database: Database,
    numbers: Mapping[int, bytes] | None,
) -> None:
    """Apply a log to the rows of some files' key groups."""
    for segment in log:
        if ROWS in segment.keyed:
            for group, data in segment.keyed[ROWS][1].items():
                if group in logged and group in key_groups:
                    replay_rows(data, group, database, numbers)


def states_of_files(
    files: DatabaseFiles, log: Sequence[LogSegment], folder: str, key_groups: range
) -> KeyedStates:
    """Return the keyed states in the files of a checkpoint, readable while the folder exists.

    Args:
        files: The files.
        log: Later changes of their rows.
        folder: The folder to put them in; it must not exist.
        key_groups: The key groups that are read.

    Raises: As `restore_files`.
    """
    fetch_files(files, folder, 1)
    if log:
        changed = Database(folder, RocksDBSettings.of({}), None)
        _replay(log, files.key_groups, key_groups, changed, None)
        changed.close()
    database = ReadOnlyDatabase(folder)
    return {
        name: (state.kind, StateEntries(database, state, key_groups))
        for name, state in states_in(files.meta).items()
    }


def fetch_files(files: DatabaseFiles, folder: str, threads: int) -> None:
    """Create a folder with the files of a checkpoint.

    Raises:
        CheckpointStorageError: A file cannot be read.
        CorruptCheckpointError: A file differs from what was written.
        StateBackendError: A file cannot be written here.
    """
    Path(folder).mkdir(parents=True)
    with ThreadPoolExecutor(threads, "penstock-rocksdb-fetch") as pool:
        fetched = [
            pool.submit(partial(_fetch, files, handle, f"{folder}/{name}"))
            for name, handle in files.files.items()
        ]
        for one in fetched:
            one.result()


def _fetch(files: DatabaseFiles, handle: StreamHandle, target: str) -> None:
    file_system = files.storage.of(handle.path) if isinstance(handle, FileHandle) else None
    put: Callable[[], object]
    if isinstance(handle, FileHandle) and isinstance(file_system, LocalFileSystem):
        source = file_system.local_path(handle.path)
        _check(handle, source)
        # Files of rows never change, and removing a folder only removes its own links to them.
        copy = link_or_copy if target.endswith(".sst") else shutil.copyfile
        put = partial(copy, source, target)
    else:
        data = read_stream(handle, files.storage, files.copies)
        put = partial(Path(target).write_bytes, data)
    try:
        put()
    except OSError as error:
        raise StateBackendError(
            f"a checkpoint file of {handle.size} bytes cannot be copied to {target}: "
            f"{error.strerror or error}; make room there, or name other folders by "
            f"{LOCAL_FOLDERS.key}"
        ) from error


def _check(handle: FileHandle, source: str) -> None:
    size = 0
    checksums = []
    try:
        with Path(source).open("rb") as file:
            while block := file.read(CHECKED_BYTES):
                size += len(block)
                checksums.append(zlib.crc32(block))
    except FileNotFoundError as error:
        raise CorruptCheckpointError(f"{source}: the checkpoint's file is missing") from error
    except OSError as error:
        raise CheckpointStorageError(
            f"{source}: the file of a checkpoint cannot be read: {error.strerror or error}"
        ) from error
    if size != handle.size:
        raise CorruptCheckpointError(f"{source} has {size} bytes, {handle.size} were written")
    if tuple(checksums) != handle.checksums:
        raise CorruptCheckpointError(f"{source}: its content differs from what was written")


def _overlap(one: range, other: range) -> int:
    return max(0, min(one.stop, other.stop) - max(one.start, other.start))


def _renumbered(states: States, others: States) -> dict[int, bytes]:
    """Return the new numbers of other states; new states are added to ``states``."""
    numbers = {}
    for name, other in others.items():
        if name not in states:
            free = 1 + max((state.number for state in states.values()), default=-1)
            states[name] = other._replace(number=free)
        elif states[name].has_elements != other.has_elements:
            raise InvalidProgramError(
                f"the subtasks of one checkpoint store state {name!r} in different layouts: take "
                "a canonical savepoint of the job that wrote it"
            )
        numbers[other.number] = state_tail(states[name].number)
    return numbers


def _copy_rows(
    part: Database, key_groups: Sequence[int], numbers: Mapping[int, bytes], target: Database
) -> None:
    batch: list[tuple[bytes, bytes]] = []

    def write() -> None:
        target.write((), batch)
        batch.clear()

    for group in key_groups:
        for key, value in rows_of(part, group_prefix(group)):
            batch.append((key[:GROUP_BYTES] + numbers[state_in(key)] + key[_STATE_END:], value))
            if len(batch) >= _BATCH_ROWS:
                write()
    write()
