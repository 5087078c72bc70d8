"""Object stores and other file systems, accessed by pyarrow or fsspec."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from urllib.parse import urlsplit

from penstock.common.packages.store_urls import S3_SCHEMES, shown_url, why_not_a_store
from penstock.errors import CheckpointStorageError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.common.options.s3_settings import S3Settings

_CONNECT_TIMEOUT_S: Final = 5.0

#: Stores without directories: a directory is a prefix of objects' keys.
_WITHOUT_DIRECTORIES: Final = ("s3", "gcs")

#: Errors with which S3 finally rejects a request, as pyarrow words them.
_S3_ERROR: Final = re.compile(r"AWS Error ([A-Z_]+) ")
_REFUSALS: Final = {
    "NO_SUCH_BUCKET": errno.ENOENT,
    **dict.fromkeys(
        (
            "ACCESS_DENIED",
            "INCOMPLETE_SIGNATURE",
            "INVALID_ACCESS_KEY_ID",
            "INVALID_CLIENT_TOKEN_ID",
            "INVALID_SIGNATURE",
            "MISSING_AUTHENTICATION_TOKEN",
            "SIGNATURE_DOES_NOT_MATCH",
            "UNRECOGNIZED_CLIENT",
        ),
        errno.EACCES,
    ),
}


class ArrowFileSystem:
    """File system of a URL, by `pyarrow.fs`, or by `fsspec` if pyarrow does not know the scheme.

    Objects of an object store appear with their whole content when they are closed.
    """

    def __init__(self, url: str, s3: S3Settings) -> None:
        """Create the file system of the store that ``url`` is in.

        Raises:
            ConfigurationError: No installed package knows the scheme, or the URL is malformed.
            CheckpointStorageError: The region of a bucket cannot be found.
        """
        with _naming(shown_url(url)):  # asks for the region of a bucket
            self._fs = _arrow_file_system(url, s3)
        self._has_directories = self._fs.type_name not in _WITHOUT_DIRECTORIES

    def create(self, path: str) -> BinaryIO:
        """Create an object and return its stream."""
        with _naming(path):
            stream = self._fs.open_output_stream(_key(path))
        return cast("BinaryIO", _NamedStream(path, stream))

    def read(self, path: str) -> bytes:
        """Return the whole content of an object."""
        with _naming(path), self._fs.open_input_stream(_key(path)) as stream:
            return cast("bytes", stream.read())

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """Return some bytes of an object."""
        with _naming(path), self._fs.open_input_file(_key(path)) as file:
            return cast("bytes", file.read_at(max(0, min(size, file.size() - offset)), offset))

    def open_input(self, path: str) -> Any:
        """Open an object for reading at any position, as a pyarrow file."""
        with _naming(path):
            return self._fs.open_input_file(_key(path))

    def files_below(self, path: str) -> list[tuple[str, int]]:
        """Return the URLs and sizes of an object, or of all objects below a directory, in order.

        Names that start with a dot or an underscore are left out, with everything below them.
        """
        from pyarrow.fs import FileSelector, FileType

        with _naming(path):
            info = self._fs.get_file_info(_key(path))
            if info.type == FileType.File:
                return [(path, int(info.size))]
            selector = FileSelector(_key(path), recursive=True, allow_not_found=True)
            found = self._fs.get_file_info(selector)
        key, base = _key(path), path.rstrip("/")
        below = []
        for info in found:
            names = info.path[info.path.rindex(key) + len(key) :] if key in info.path else info.path
            is_hidden = any(name.startswith((".", "_")) for name in names.split("/"))
            if info.type == FileType.File and not is_hidden:
                below.append((f"{base}/{names.lstrip('/')}", int(info.size)))
        return sorted(below)

    def missing_bucket(self, path: str) -> str | None:
        """Return the name of an object store's bucket if it does not exist."""
        if self._has_directories:
            return None
        bucket = _key(path).partition("/")[0]
        with _naming(path):
            is_there = bool(self._fs.get_file_info(bucket).type.value)
        return None if is_there else bucket

    def publish(self, path: str, data: bytes) -> None:
        """Write an object, which appears with its whole content."""
        stream = self.create(path)
        stream.write(data)
        stream.close()

    def make_directory(self, path: str) -> None:
        """Create a directory if the store has directories."""
        if self._has_directories:
            with _naming(path):
                self._fs.create_dir(_key(path), recursive=True)

    def prepare(self, path: str) -> None:
        """Check that objects can be written below a path, by writing and deleting one."""
        self.make_directory(path)
        probe = f"{path}/.probe.{uuid.uuid4().hex}"
        self.publish(probe, b"")
        self.delete_file(probe)

    def exists(self, path: str) -> bool:
        """Return whether an object or directory exists."""
        with _naming(path):
            return bool(self._fs.get_file_info(_key(path)).type.value)

    def size(self, path: str) -> int | None:
        """Return the length of an object in bytes; None if it does not exist."""
        with _naming(path):
            info = self._fs.get_file_info(_key(path))
        return int(info.size) if info.is_file else None

    def move(self, source: str, target: str) -> None:
        """Rename an object, which appears with its whole content.

        Raises:
            FileNotFoundError: There is no such object.
        """
        with _naming(source):
            self._fs.move(_key(source), _key(target))

    def delete_file(self, path: str) -> None:
        """Delete an object."""
        with contextlib.suppress(FileNotFoundError), _naming(path):
            self._fs.delete_file(_key(path))

    def delete_directory(self, path: str) -> None:
        """Delete all objects below a path."""
        with contextlib.suppress(FileNotFoundError), _naming(path):
            self._fs.delete_dir(_key(path))

    def names(self, path: str) -> list[str]:
        """Return the names of objects and directories directly below a path."""
        from pyarrow.fs import FileSelector

        with _naming(path):
            found = self._fs.get_file_info(FileSelector(_key(path), allow_not_found=True))
        return [info.base_name for info in found]


class _NamedStream:
    """An object being written; its errors name it."""

    def __init__(self, path: str, stream: Any) -> None:
        self._path = path
        self._stream = stream

    def write(self, data: bytes) -> int:
        with _naming(self._path):
            return int(self._stream.write(data))

    def close(self) -> None:
        with _naming(self._path):
            self._stream.close()


def _key(url: str) -> str:
    """Return the store's key of an object: the URL without its scheme."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}".rstrip("/") if parts.scheme != "hdfs" else parts.path


def _arrow_file_system(url: str, s3: S3Settings) -> Any:
    if (reason := why_not_a_store(url)) is not None:
        raise ConfigurationError(f"{shown_url(url)}: {reason}")
    from pyarrow import ArrowInvalid, fs

    parts = urlsplit(url)
    if parts.scheme in S3_SCHEMES:
        return _s3_file_system(parts.netloc, s3)
    try:
        return fs.FileSystem.from_uri(url)[0]
    except ArrowInvalid:
        pass  # not one of pyarrow's own schemes
    try:
        import fsspec

        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(parts.scheme)))
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"{shown_url(url)}: neither pyarrow nor fsspec reach it: {error}"
        ) from error


def _s3_file_system(bucket: str, s3: S3Settings) -> Any:
    from pyarrow import fs

    region = s3.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        # Servers at other endpoints have one region; Amazon's bucket knows its own.
        region = "us-east-1" if s3.endpoint is not None else fs.resolve_s3_region(bucket)
    scheme, _, endpoint = (s3.endpoint or "").rpartition("://")
    return fs.S3FileSystem(
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        session_token=s3.session_token,
        region=region,
        scheme=scheme or "https",
        endpoint_override=endpoint or None,
        force_virtual_addressing=s3.path_style is False,
        connect_timeout=_CONNECT_TIMEOUT_S,
        # A small object then takes one request instead of the three of an upload.
        allow_delayed_open=True,
    )


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Add the path to errors of a store, and the error number that they mean."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        named = CheckpointStorageError(f"{path}: {error}")
        answer = _S3_ERROR.search(str(error))
        named.errno = error.errno if answer is None else _REFUSALS.get(answer[1])
        raise named from error
