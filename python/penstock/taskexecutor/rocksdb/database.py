"""One RocksDB database: rows of bytes in their order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import rocksdict

from penstock.errors import StateBackendError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from penstock.taskexecutor.rocksdb.row_log import RowLog
    from penstock.taskexecutor.rocksdb.settings import RocksDBSettings, SharedMemory

#: What no row begins with: key groups are below 32768.
END: Final = b"\xff\xff"


class Database:
    """The database of one operator of one subtask.

    Without a write-ahead log: what is not in a checkpoint is lost with the process.

    Attributes:
        log: Is told what is written; None for nobody.
        version: Changes with what is written and must be in the next checkpoint.
    """

    log: RowLog | None = None
    version = 0

    def __init__(
        self, directory: str, settings: RocksDBSettings, memory: SharedMemory | None
    ) -> None:
        """Opens a database, of the files in the folder if there are any.

        Args:
            directory: Its folder.
            settings: How it is set up.
            memory: What it shares with others, kept alive by it; None for nothing.

        Raises:
            StateBackendError: It cannot be opened.
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
        """The value of a row, None when there is none.

        Raises:
            StateBackendError: It cannot be read.
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
        """Removes rows, then sets others; quicker if both are in order.

        Args:
            removed: Keys.
            rows: Keys and values.
            is_needed: Whether the next checkpoint must have this.

        Raises:
            StateBackendError: They cannot be written.
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
        """Removes the rows from one key up to another, which stays.

        Raises:
            StateBackendError: It cannot be written.
        """
        self.version += 1
        self._checked(lambda: self._rows.delete_range(first, end, write_opt=self._write_options))
        if self.log is not None:
            self.log.range_removed(first, end)

    def items(self, first: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The rows from a key on, as they are now; ends without a word where one cannot be read.

        So does a cursor; `first_from` and `check` tell.
        """
        items: Iterator[tuple[bytes, bytes]] = self._rows.items(from_key=first)
        return items

    def cursor(self) -> Any:
        """An iterator that can be moved: ``seek``, ``valid`` and ``key``."""
        return self._rows.iter()

    def first_from(self, key: bytes) -> bytes | None:
        """The key of the first row from a key on, None when there is none.

        Raises:
            StateBackendError: It cannot be read.
        """
        cursor = self._rows.iter()
        cursor.seek(key)
        if cursor.valid():
            found: bytes = cursor.key()
            return found
        self.check(cursor)
        return None

    def check(self, cursor: Any) -> None:
        """Makes sure that a cursor that is nowhere has come to the end.

        Raises:
            StateBackendError: It has come to a row that cannot be read.
        """
        self._checked(cursor.status)

    def checkpoint(self, directory: str) -> None:
        """Makes a folder with the files that have all rows as they are now, hard-linked.

        Raises:
            StateBackendError: It cannot be made.
        """
        self._checked(lambda: rocksdict.Checkpoint(self._rows).create_checkpoint(directory))

    def begin_flush(self) -> None:
        """Has what is in memory written to a file, by another thread.

        Raises:
            StateBackendError: It cannot be.
        """
        self._checked(lambda: self._rows.flush(False))

    def close(self) -> None:
        """Closes it, once; its files stay.

        Raises:
            StateBackendError: What is in memory cannot be written; it is closed all the same.
        """
        if not self._is_closed:
            self._is_closed = True
            self._checked(self._rows.close)

    def _checked(self, action: Any) -> None:
        try:
            action()
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StateBackendError:
        return StateBackendError(f"RocksDB in {self._directory}: {error}")


class ReadOnlyDatabase(Database):
    """The rows of files that nobody changes."""

    def __init__(self, directory: str) -> None:
        """Opens the files of a folder.

        Raises:
            StateBackendError: They are no database.
        """
        self._directory = directory
        self._is_closed = False
        options = rocksdict.Options(raw_mode=True)
        self._rows = _opened(directory, options, rocksdict.AccessType.read_only())


def _opened(directory: str, options: Any, access: Any) -> Any:
    try:
        return rocksdict.Rdict(directory, options, access_type=access)
    except Exception as error:
        raise StateBackendError(f"RocksDB in {directory} cannot be opened: {error}") from error


def link_or_copy(source: str, target: str) -> None:
    """Makes a file that has the content of another one, which will not change.

    Raises:
        OSError: It cannot be made.
    """
    try:
        os.link(source, target)
    except OSError:
        Path(target).write_bytes(Path(source).read_bytes())
