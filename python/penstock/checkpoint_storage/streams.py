"""Streams of state: small ones travel in their handle, larger ones become files (M59)."""

from __future__ import annotations

import itertools
import logging
import os
import uuid
import zlib
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from penstock.checkpoint_storage.file_systems import LocalFileSystem
from penstock.checkpoint_storage.handles import (
    CHECKED_BYTES,
    ByteStreamHandle,
    FileHandle,
    StreamHandle,
)
from penstock.errors import CheckpointStorageError, CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.checkpoint_storage.file_systems import FileSystem, FileSystems

logger = logging.getLogger(__name__)

#: `execution.checkpointing.write-buffer-size`: bytes buffered before a write.
DEFAULT_WRITE_BUFFER_BYTES = 1 << 20

#: `execution.checkpointing.data-inline-threshold`: longest stream without a file.
DEFAULT_INLINE_THRESHOLD_BYTES = 20 * 1024


#: Longest stream that the driver stores, as Flink's JobManager.
MAX_DRIVER_STATE_BYTES = 5 << 20


class _Names:
    """Unique names for streams without a file.

    Randomness is read from the system once: reading it for each stream would release the
    interpreter's lock, for which hundreds of tasks wait that take their snapshots.
    """

    def __init__(self) -> None:
        self._pid = 0
        self._prefix = ""
        self._numbers = itertools.count()

    def next(self) -> str:
        """Return a new name; any thread."""
        pid = os.getpid()
        if pid != self._pid:
            # A forked process inherits the streams of its parent.
            self._prefix, self._pid = uuid.uuid4().hex, pid
        return f"{self._prefix}-{next(self._numbers)}"


_names = _Names()


class StateOutputStream:
    """Collects the bytes of one stream, then returns its handle.

    Closing it before the handle was requested deletes the bytes.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        inline_threshold_bytes: int = DEFAULT_INLINE_THRESHOLD_BYTES,
        write_buffer_bytes: int = DEFAULT_WRITE_BUFFER_BYTES,
    ) -> None:
        """Open a stream; no file exists before the threshold is exceeded.

        Args:
            file_system: The file system of files.
            directory: Their directory, which exists.
            inline_threshold_bytes: Longest stream without a file.
            write_buffer_bytes: Bytes buffered before a write to the file.
        """
        self._fs = file_system
        self._directory = directory
        self._threshold = inline_threshold_bytes
        self._most_buffered = max(inline_threshold_bytes, write_buffer_bytes)
        self._buffer = bytearray()
        self._file: BinaryIO | None = None
        self._flushed = 0
        self._checksums: list[int] = []
        self._is_ended = False

    @property
    def position(self) -> int:
        """Number of bytes written so far."""
        return self._flushed + len(self._buffer)

    def write(self, data: bytes) -> None:
        """Append bytes.

        Raises:
            OSError: The file cannot be written.
        """
        self._buffer += data
        if len(self._buffer) > self._most_buffered:
            self._flush()

    def handle(self) -> StreamHandle | None:
        """End the stream and return its handle, or None if it is empty.

        Raises:
            OSError: The file cannot be written.
        """
        if self._file is None and len(self._buffer) <= self._threshold:
            self._is_ended = True
            data = bytes(self._buffer)
            return ByteStreamHandle(_names.next(), data) if data else None
        self._flush()
        assert self._file is not None
        self._file.close()
        self._is_ended = True
        return FileHandle(self._path, self._flushed, tuple(self._checksums))

    def close(self) -> None:
        """Delete the bytes, unless the handle was returned."""
        if self._is_ended:
            return
        self._is_ended = True
        if self._file is None:
            return
        # A file that could not be written may fail to close or delete as well; the first error is
        # the informative one.
        with suppress(OSError):
            self._file.close()
        try:
            self._fs.delete_file(self._path)
        except OSError as error:
            logger.warning("%s is no longer used, and could not be deleted: %s", self._path, error)

    @cached_property
    def _name(self) -> str:
        """The name of the file."""
        return uuid.uuid4().hex

    @property
    def _path(self) -> str:
        return f"{self._directory}/{self._name}"

    def _flush(self) -> None:
        if self._file is None:
            self._file = self._fs.create(self._path)
        data = bytes(self._buffer)
        self._file.write(data)
        self._add_checksums(memoryview(data))
        self._flushed += len(data)
        self._buffer.clear()

    def _add_checksums(self, data: memoryview) -> None:
        """Extend the checksum of the last block, and add those of new ones."""
        begun = self._flushed % CHECKED_BYTES
        if begun:
            rest = data[: CHECKED_BYTES - begun]
            self._checksums[-1] = zlib.crc32(rest, self._checksums[-1])
            data = data[len(rest) :]
        self._checksums += [
            zlib.crc32(data[at : at + CHECKED_BYTES]) for at in range(0, len(data), CHECKED_BYTES)
        ]


#: Errors of a stream that exceeds the limit of its handle.
TOO_MUCH_STATE: Final = (
    f"the state of an operator has more than {MAX_DRIVER_STATE_BYTES} bytes in one "
    "subtask, too many to be kept by the driver: set execution.checkpointing.dir to a "
    "directory or URL that all workers reach"
)
TOO_LONG_LOG: Final = (
    f"a checkpoint has more than {MAX_DRIVER_STATE_BYTES} bytes of changes in one subtask, "
    "too many to be kept with its metadata: set state.changelog.storage to filesystem, and "
    "state.changelog.dstl.dfs.base-path to a directory or URL that all workers reach"
)


class DriverStateStream(StateOutputStream):
    """A stream that the driver stores: it travels in its handle, whatever its size."""

    def __init__(self, refusal: str = TOO_MUCH_STATE) -> None:
        """Open a stream; ``refusal`` is the error message if it becomes too long."""
        super().__init__(LocalFileSystem(), "", MAX_DRIVER_STATE_BYTES)
        self._refusal = refusal

    def _flush(self) -> None:
        raise CheckpointStorageError(self._refusal)


class Copies(Protocol):
    """Local copies of files."""

    def read(self, handle: FileHandle) -> bytes | None:
        """Return the content of a file, or None if there is no copy."""


def read_stream(handle: StreamHandle, files: FileSystems, copies: Copies | None = None) -> bytes:
    """Return the bytes of a stream.

    Args:
        handle: The handle of the stream.
        files: The file systems of files.
        copies: Local copies, read where present; None for none.

    Raises:
        CorruptCheckpointError: The file differs from what was written.
        CheckpointStorageError: The file cannot be read.
    """
    if isinstance(handle, ByteStreamHandle):
        return handle.data
    copy = None if copies is None else copies.read(handle)
    if copy is not None:
        return copy
    with _reading(handle):
        data = files.of(handle.path).read(handle.path)
    _check(handle, data, 0, handle.size)
    return data


def read_part(
    handle: StreamHandle, start: int, end: int, files: FileSystems, copies: Copies | None = None
) -> tuple[int, bytes]:
    """Return bytes of a stream that include ``start`` to ``end``, and their offset.

    Only whole blocks of a file are read and checked; the others remain unchecked.  A copy is read
    as a whole.

    Raises:
        CorruptCheckpointError: The bytes differ from what was written.
        CheckpointStorageError: The file cannot be read.
    """
    if isinstance(handle, ByteStreamHandle):
        return 0, handle.data
    copy = None if copies is None else copies.read(handle)
    if copy is not None:
        return 0, copy
    start = start // CHECKED_BYTES * CHECKED_BYTES
    end = min(-(-end // CHECKED_BYTES) * CHECKED_BYTES, handle.size)
    if start == 0 and end == handle.size:
        return 0, read_stream(handle, files)
    with _reading(handle):
        data = files.of(handle.path).read_at(handle.path, start, end - start)
    _check(handle, data, start, end)
    return start, data


@contextmanager
def _reading(handle: FileHandle) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise CorruptCheckpointError(f"{handle.path}: the checkpoint's file is missing") from error
    except CheckpointStorageError:
        raise
    except OSError as error:
        raise CheckpointStorageError(f"{handle.path} cannot be read: {error}") from error


def is_as_written(handle: FileHandle, data: bytes, start: int = 0) -> bool:
    """Return whether bytes from the start of a block on match their checksums."""
    view, first = memoryview(data), start // CHECKED_BYTES
    return all(
        zlib.crc32(view[at : at + CHECKED_BYTES]) == handle.checksums[first + at // CHECKED_BYTES]
        for at in range(0, len(view), CHECKED_BYTES)
    )


def _check(handle: FileHandle, data: bytes, start: int, end: int) -> None:
    if len(data) != end - start:
        raise CorruptCheckpointError(
            f"{handle.path} has {start + len(data)} bytes, {end} were written"
        )
    if not is_as_written(handle, data, start):
        raise CorruptCheckpointError(f"{handle.path}: its content differs from what was written")
