"""The file systems that checkpoints lie in: local disks, and what pyarrow or fsspec reach."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self, cast
from urllib.parse import urlsplit

from penstock.errors import CheckpointStorageError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator


class FileSystem(Protocol):
    """What a checkpoint storage needs; paths are whole, as the storage was configured.

    Every method raises an `OSError` that names the path.
    """

    def create(self, path: str) -> BinaryIO:
        """A new file to be written once; its bytes are durable when it was closed."""

    def read(self, path: str) -> bytes:
        """The whole content of a file.

        Raises:
            FileNotFoundError: There is none.
        """

    def publish(self, path: str, data: bytes) -> None:
        """Makes a file appear with all of its content, or not at all."""

    def make_directory(self, path: str) -> None:
        """Makes a directory and those above it, unless they are there."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""

    def delete_file(self, path: str) -> None:
        """Deletes a file, if it is there."""

    def delete_directory(self, path: str) -> None:
        """Deletes a directory with all that is in it, if it is there."""

    def delete_if_empty(self, path: str) -> None:
        """Deletes a directory that has nothing in it; any other stays."""


class LocalFileSystem:
    """A directory of this machine, or one that all machines mount at the same place."""

    def create(self, path: str) -> BinaryIO:
        """A new file; synchronised with the disk when it is closed."""
        return cast("BinaryIO", _SyncedFile(_local(path)))

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        return Path(_local(path)).read_bytes()

    def publish(self, path: str, data: bytes) -> None:
        """Writes beside the file, synchronises, and renames."""
        target = Path(_local(path))
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with _SyncedFile(str(beside)) as file:
                file.write(data)
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        _sync_directory(target.parent)

    def make_directory(self, path: str) -> None:
        """Makes a directory and those above it."""
        Path(_local(path)).mkdir(parents=True, exist_ok=True)

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return Path(_local(path)).exists()

    def delete_file(self, path: str) -> None:
        """Deletes a file."""
        Path(_local(path)).unlink(missing_ok=True)

    def delete_directory(self, path: str) -> None:
        """Deletes a directory with all that is in it."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(_local(path))

    def delete_if_empty(self, path: str) -> None:
        """Deletes a directory that has nothing in it."""
        with contextlib.suppress(OSError):
            Path(_local(path)).rmdir()


class ArrowFileSystem:
    """What a URL names, by `pyarrow.fs`, or by `fsspec` where pyarrow does not know the scheme.

    Objects of an object store appear with all of their content when they are closed.
    """

    def __init__(self, url: str) -> None:
        """Connects to the store that ``url`` lies in.

        Raises:
            ConfigurationError: No installed package knows the scheme.
        """
        self._fs = _arrow_file_system(url)

    def create(self, path: str) -> BinaryIO:
        """A new object."""
        with _naming(path):
            return cast("BinaryIO", self._fs.open_output_stream(_key(path)))

    def read(self, path: str) -> bytes:
        """The whole content of an object."""
        with _naming(path), self._fs.open_input_stream(_key(path)) as stream:
            return cast("bytes", stream.read())

    def publish(self, path: str, data: bytes) -> None:
        """Writes an object, which appears whole."""
        with self.create(path) as stream, _naming(path):
            stream.write(data)

    def make_directory(self, path: str) -> None:
        """Makes a directory where the store has such things."""
        with _naming(path):
            self._fs.create_dir(_key(path), recursive=True)

    def exists(self, path: str) -> bool:
        """Whether an object or directory is there."""
        with _naming(path):
            return bool(self._fs.get_file_info(_key(path)).type.value)

    def delete_file(self, path: str) -> None:
        """Deletes an object."""
        with contextlib.suppress(FileNotFoundError), _naming(path):
            self._fs.delete_file(_key(path))

    def delete_directory(self, path: str) -> None:
        """Deletes all objects below a path."""
        with contextlib.suppress(FileNotFoundError), _naming(path):
            self._fs.delete_dir(_key(path))

    def delete_if_empty(self, path: str) -> None:
        """Deletes a directory that has nothing in it."""
        from pyarrow.fs import FileSelector

        with contextlib.suppress(FileNotFoundError), _naming(path):
            if not self._fs.get_file_info(FileSelector(_key(path))):
                self._fs.delete_dir(_key(path))


def file_system_of(path: str) -> FileSystem:
    """The file system of a path or URL.

    Raises:
        ConfigurationError: The scheme is not known here.
    """
    scheme = urlsplit(path).scheme
    if scheme in ("", "file"):
        return LocalFileSystem()
    return ArrowFileSystem(path)


def absolute(path: str) -> str:
    """A local path as every process of the machine sees it; a URL as it is."""
    return path if urlsplit(path).scheme else str(Path(path).absolute())


class _SyncedFile:
    """A new file whose bytes are on the disk once it is closed; it must not exist before."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("xb", buffering=0)  # noqa: SIM115

    def write(self, data: bytes) -> int:
        """Writes all of the bytes."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) or 0 :]
        return len(data)

    def close(self) -> None:
        """Synchronises and closes; a second time does nothing."""
        if not self._file.closed:
            try:
                os.fsync(self._file.fileno())
            finally:
                self._file.close()

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


def _key(url: str) -> str:
    """What the store calls an object: all of a URL behind its scheme."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}".rstrip("/") if parts.scheme != "hdfs" else parts.path


def _arrow_file_system(url: str) -> Any:
    try:
        from pyarrow import ArrowInvalid, fs
    except ImportError as error:
        raise ConfigurationError(
            f"{url}: checkpoints outside of local disks need pyarrow: pip install pyarrow"
        ) from error
    try:
        return fs.FileSystem.from_uri(url)[0]
    except ArrowInvalid:
        pass  # not one of pyarrow's own schemes
    scheme = urlsplit(url).scheme
    try:
        import fsspec

        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme)))
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"{url}: no installed package knows {scheme!r}: install fsspec and the package that "
            f"brings this scheme ({error})"
        ) from error


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Gives errors of a store the path that they are about."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointStorageError(f"{path}: {error}") from error
