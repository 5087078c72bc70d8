"""Writing and reading one temporary file of buffers or of blocks (internals M7).

A buffer is stored as ``u32`` length and ``u8`` data type, big-endian, and its bytes; blocks are
stored bare, the caller knows their sizes.  The error of a failed request is stored and raised by
the next call; closing waits for pending requests.
"""

from __future__ import annotations

import io
import struct
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from penstock.errors import IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.pure.arguments import amount, integer, octets
from penstock.serialization.pure.uncopied import Uncopied

T = TypeVar("T")
Submit = Callable[[Callable[[], None]], None]
"""Runs a request in a thread of the file's directory."""

_HEADER = struct.Struct(">IB")
_MISSING = object()


class _Channel(Uncopied):
    """A file and the requests on it."""

    def __init__(self, path: str, mode: str, submit: Submit | None) -> None:
        self._file = io.FileIO(path, mode)
        self._path = Path(path)
        self._submit = submit
        self._changed = threading.Condition()
        self._requests = 0
        self._error: Exception | None = None
        self._closed = False

    def _run(self, request: Callable[[], None], failed: Callable[[], None] = lambda: None) -> None:
        """Run a request, here or in the thread; ``failed`` is called if it fails.

        Raises:
            OSError: an earlier request failed, or this one if it runs here.
        """
        with self._changed:
            self._check_open()
            self._check()
            self._requests += 1

        def do() -> None:
            error: Exception | None = None
            try:
                request()
            except Exception as raised:
                # Store any exception: the thread continues for the other channels.
                error = raised
            with self._changed:
                self._requests -= 1
                self._error = self._error or error
                self._changed.notify_all()
            if error is not None:
                failed()

        if self._submit is None:
            do()
            self._check()
            return
        try:
            self._submit(do)
        except BrokenPipeError:
            with self._changed:
                self._requests -= 1
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise BrokenPipeError("the file is closed")

    def _check(self) -> None:
        if self._error is not None:
            raise type(self._error)(*self._error.args) from self._error

    def _wait(self) -> None:
        """Wait for pending requests and raise the first failure."""
        with self._changed:
            self._changed.wait_for(lambda: self._requests == 0)
            self._check()

    def close(self) -> None:
        """Wait for pending requests; a second call does nothing.

        Raises:
            OSError: a request failed.
        """
        self._end(delete=False)

    def close_and_delete(self) -> None:
        """Wait for pending requests and remove the file; a second call does nothing.

        Raises:
            OSError: a request failed, or the file cannot be removed.
        """
        self._end(delete=True)

    def _end(self, *, delete: bool) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
        try:
            self._wait()
        finally:
            self._file.close()
            if delete:
                self._path.unlink()

    def _write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while len(view):
            view = view[self._file.write(view) :]

    def _read(self, size: int) -> bytes:
        """Read ``size`` bytes, fewer only at the end of the file."""
        data = bytearray()
        while len(data) < size and (piece := self._file.read(size - len(data))):
            data += piece
        return bytes(data)


class _Reading(_Channel, Generic[T]):
    """Requests whose results are taken in order."""

    def __init__(self, path: str, submit: Submit | None) -> None:
        super().__init__(path, "rb", submit)
        self._results: deque[list[object]] = deque()

    def _request(self, read: Callable[[], T]) -> None:
        result: list[object] = []

        def do() -> None:
            result.append(read())

        self._run(do, lambda: result.append(_MISSING))
        self._results.append(result)

    def _take(self, what: str) -> T:
        if not self._results:
            raise IllegalStateError(f"no {what} was asked for")
        result = self._results.popleft()
        with self._changed:
            self._changed.wait_for(lambda: result or self._requests == 0)
            if not result or result[0] is _MISSING:
                self._check()
                raise BrokenPipeError("the I/O manager is closed")
        taken: T = result[0]  # type: ignore[assignment]  # what _request put there
        return taken


class BufferFileWriter(_Channel):
    """Appends buffers to a file."""

    def __init__(self, path: str, submit: Submit | None) -> None:
        super().__init__(path, "xb", submit)

    def write(self, data: bytes, data_type: int = DataType.DATA_BUFFER) -> None:
        """Write a buffer.

        Raises:
            OSError: an earlier request failed, or this one if it is synchronous.
            ValueError: there is no such data type.
        """
        content, number = octets(data), integer(data_type)
        try:
            kind = DataType(number)
        except ValueError:
            raise ValueError(f"no buffer data type {number}") from None
        head = _HEADER.pack(len(content), kind)
        self._run(lambda: self._write(b"".join((head, content))))


class BufferFileReader(_Reading[tuple[int, bytes] | None]):
    """Reads the buffers of a file in order."""

    def request(self, capacity: int) -> None:
        """Request the next buffer, which has at most ``capacity`` bytes.

        Raises:
            OSError: an earlier request failed, or this one if it is synchronous.
            OverflowError: the capacity is negative.
        """
        capacity = amount(capacity, 31)
        self._request(lambda: self._read_buffer(capacity))

    def next(self) -> tuple[int, bytes] | None:
        """Wait for the buffer of the oldest request: data type and bytes, None at the file's end.

        Raises:
            IllegalStateError: no buffer was requested.
            OSError: a request failed.
        """
        return self._take("buffer")

    def _read_buffer(self, capacity: int) -> tuple[int, bytes] | None:
        head = self._read(_HEADER.size)
        if not head:
            return None
        if len(head) < _HEADER.size:
            raise OSError("the file ends inside a header")
        length, data_type = _HEADER.unpack(head)
        try:
            DataType(data_type)
        except ValueError as error:
            raise OSError("unknown buffer data type") from error
        if length > capacity:
            raise OSError("the stored buffer is larger than its target")
        data = self._read(length)
        if len(data) < length:
            raise OSError("the file ends inside a buffer")
        return data_type, data


class BlockChannelWriter(_Channel):
    """Appends blocks to a file."""

    def __init__(self, path: str, submit: Submit | None) -> None:
        super().__init__(path, "xb", submit)

    def write_block(self, data: bytes) -> None:
        """Write a block.

        Raises:
            OSError: an earlier request failed, or this one if it is synchronous.
        """
        content = octets(data)
        self._run(lambda: self._write(content))


class BlockChannelReader(_Reading[bytes]):
    """Reads blocks of a file in order."""

    def request(self, size: int) -> None:
        """Request the next ``size`` bytes.

        Raises:
            OSError: an earlier request failed, or this one if it is synchronous.
            OverflowError: the size is negative.
        """
        size = amount(size, 31)
        self._request(lambda: self._read_block(size))

    def next(self) -> bytes:
        """Wait for the block of the oldest request.

        Raises:
            IllegalStateError: no block was requested.
            OSError: a request failed, or the file is closed.
        """
        self._check_open()
        return self._take("block")

    def _read_block(self, size: int) -> bytes:
        data = self._read(size)
        if len(data) < size:
            raise OSError("the file ends inside a block")
        return data
