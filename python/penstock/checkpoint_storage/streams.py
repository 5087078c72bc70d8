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

#: `execution.checkpointing.write-buffer-size`: bytes that gather before they are written.
DEFAULT_WRITE_BUFFER_BYTES = 1 << 20

#: `execution.checkpointing.data-inline-threshold`: streams up to it have no file.
DEFAULT_INLINE_THRESHOLD_BYTES = 20 * 1024


#: The longest stream that the driver keeps, as Flink's JobManager does.
MAX_DRIVER_STATE_BYTES = 5 << 20


class _Names:
    """Names that no other process gives, for streams without a file.

    The system is asked for randomness once: to ask it for each stream would give the interpreter's
    lock away, for which hundreds of tasks wait that take their snapshots.
    """

    def __init__(self) -> None:
        self._pid = 0
        self._prefix = ""
        self._numbers = itertools.count()

    def next(self) -> str:
        """One that was not given before; any thread."""
        pid = os.getpid()
        if pid != self._pid:
            # A forked process inherits the streams of its parent.
            self._prefix, self._pid = uuid.uuid4().hex, pid
        return f"{self._prefix}-{next(self._numbers)}"


_names = _Names()


class StateOutputStream:
    """Takes the bytes of one stream, then gives its handle.

    Closed without having been asked for the handle, it deletes what it has written.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        inline_threshold_bytes: int = DEFAULT_INLINE_THRESHOLD_BYTES,
        write_buffer_bytes: int = DEFAULT_WRITE_BUFFER_BYTES,
    ) -> None:
        """Opens a stream; there is no file before the threshold is passed.

        Args:
            file_system: Where files go.
            directory: Their directory, which exists.
            inline_threshold_bytes: Longest stream without a file.
            write_buffer_bytes: What gathers before it is written to the file.
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
        """Bytes written until now."""
        return self._flushed + len(self._buffer)

    def write(self, data: bytes) -> None:
        """Takes bytes.

        Raises:
            OSError: The file cannot be written.
        """
        self._buffer += data
        if len(self._buffer) > self._most_buffered:
            self._flush()

    def handle(self) -> StreamHandle | None:
        """Ends the stream; None when it is empty.

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
        """Deletes what was written, unless the handle was taken."""
        if self._is_ended:
            return
        self._is_ended = True
        if self._file is None:
            return
        # What could not be written can perhaps be neither ended nor deleted; the first error is
        # the one that says why.
        with suppress(OSError):
            self._file.close()
        try:
            self._fs.delete_file(self._path)
        except OSError as error:
            logger.warning("%s is no longer used, and could not be deleted: %s", self._path, error)

    @cached_property
    def _name(self) -> str:
        """The file's."""
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
        """Goes on with the last block, and begins new ones."""
        begun = self._flushed % CHECKED_BYTES
        if begun:
            rest = data[: CHECKED_BYTES - begun]
            self._checksums[-1] = zlib.crc32(rest, self._checksums[-1])
            data = data[len(rest) :]
        self._checksums += [
            zlib.crc32(data[at : at + CHECKED_BYTES]) for at in range(0, len(data), CHECKED_BYTES)
        ]


#: Why a stream that travels in its handle takes no more.
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
    """A stream for the driver to keep: it travels in its handle, whatever its size."""

    def __init__(self, refusal: str = TOO_MUCH_STATE) -> None:
        """Opens a stream; ``refusal`` is said when it becomes too long."""
        super().__init__(LocalFileSystem(), "", MAX_DRIVER_STATE_BYTES)
        self._refusal = refusal

    def _flush(self) -> None:
        raise CheckpointStorageError(self._refusal)


class Copies(Protocol):
    """Copies of files that are nearer."""

    def read(self, handle: FileHandle) -> bytes | None:
        """The content of a file, None when there is no copy of it."""


def read_stream(handle: StreamHandle, files: FileSystems, copies: Copies | None = None) -> bytes:
    """The bytes of a stream.

    Args:
        handle: Names it.
        files: Where files are.
        copies: Where they are read if they are there; None for nowhere.

    Raises:
        CorruptCheckpointError: The file differs from what was written.
        CheckpointStorageError: It cannot be read.
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
    """Bytes of a stream around those from ``start`` to ``end``, and where they begin.

    Of a file whole blocks are read, which are checked; nothing is known of the others then.
    A copy is read as a whole.

    Raises:
        CorruptCheckpointError: What was read differs from what was written.
        CheckpointStorageError: It cannot be read.
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
    """Return whether bytes of a file, from the beginning of a block on, have their checksums."""
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
