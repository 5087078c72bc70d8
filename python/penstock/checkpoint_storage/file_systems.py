"""The file systems that checkpoints and part files lie in: local disks and what URLs name."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
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
        """A new file to be written once; its bytes are durable when it was closed."""

    def read(self, path: str) -> bytes:
        """The whole content of a file.

        Raises:
            FileNotFoundError: There is none.
        """

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """Some bytes of a file, fewer where it ends.

        Raises:
            FileNotFoundError: There is none.
        """

    def publish(self, path: str, data: bytes) -> None:
        """Makes a file appear with all of its content, or not at all."""

    def make_directory(self, path: str) -> None:
        """Makes a directory and those above it, unless they are there."""

    def prepare(self, path: str) -> None:
        """Makes sure that files can be made below a directory, which need not be there."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory is there."""

    def delete_file(self, path: str) -> None:
        """Deletes a file, if it is there."""

    def delete_directory(self, path: str) -> None:
        """Deletes a directory with all that is in it, if it is there."""

    def names(self, path: str) -> list[str]:
        """The names in a directory; none when it is not there."""


PRIVATE_DIRECTORY: Final = 0o700
PRIVATE_FILE: Final = 0o600


class LocalFileSystem:
    """A directory of this machine, or one that all machines mount at the same place."""

    def __init__(self, *, is_private: bool = False) -> None:
        """Reaches the disks of this machine.

        Args:
            is_private: Whether other users are kept from what is made, whatever the umask is.
        """
        self._directory_mode = PRIVATE_DIRECTORY if is_private else 0o777
        self._file_mode = PRIVATE_FILE if is_private else 0o666

    def create(self, path: str) -> BinaryIO:
        """A new file; synchronised with the disk when it is closed."""
        return cast("BinaryIO", _SyncedFile(_local(path), self._file_mode))

    def local_path(self, path: str) -> str:
        """The path that this machine knows it by."""
        return _local(path)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        return Path(_local(path)).read_bytes()

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """Some bytes of a file."""
        with Path(_local(path)).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def publish(self, path: str, data: bytes) -> None:
        """Writes beside the file, synchronises, and renames."""
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
        """Makes a directory and those above it."""
        Path(_local(path)).mkdir(self._directory_mode, parents=True, exist_ok=True)

    def prepare(self, path: str) -> None:
        """Makes a directory and those above it."""
        self.make_directory(path)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory is there."""
        return Path(_local(path)).exists()

    def delete_file(self, path: str) -> None:
        """Deletes a file."""
        Path(_local(path)).unlink(missing_ok=True)

    def delete_directory(self, path: str) -> None:
        """Deletes a directory with all that is in it."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(_local(path))

    def names(self, path: str) -> list[str]:
        """The names in a directory."""
        try:
            return [entry.name for entry in Path(_local(path)).iterdir()]
        except FileNotFoundError:
            return []


class FileSystems:
    """Finds the file system of a path or URL."""

    def __init__(self, configuration: Mapping[str, str], *, is_private: bool = False) -> None:
        """Reaches file systems as the options `s3.*` say.

        Args:
            configuration: Has the options.
            is_private: As of `LocalFileSystem`.

        Raises:
            ConfigurationError: The options do not fit together.
        """
        self._s3 = S3Settings.of(configuration)
        self._local = LocalFileSystem(is_private=is_private)
        self._stores: dict[tuple[str, str], ArrowFileSystem] = {}

    def of(self, path: str) -> FileSystem:
        """The file system of a path or URL.

        Raises:
            ConfigurationError: The scheme is not known here, or the URL is not as it must be.
        """
        return self._local if urlsplit(path).scheme in ("", "file") else self.store(path)

    def store(self, url: str) -> ArrowFileSystem:
        """Return the file system of a URL that is not on a local disk.

        Raises:
            ConfigurationError: The scheme is not known here, or the URL is not as it must be.
        """
        scheme, authority, *_ = urlsplit(url)
        found = self._stores.get((scheme, authority))
        if found is None:
            # Imported here: most jobs keep their files on disks, and this imports pyarrow.
            from penstock.checkpoint_storage.arrow_file_system import ArrowFileSystem

            found = self._stores[scheme, authority] = ArrowFileSystem(url, self._s3)
        return found


def is_lasting(error: OSError) -> bool:
    """Return whether what could not be made at a path cannot be made there later either.

    A store that does not answer, a full disk or too many open files may be another matter soon.
    """
    return error.errno in _LASTING


def absolute(path: str) -> str:
    """A local path as every process of the machine sees it; a URL as it is."""
    return path if urlsplit(path).scheme else str(Path(path).absolute())


class _SyncedFile:
    """A new file whose bytes are on the disk once it is closed; it must not exist before."""

    def __init__(self, path: str, mode: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._path = path
        self._file = os.fdopen(os.open(path, flags, mode), "wb", buffering=0)

    def write(self, data: bytes) -> int:
        """Writes all of the bytes."""
        view = memoryview(data)
        with self._naming():
            while view:
                view = view[self._file.write(view) or 0 :]
        return len(data)

    def close(self) -> None:
        """Synchronises and closes; a second time does nothing."""
        if not self._file.closed:
            try:
                with self._naming():
                    os.fsync(self._file.fileno())
            finally:
                self._file.close()

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Has errors name the file: those of open files do not."""
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


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
