"""Splitting of one channel's buffers into records (internals M11).

Records are ``i32 length`` and payload, packed without regard to buffer borders.  Records that lie
in one buffer are returned as views of it.  A record that spans buffers is assembled in memory, or
in a temporary file once it is longer than the threshold.  If the system allows it, the file is
unlinked as soon as it is open, so even a killed process leaves no file behind.
"""

from __future__ import annotations

import mmap
import os
import struct
import weakref
from typing import TYPE_CHECKING

from penstock.errors import CorruptStreamError, NetworkError
from penstock.network.pure.arguments import amount, items_of, octets
from penstock.network.pure.memory.temporary_file import REMEDY, create_temporary_file
from penstock.serialization.pure.uncopied import Uncopied

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

SPILL_THRESHOLD_BYTES = 5 << 20
"""Longest record that is gathered in memory."""

MIN_SPILL_THRESHOLD_BYTES = 100 << 10
_LENGTH = struct.Struct(">i")


def _invalid_length(length: int) -> CorruptStreamError:
    return CorruptStreamError(f"record length {length} outside 0..=2147483647 bytes")


class RecordDeserializer(Uncopied):
    """The state of one channel: the bytes of a record whose end has not arrived.

    Args:
        temp_directories: Directories for records that are assembled in a file; without any, that of
            `tempfile.gettempdir`.
        spill_threshold_bytes: Length of the longest record that is assembled in memory, at least
            100 KiB.
    """

    def __init__(
        self,
        temp_directories: Sequence[str | PathLike[str]] = (),
        spill_threshold_bytes: int = SPILL_THRESHOLD_BYTES,
    ) -> None:
        items_of(temp_directories)
        self._directories = [os.fspath(directory) for directory in temp_directories]
        self._threshold = max(amount(spill_threshold_bytes), MIN_SPILL_THRESHOLD_BYTES)
        self._head = bytearray()
        self._length = -1
        self._gathered = bytearray()
        self._spill: _SpillFile | None = None

    @property
    def has_pending_bytes(self) -> bool:
        """Return whether a record is incomplete."""
        return self._length >= 0 or bool(self._head)

    def records_of(self, buffer: bytes | memoryview) -> list[bytes]:
        """Return the payloads that end in ``buffer``; keep the bytes of one that does not.

        Raises:
            CorruptStreamError: a length is negative.
            NetworkError: a long record cannot be written to a file.
        """
        return [bytes(record) for record in self._views_of(octets(buffer))]

    def _views_of(self, buffer: bytes | memoryview) -> list[bytes | memoryview]:
        """Return the payloads as `records_of`, as views if they lie in ``buffer``.

        The views are valid as long as the caller keeps the buffer.
        """
        records: list[bytes | memoryview] = []
        offset = self._continue(buffer, records) if self.has_pending_bytes else 0
        end = len(buffer)
        while end - offset >= 4:
            length: int = _LENGTH.unpack_from(buffer, offset)[0]
            if length < 0:
                raise _invalid_length(length)
            start = offset + 4
            if length > end - start:
                self._begin(length)
                self._gather(buffer[start:])
                return records
            offset = start + length
            records.append(buffer[start:offset])
        self._head += buffer[offset:]
        return records

    def unconsumed(self) -> bytes:
        """Return the received pending bytes, for replay to a fresh deserializer."""
        if self._length < 0:
            return bytes(self._head)
        body = self._gathered if self._spill is None else self._spill.content()
        return _LENGTH.pack(self._length) + bytes(body)

    def clear(self) -> None:
        """Drop pending bytes and the spill file."""
        self._head = bytearray()
        self._length = -1
        self._gathered = bytearray()
        if self._spill is not None:
            self._spill.close()
            self._spill = None

    def _continue(self, buffer: bytes | memoryview, records: list[bytes | memoryview]) -> int:
        """Feed the pending record; return where the rest of the buffer begins."""
        offset = 0
        if self._length < 0:
            offset = min(4 - len(self._head), len(buffer))
            self._head += buffer[:offset]
            if len(self._head) < 4:
                return offset
            length: int = _LENGTH.unpack(self._head)[0]
            if length < 0:
                raise _invalid_length(length)
            self._begin(length)
        count = min(self._length - self._size(), len(buffer) - offset)
        self._gather(buffer[offset : offset + count])
        if self._size() == self._length:
            records.append(self._complete())
        return offset + count

    def _begin(self, length: int) -> None:
        self._head = bytearray()
        self._length = length
        if length > self._threshold:
            self._spill = _SpillFile(self._directories)

    def _gather(self, data: bytes | memoryview) -> None:
        if self._spill is None:
            self._gathered += data
        else:
            self._spill.write(data)

    def _size(self) -> int:
        return len(self._gathered) if self._spill is None else self._spill.size

    def _complete(self) -> bytes | memoryview:
        record: bytes | memoryview
        record = memoryview(self._gathered) if self._spill is None else self._spill.content()
        self.clear()
        return record


class _SpillFile:
    """A temporary file of one record, closed at the latest with the last reference to it."""

    def __init__(self, directories: list[str]) -> None:
        self.size = 0
        self._descriptor, _ = create_temporary_file(directories, "a long record", "inputchannel")
        self.close = weakref.finalize(self, os.close, self._descriptor)

    def write(self, data: bytes | memoryview) -> None:
        while len(data):
            try:
                count = os.write(self._descriptor, data)
            except OSError as error:
                raise NetworkError(
                    f"a long record cannot be written to a temporary file, {self.size} bytes until "
                    f"now ({REMEDY}): {error.strerror}"
                ) from error
            self.size += count
            data = data[count:]

    def content(self) -> memoryview:
        """Map the file; the mapping outlives it."""
        if self.size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ))
