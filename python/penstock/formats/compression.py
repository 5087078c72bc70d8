"""Compressed files, recognised by their suffixes, and files in other charsets."""

from __future__ import annotations

import codecs
import contextlib
import io
import lzma
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from penstock.common.packages.optional_library import optional_library
from penstock.errors import PenstockError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK_BYTES: Final = 1 << 16
"""Compressed bytes that are read at once; a chunk may grow a thousandfold."""


def _gzip(file: BinaryIO) -> Any:
    import gzip

    return gzip.GzipFile(fileobj=file)


def _bzip2(file: BinaryIO) -> Any:
    import bz2

    return bz2.BZ2File(file)


def _xz(file: BinaryIO) -> Any:
    return lzma.LZMAFile(file)


def _zstandard(file: BinaryIO) -> Any:
    pyarrow = optional_library("pyarrow", "pyarrow", "storage", "a file that ends with .zst")
    return io.BufferedReader(
        cast("Any", _Forward(lambda: pyarrow.CompressedInputStream(file, "zstd"), file))
    )


def _zlib(file: BinaryIO) -> Any:
    return io.BufferedReader(cast("Any", _Forward(lambda: _Inflated(file), file)))


class _Inflated:
    """Contents of a zlib stream."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflater = zlib.decompressobj()

    def read(self, size: int) -> bytes:
        while not self._inflater.eof:
            data = self._inflater.unconsumed_tail or self._file.read(_CHUNK_BYTES)
            if not data:
                raise EOFError("the compressed file ends before its end-of-stream marker")
            inflated = self._inflater.decompress(data, size)
            if inflated:
                return inflated
        return b""


class _Forward(io.RawIOBase):
    """A forward-only stream with the positions of a file; to seek back, it restarts."""

    def __init__(self, start: Callable[[], Any], file: BinaryIO) -> None:
        self._start = start
        self._file = file
        self._stream = start()
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        target = offset + (self._position if whence == io.SEEK_CUR else 0)
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end of a compressed file is not known")
        if target < self._position:
            self._file.seek(0)
            self._stream = self._start()
            self._position = 0
        while self._position < target:
            data = self._stream.read(min(1 << 20, target - self._position))
            if not data:
                break
            self._position += len(data)
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Transcoded:
    """Text of a charset, transcoded to UTF-8; invalid bytes are replaced."""

    def __init__(self, file: BinaryIO, charset: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(charset)("replace")
        self._left = b""
        self._has_ended = False

    def read(self, size: int) -> bytes:
        while not self._left and not self._has_ended:
            data = self._file.read(_CHUNK_BYTES)
            self._has_ended = not data
            self._left = self._decoder.decode(data, final=self._has_ended).encode()
        found, self._left = self._left[:size], self._left[size:]
        return found


def transcoded(file: BinaryIO, charset: str) -> BinaryIO:
    """Return the text of a file in UTF-8, as a forward-only stream with positions in UTF-8."""
    forward: Any = _Forward(lambda: _Transcoded(file, charset), file)
    return cast("BinaryIO", io.BufferedReader(forward))


_OPENERS: Final[dict[str, Callable[[BinaryIO], Any]]] = {
    ".gz": _gzip,
    ".gzip": _gzip,
    ".bz2": _bzip2,
    ".deflate": _zlib,
    ".xz": _xz,
    ".zst": _zstandard,
}


def is_compressed(path: str) -> bool:
    """Return whether a file has the suffix of a compressed one."""
    return path.lower().endswith(tuple(_OPENERS))


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Convert errors of decompression and of charsets to one that names the file.

    Raises:
        SourceError: The file is damaged, ends too early, or does not match its suffix or charset.
    """
    try:
        yield
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, PenstockError) or not is_compressed(path):
            raise
        raise SourceError(f"{path} cannot be decompressed: {error}") from error
    except UnicodeError as error:
        raise SourceError(f"{path} does not have the charset of its format: {error}") from error


def decompressed(path: str, file: BinaryIO) -> BinaryIO:
    """Return the contents of a compressed file.

    Raises:
        DependencyError: A package that reads such files is not installed.
    """
    for ending, opener in _OPENERS.items():
        if path.lower().endswith(ending):
            return cast("BinaryIO", opener(file))
    return file
