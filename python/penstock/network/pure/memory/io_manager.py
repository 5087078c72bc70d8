"""Names and removal of temporary files in temporary directories (internals M7).

Each directory has one writer thread and one reader thread, so requests of many channels on one
disk queue up instead of competing; the queues are bounded.
"""

from __future__ import annotations

import itertools
import os
import queue
import shutil
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.errors import ConfigurationError
from penstock.network.pure.arguments import amount, boolean, items_of
from penstock.network.pure.home import OfOneProcess
from penstock.network.pure.memory.file_channel import (
    BlockChannelReader,
    BlockChannelWriter,
    BufferFileReader,
    BufferFileWriter,
    Submit,
)
from penstock.serialization.pure.uncopied import Uncopied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_QUEUE_LENGTH = 256
_NAMING_ATTEMPTS = 10
_directory_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class FileChannelId(Uncopied):
    """The path of one temporary file, and the index of its directory."""

    path: str
    directory: int


class FileChannelEnumerator(Uncopied):
    """Names of related files, without end."""

    def __init__(self, names: Iterator[FileChannelId]) -> None:
        self._names = names

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> FileChannelId:
        return next(self._names)


class IOThread:
    """A thread that runs requests in the order of their arrival."""

    def __init__(self, name: str) -> None:
        self._requests: queue.Queue[Callable[[], None] | None] = queue.Queue(_QUEUE_LENGTH)
        self._lock = threading.Lock()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, request: Callable[[], None]) -> None:
        """Queue a request, waiting for room.

        Raises:
            BrokenPipeError: the I/O manager is closed.
        """
        with self._lock:
            if self._stopped:
                raise BrokenPipeError("the I/O manager is closed")
            self._requests.put(request)

    def stop(self) -> None:
        """End after all queued requests."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            request()


class _Directory(OfOneProcess):
    """A directory and its threads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.writer = IOThread("penstock-io-writer")
        self.reader = IOThread("penstock-io-reader")

    def close(self) -> None:
        """End the threads and remove the files; a forked child has neither."""
        if self._is_left:
            return
        self.writer.stop()
        self.reader.stop()
        if self.path.exists():
            shutil.rmtree(self.path)


class IOManager(Uncopied):
    """Owns temporary directories, names their files, and reads and writes them.

    It belongs to the process that creates it; a manager that is dropped is closed.

    Args:
        temp_directories: Directories, at least one, below each of which it creates one of its own
            and starts two threads.

    Raises:
        ConfigurationError: there is no directory.
        OSError: a directory cannot be created.
    """

    def __init__(self, temp_directories: Sequence[str | os.PathLike[str]]) -> None:
        items_of(temp_directories)
        parents = [Path(os.fspath(directory)) for directory in temp_directories]
        if not parents:
            raise ConfigurationError("at least one temporary directory is needed")
        self._directories: list[_Directory] = []
        self._next_directory = itertools.count()
        self._next_file = itertools.count()
        self._closed = False
        # Also when the manager is dropped, and at the end of the interpreter.
        weakref.finalize(self, _close, self._directories)
        try:
            for parent in parents:
                self._directories.append(_Directory(_make_directory(parent)))
        except BaseException:
            self.close()
            raise

    @property
    def directories(self) -> list[str]:
        """The directories that hold the files."""
        return [str(directory.path) for directory in self._open()]

    def create_channel(self) -> FileChannelId:
        """Name one file, in the next directory in turn."""
        directories = self._open()
        index = next(self._next_directory) % len(directories)
        return self._channel(index, f"{next(self._next_file):016x}.channel")

    def create_channel_enumerator(self) -> FileChannelEnumerator:
        """Return the names of related files: a counter, with directories in turn."""
        count = len(self._open())
        first, number = next(self._next_directory), next(self._next_file)
        return FileChannelEnumerator(
            self._channel((first + counter) % count, f"{number:016x}.{counter:06}.channel")
            for counter in itertools.count()
        )

    def create_buffer_writer(
        self, channel: FileChannelId, *, synchronous: bool = False
    ) -> BufferFileWriter:
        """Create a file of buffers.

        Raises:
            OSError: the file exists or cannot be made.
        """
        submit = self._writes(channel, synchronous)
        return BufferFileWriter(channel.path, submit)

    def create_buffer_reader(
        self, channel: FileChannelId, *, synchronous: bool = False
    ) -> BufferFileReader:
        """Open a file of buffers.

        Raises:
            OSError: the file cannot be opened.
        """
        submit = self._reads(channel, synchronous)
        return BufferFileReader(channel.path, submit)

    def create_block_writer(
        self, channel: FileChannelId, *, synchronous: bool = False
    ) -> BlockChannelWriter:
        """Create a file of blocks.

        Raises:
            OSError: the file exists or cannot be made.
        """
        submit = self._writes(channel, synchronous)
        return BlockChannelWriter(channel.path, submit)

    def create_block_reader(
        self, channel: FileChannelId, *, synchronous: bool = False
    ) -> BlockChannelReader:
        """Open a file of blocks.

        Raises:
            OSError: the file cannot be opened.
        """
        submit = self._reads(channel, synchronous)
        return BlockChannelReader(channel.path, submit)

    def read_bulk(
        self,
        channel: FileChannelId,
        num_blocks: int,
        block_size: int,
        *,
        synchronous: bool = False,
    ) -> list[bytes]:
        """Read a file of ``num_blocks`` blocks of ``block_size`` bytes, remove it and return them.

        Raises:
            OSError: the file cannot be read, or ends early.
            OverflowError: a number is negative.
        """
        _check_channel(channel)
        num_blocks, block_size = amount(num_blocks, 31), amount(block_size, 31)
        reader = self.create_block_reader(channel, synchronous=synchronous)
        try:
            for _ in range(num_blocks):
                reader.request(block_size)
            blocks = [reader.next() for _ in range(num_blocks)]
        except OSError:
            Path(channel.path).unlink(missing_ok=True)
            raise
        reader.close_and_delete()
        return blocks

    def close(self) -> None:
        """End the threads after all queued requests and remove the directories with all files.

        A manager that is dropped is closed.  In a forked child, nothing happens.

        Raises:
            OSError: a directory cannot be removed; the others are still removed.
        """
        self._closed = True
        _close(self._directories)

    def _open(self) -> list[_Directory]:
        if self._closed:
            raise BrokenPipeError("the I/O manager is closed")
        return self._directories

    def _writes(self, channel: FileChannelId, synchronous: bool) -> Submit | None:
        """Return the thread for writes to a directory; None if the caller writes."""
        _check_channel(channel)
        synchronous = boolean(synchronous)
        writer = self._directory(channel).writer
        return None if synchronous else writer.submit

    def _reads(self, channel: FileChannelId, synchronous: bool) -> Submit | None:
        """Return the thread for reads from a directory; None if the caller reads."""
        _check_channel(channel)
        synchronous = boolean(synchronous)
        reader = self._directory(channel).reader
        return None if synchronous else reader.submit

    def _directory(self, channel: FileChannelId) -> _Directory:
        directories = self._open()
        if channel.directory >= len(directories):
            raise ValueError(f"{channel.path} belongs to another I/O manager")
        return directories[channel.directory]

    def _channel(self, directory: int, name: str) -> FileChannelId:
        return FileChannelId(str(self._open()[directory].path / name), directory)


def _close(directories: list[_Directory]) -> None:
    """Close directories, once, and raise the first error."""
    error: OSError | None = None
    while directories:
        try:
            directories.pop(0).close()
        except OSError as failed:
            error = error or failed
    if error is not None:
        raise error


def _check_channel(channel: FileChannelId) -> None:
    if not isinstance(channel, FileChannelId):
        raise TypeError(f"{type(channel).__name__!r} object is not an instance of 'FileChannelId'")


def _make_directory(parent: Path) -> Path:
    """Create a directory that no other process uses."""
    parent.mkdir(parents=True, exist_ok=True)
    for _ in range(_NAMING_ATTEMPTS):
        path = parent / f"penstock-io-{os.getpid()}-p{next(_directory_numbers)}"
        try:
            path.mkdir()
        except FileExistsError:
            # Left behind by an earlier process that had the same id.
            continue
        return path
    raise FileExistsError(f"no fresh directory name in {parent}")
