"""One RocksDB database: ordered rows of bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import rocksdict

from penstock.errors import StateBackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from penstock.taskexecutor.rocksdb.row_log import RowLog
    from penstock.taskexecutor.rocksdb.settings import RocksDBSettings, SharedMemory

#: Greater than the start of any row: key groups are below 32768.
END: Final = b"\xff\xff"


class Database:
    """The database of one operator of one subtask.

    It has no write-ahead log: rows that are in no checkpoint are lost with the process.

    Attributes:
        log: Records the changes; None for no log.
        version: Changes with each write that must be in the next checkpoint.
    """

    log: RowLog | None = None
    version = 0

    def __init__(
        self, directory: str, settings: RocksDBSettings, memory: SharedMemory | None
    ) -> None:
        """Open a database, with the files in the folder if there are any.

        Args:
            directory: Its folder.
            settings: The database's settings.
            memory: Memory shared with other databases, kept alive by this one; None for none.

        Raises:
            StateBackendError: The database cannot be opened.
        """
        self._memory = memory
        self._directory = directory
        self._is_closed = False
        options = settings.options(memory)
        options.create_if_missing(True)
        self._rows = _opened(directory, options, rocksdict.AccessType.read_write())
        self._write_options = rocksdict.WriteOptions()
        self._write_options.disable_wal = True

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a row, or None.

        Raises:
            StateBackendError: The row cannot be read.
        """
        try:
            found: bytes | None = self._rows.get(key)
        except Exception as error:
            raise self._failure(error) from error
        return found

    def write(
        self,
        removed: Collection[bytes],
        rows: Collection[tuple[bytes, bytes]],
        *,
        is_needed: bool = True,
    ) -> None:
        """Remove rows, then set others; faster if both are in order.

        Args:
            removed: Keys.
            rows: Keys and values.
            is_needed: Whether the next checkpoint must contain the changes.

        Raises:
            StateBackendError: The rows cannot be written.
        """
        self.version += is_needed
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key in removed:
            batch.delete(key)
        put = batch.put
        for key, value in rows:
            put(key, value)
        self._checked(lambda: self._rows.write(batch, self._write_options))
        if self.log is not None:
            self.log.written(removed, rows)

    def remove_range(self, first: bytes, end: bytes) -> None:
        """Remove the rows from one key up to another, which stays.

        Raises:
            StateBackendError: The removal cannot be written.
        """
        self.version += 1
        self._checked(lambda: self._rows.delete_range(first, end, write_opt=self._write_options))
        if self.log is not None:
            self.log.range_removed(first, end)

    def items(self, first: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the current rows from a key on; silently ends at a row that cannot be read.

        A cursor does so too; `first_from` and `check` report the error.
        """
        items: Iterator[tuple[bytes, bytes]] = self._rows.items(from_key=first)
        return items

    def cursor(self) -> rocksdict.RdictIter:
        """Return an iterator that can be moved: ``seek``, ``valid`` and ``key``."""
        return self._rows.iter()

    def first_from(self, key: bytes) -> bytes | None:
        """Return the key of the first row from a key on, or None.

        Raises:
            StateBackendError: The row cannot be read.
        """
        cursor = self._rows.iter()
        cursor.seek(key)
        if cursor.valid():
            found: bytes = cursor.key()
            return found
        self.check(cursor)
        return None

    def check(self, cursor: rocksdict.RdictIter) -> None:
        """Check that an invalid cursor has reached the end.

        Raises:
            StateBackendError: The cursor stopped at a row that cannot be read.
        """
        self._checked(cursor.status)

    def checkpoint(self, directory: str) -> None:
        """Create a folder with hard links to the files, which hold all current rows.

        Raises:
            StateBackendError: The folder cannot be created.
        """
        self._checked(lambda: rocksdict.Checkpoint(self._rows).create_checkpoint(directory))

    def begin_flush(self) -> None:
        """Flush memory to a file, in another thread.

        Raises:
            StateBackendError: The flush cannot be started.
        """
        self._checked(lambda: self._rows.flush(False))

    def close(self) -> None:
        """Close the database, once; its files stay.

        Raises:
            StateBackendError: The memory cannot be flushed; the database is closed all the same.
        """
        if not self._is_closed:
            self._is_closed = True
            self._checked(self._rows.close)

    def _checked(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StateBackendError:
        return StateBackendError(f"RocksDB in {self._directory}: {error}")


class ReadOnlyDatabase(Database):
    """The rows of files that no process changes."""

    def __init__(self, directory: str) -> None:
        """Open the files of a folder.

        Raises:
            StateBackendError: The files are not a database.
        """
        self._directory = directory
        self._is_closed = False
        options = rocksdict.Options(raw_mode=True)
        self._rows = _opened(directory, options, rocksdict.AccessType.read_only())


def _opened(directory: str, options: object, access: object) -> rocksdict.Rdict:
    try:
        return rocksdict.Rdict(directory, options, access_type=access)
    except Exception as error:
        raise StateBackendError(f"RocksDB in {directory} cannot be opened: {error}") from error


def link_or_copy(source: str, target: str) -> None:
    """Create a file with the content of another one, which must not change.

    Raises:
        OSError: The file cannot be created.
    """
    try:
        os.link(source, target)
    except OSError:
        Path(target).write_bytes(Path(source).read_bytes())
