"""Records over buffers, step by step: serializer and deserializer of the older interface.

Tasks write and read through ``RecordWriter`` and ``StreamInputProcessor``, which do the same in
one go; the bytes are identical (internals M8, M9, M11).  Here the caller owns the buffers, and the
result of each step says whether the record and the buffer are complete.  Both runtimes use this
module with their own serializer and deserializer.
"""

from __future__ import annotations

import enum
import struct
from collections import deque
from typing import TYPE_CHECKING, ClassVar

from penstock.errors import IllegalStateError
from penstock.runtime import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from penstock.network.pure.framing.deserializer import RecordDeserializer
    from penstock.network.pure.framing.serializer import RecordSerializer
    from penstock.runtime import Runtime

SPILL_THRESHOLD_BYTES = 5 << 20
"""Longest record that a deserializer gathers in memory."""

_MAX_RECORD_BYTES = 2**31 - 1

_LENGTH = struct.Struct(">i")


class SerializationResult(enum.Enum):
    """State of a record and its buffer after a step."""

    PARTIAL_RECORD_MEMORY_SEGMENT_FULL = enum.auto()
    """Bytes remain; another buffer is needed, or a first one."""

    FULL_RECORD_MEMORY_SEGMENT_FULL = enum.auto()
    """Everything is written and the buffer is exactly full: do not request another one."""

    FULL_RECORD = enum.auto()
    """Everything is written and space is left."""

    @property
    def is_full_record(self) -> bool:
        """Return whether the whole record is written."""
        return self is not SerializationResult.PARTIAL_RECORD_MEMORY_SEGMENT_FULL

    @property
    def is_full_buffer(self) -> bool:
        """Return whether the buffer has no space left."""
        return self is not SerializationResult.FULL_RECORD


class DeserializationResult(enum.Enum):
    """Outcome of a deserialization step: a record or none, and whether the buffer has more."""

    PARTIAL_RECORD = enum.auto()
    """No record; the buffer is consumed."""

    INTERMEDIATE_RECORD_FROM_BUFFER = enum.auto()
    """A record; bytes of the buffer remain."""

    LAST_RECORD_FROM_BUFFER = enum.auto()
    """A record; the buffer is consumed."""

    @property
    def is_full_record(self) -> bool:
        """Return whether there is a record."""
        return self is not DeserializationResult.PARTIAL_RECORD

    @property
    def is_buffer_consumed(self) -> bool:
        """Return whether the buffer can be recycled."""
        return self is not DeserializationResult.INTERMEDIATE_RECORD_FROM_BUFFER


class SpanningRecordSerializer:
    """Writes one record after the other into buffers that the caller provides."""

    _runtime: ClassVar[Runtime | None] = None
    """The runtime that frames the records; None for the selected one."""

    def __init__(self) -> None:
        self._serializer: RecordSerializer = load("RecordSerializer", self._runtime)()
        self._target: memoryview | None = None
        self._written = 0

    @property
    def has_serialized_data(self) -> bool:
        """Return whether bytes of the current record remain to be written."""
        return self._serializer.has_serialized_data

    @property
    def bytes_in_buffer(self) -> int:
        """Bytes written to the present buffer."""
        return self._written

    def add_record(self, payload: bytes) -> SerializationResult:
        """Start a record in the rest of the current buffer.

        Raises:
            IllegalStateError: the previous record is not completely written.
        """
        self._serializer.add_record(payload)
        return self._write()

    def continue_writing_with_next_buffer(
        self, target: bytearray | memoryview
    ) -> SerializationResult:
        """Continue in a fresh, writable buffer, from its first byte."""
        self._target = memoryview(target).cast("B")
        self._written = 0
        return self._write()

    def clear_current_buffer(self) -> None:
        """Forget the current buffer, which the caller has finished."""
        self._target = None
        self._written = 0

    def _write(self) -> SerializationResult:
        if self._target is not None:
            piece = self._serializer.take(len(self._target) - self._written)
            self._target[self._written : self._written + len(piece)] = piece
            self._written += len(piece)
        if self._serializer.has_serialized_data:
            return SerializationResult.PARTIAL_RECORD_MEMORY_SEGMENT_FULL
        if self._target is None or self._written == len(self._target):
            return SerializationResult.FULL_RECORD_MEMORY_SEGMENT_FULL
        return SerializationResult.FULL_RECORD


class SpillingAdaptiveSpanningRecordDeserializer:
    """Splits the buffers of one channel into records; long ones are assembled in a file.

    Args:
        temp_directories: Directories for these files; without any, that of `tempfile.gettempdir`.
        spill_threshold_bytes: Length of the longest record that is assembled in memory, at least
            100 KiB.
    """

    _runtime: ClassVar[Runtime | None] = None
    """The runtime that splits the buffers; None for the selected one."""

    def __init__(
        self,
        temp_directories: Sequence[str | PathLike[str]] = (),
        spill_threshold_bytes: int = SPILL_THRESHOLD_BYTES,
    ) -> None:
        self._deserializer: RecordDeserializer = load("RecordDeserializer", self._runtime)(
            temp_directories, spill_threshold_bytes
        )
        self._records: deque[bytes | memoryview] = deque()

    def set_next_buffer(self, buffer: bytes) -> None:
        """Set the buffer to read.

        Raises:
            IllegalStateError: the previous buffer is not consumed.
            CorruptStreamError: a length is negative.
            OSError, NetworkError: a long record cannot be written to a file.
        """
        if self._records:
            raise IllegalStateError(f"{len(self._records)} records of a buffer were not read")
        self._records.extend(self._deserializer.records_of(buffer))

    def get_next_record(self) -> tuple[DeserializationResult, bytes | memoryview | None]:
        """Return how far the buffer is read, and the payload of the next record if there is one."""
        if not self._records:
            return DeserializationResult.PARTIAL_RECORD, None
        record = self._records.popleft()
        if self._records or self._deserializer.has_pending_bytes:
            return DeserializationResult.INTERMEDIATE_RECORD_FROM_BUFFER, record
        return DeserializationResult.LAST_RECORD_FROM_BUFFER, record

    @property
    def has_unfinished_data(self) -> bool:
        """Return whether records of the buffer are unread, or one is incomplete."""
        return bool(self._records) or self._deserializer.has_pending_bytes

    def unconsumed(self) -> bytes:
        """Return the unread bytes, for replay to a fresh deserializer."""
        unread = b"".join(_LENGTH.pack(len(record)) + bytes(record) for record in self._records)
        return unread + self._deserializer.unconsumed()

    def clear(self) -> None:
        """Drop everything, including a spill file."""
        self._records.clear()
        self._deserializer.clear()


class AdaptiveSpanningRecordDeserializer(SpillingAdaptiveSpanningRecordDeserializer):
    """Splits the buffers of one channel into records; long ones are assembled in memory.

    It never writes to a file, whatever the length of a record.
    """

    def __init__(self) -> None:
        super().__init__((), _MAX_RECORD_BYTES)
