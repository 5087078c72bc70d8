"""File systems of checkpoints and part files: local disks and those of URLs."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, Self, cast
from urllib.parse import urlsplit

from penstock.common.options.s3_settings import S3Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.checkpoint_storage.arrow_file_system import ArrowFileSystem


_LASTING: Final = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EINVAL,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)


class FileSystem(Protocol):
    """File system of a checkpoint storage; paths are absolute, as configured.

    Every method raises an `OSError` that names the path.
    """

    def create(self, path: str) -> BinaryIO:
        """Create a file to be written once; its bytes are durable when it is closed."""

    def read(self, path: str) -> bytes:
        """Return the whole content of a file.

        Raises:
            FileNotFoundError: There is no such file.
        """

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """Return some bytes of a file; fewer at its end.

        Raises:
            FileNotFoundError: There is no such file.
        """

    def publish(self, path: str, data: bytes) -> None:
        """Write a file that appears with its whole content, or not at all."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, unless they exist."""

    def prepare(self, path: str) -> None:
        """Ensure that files can be created below a directory, which need not exist."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""

    def delete_file(self, path: str) -> None:
        """Delete a file, if it exists."""

    def delete_directory(self, path: str) -> None:
        """Delete a directory with its content, if it exists."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; none if it does not exist."""


#: The number of further attempts to delete a directory in which files come and go.
_DELETIONS: Final = 10

PRIVATE_DIRECTORY: Final = 0o700
PRIVATE_FILE: Final = 0o600


class LocalFileSystem:
    """A directory of this machine, or one that all machines mount at the same place."""

    def __init__(self, *, is_private: bool = False) -> None:
        """Create the file system of this machine's disks.

        Args:
            is_private: Whether other users may not access new files, whatever the umask.
        """
        self._directory_mode = PRIVATE_DIRECTORY if is_private else 0o777
        self._file_mode = PRIVATE_FILE if is_private else 0o666

    def create(self, path: str) -> BinaryIO:
        """Create a file that is synchronised with the disk when it is closed."""
        return cast("BinaryIO", _SyncedFile(_local(path), self._file_mode))

    def local_path(self, path: str) -> str:
        """Return the local path of a file."""
        return _local(path)

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""
        with _opened(_local(path)) as file:
            return file.read()

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """Return some bytes of a file."""
        with _opened(_local(path)) as file:
            file.seek(offset)
            return file.read(size)

    def publish(self, path: str, data: bytes) -> None:
        """Write a temporary file, synchronise it, and rename it."""
        target = Path(_local(path))
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with _SyncedFile(str(beside), self._file_mode) as file:
                file.write(data)
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        _sync_directory(target.parent)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        Path(_local(path)).mkdir(self._directory_mode, parents=True, exist_ok=True)

    def prepare(self, path: str) -> None:
        """Create a directory and its parents."""
        self.make_directory(path)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return Path(_local(path)).exists()

    def delete_file(self, path: str) -> None:
        """Delete a file."""
        Path(_local(path)).unlink(missing_ok=True)

    def delete_directory(self, path: str) -> None:
        """Delete a directory with its content."""
        left = _DELETIONS
        while self.exists(path):
            try:
                shutil.rmtree(_local(path))
            except OSError as error:
                # A task that was not yet notified has just created or deleted a file.
                if left == 0 or error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                    raise
                left -= 1
            else:
                return

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        try:
            return [entry.name for entry in Path(_local(path)).iterdir()]
        except FileNotFoundError:
            return []


class FileSystems:
    """Finds the file system of a path or URL."""

    def __init__(self, configuration: Mapping[str, str], *, is_private: bool = False) -> None:
        """Create file systems with the options `s3.*`.

        Args:
            configuration: Contains the options.
            is_private: See `LocalFileSystem`.

        Raises:
            ConfigurationError: The options contradict each other.
        """
        self._s3 = S3Settings.of(configuration)
        self._local = LocalFileSystem(is_private=is_private)
        self._stores: dict[tuple[str, str], ArrowFileSystem] = {}

    def of(self, path: str) -> FileSystem:
        """Return the file system of a path or URL.

        Raises:
            ConfigurationError: The scheme is unknown, or the URL is malformed.
        """
        return self._local if urlsplit(path).scheme in ("", "file") else self.store(path)

    def store(self, url: str) -> ArrowFileSystem:
        """Return the file system of a URL that is not on a local disk.

        Raises:
            ConfigurationError: The scheme is unknown, or the URL is malformed.
        """
        scheme, authority, *_ = urlsplit(url)
        found = self._stores.get((scheme, authority))
        if found is None:
            # Imported here: most jobs store their files on disks, and this imports pyarrow.
            from penstock.checkpoint_storage.arrow_file_system import ArrowFileSystem

            found = self._stores[scheme, authority] = ArrowFileSystem(url, self._s3)
        return found


def is_lasting(error: OSError) -> bool:
    """Return whether an error of creating a file is permanent.

    A store that does not answer, a full disk or too many open files may recover soon.
    """
    return error.errno in _LASTING


def absolute(path: str) -> str:
    """Return a local path as an absolute path; a URL unchanged."""
    return path if urlsplit(path).scheme else str(Path(path).absolute())


class _SyncedFile:
    """A new file whose bytes are on disk once it is closed; the path must not exist before."""

    def __init__(self, path: str, mode: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._path = path
        self._file = os.fdopen(os.open(path, flags, mode), "wb", buffering=0)

    def write(self, data: bytes) -> int:
        """Write all of the bytes."""
        view = memoryview(data)
        with self._naming():
            while view:
                view = view[self._file.write(view) or 0 :]
        return len(data)

    def close(self) -> None:
        """Synchronise and close; a second time does nothing."""
        if not self._file.closed:
            try:
                with self._naming():
                    os.fsync(self._file.fileno())
            finally:
                self._file.close()

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Set the path in errors: those of open files lack it."""
        try:
            yield
        except OSError as error:
            error.filename = self._path
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _local(path: str) -> str:
    return urlsplit(path).path if path.startswith("file:") else path


def _opened(path: str) -> BinaryIO:
    """Open a file to read it.

    Raises:
        OSError: It is not a regular file: a pipe would wait for a writer, and a device may have
            no end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "It is a pipe or a device, not a file", path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
