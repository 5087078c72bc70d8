"""One writer appends to a segment while one reader takes slices of it (internals M3).

They share a single integer, the position marker.  A positive marker is the number of committed
bytes of an open buffer, a negative one that of a finished buffer; ``FINISHED_EMPTY`` stands for
"finished with 0 bytes", since -0 is 0.  The writer alone stores it and the reader alone caches
it, so no lock is needed: a store of one attribute is atomic.
"""

from __future__ import annotations

from penstock.errors import IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.pure.arguments import integer, octets
from penstock.network.pure.memory.buffer import (
    FREEING_RECYCLER,
    Buffer,
    BufferRecycler,
    BufferSlice,
    SharedReference,
    event_buffer,
    position,
)
from penstock.network.pure.memory.segment import MemorySegment
from penstock.serialization.pure.uncopied import Uncopied

FINISHED_EMPTY = -(2**31)


def absolute_position(marker: int) -> int:
    """Return the number of committed bytes in a marker."""
    return 0 if marker == FINISHED_EMPTY else abs(marker)


class PositionMarker:
    """The published marker; only the builder writes it."""

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value


class BufferBuilder(Uncopied):
    """The writing end; holds one reference of the buffer until ``close``."""

    __slots__ = ("_buffer", "_closed", "_consumer_made", "_finished", "_marker", "_written")

    def __init__(self, segment: MemorySegment, recycler: BufferRecycler) -> None:
        self._buffer = Buffer(segment, recycler)
        self._marker = PositionMarker()
        self._written = 0
        self._finished = False
        self._consumer_made = False
        self._closed = False

    @property
    def max_capacity(self) -> int:
        """The greatest number of bytes that it accepts."""
        self._check_open()
        return self._buffer.capacity

    @property
    def written_bytes(self) -> int:
        """Bytes appended, committed or not."""
        self._check_open()
        return self._written

    @property
    def writable_bytes(self) -> int:
        """Bytes that still fit."""
        self._check_open()
        return self._buffer.capacity - self._written

    @property
    def is_full(self) -> bool:
        """Return whether nothing more fits."""
        self._check_open()
        return self._written == self._buffer.capacity

    @property
    def is_finished(self) -> bool:
        """Return whether ``finish`` was called."""
        self._check_open()
        return self._finished

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Copy the bytes that fit, invisible until ``commit``; return their number.

        Raises:
            IllegalStateError: the builder is finished or closed.
        """
        data = octets(data)
        self._check_open()
        if self._finished:
            raise IllegalStateError("the buffer builder is finished")
        count = min(len(data), self._buffer.capacity - self._written)
        if count:
            start = self._written
            self._buffer._segment._view[start : start + count] = data[:count]
            self._written = start + count
        return count

    def _append_record(self, data: bytes | bytearray | memoryview) -> bool:
        """Append and publish a whole record if room remains after it; else do nothing.

        Most records are far smaller than a buffer, so this path must be short.
        """
        end = self._written + len(data)
        if end >= self._buffer.capacity or self._finished:
            return False
        self._buffer._segment._view[self._written : end] = data
        self._written = self._marker.value = end
        return True

    def commit(self) -> None:
        """Publish the appended bytes."""
        self._check_open()
        self._marker.value = self._written

    def append_and_commit(self, data: bytes | bytearray | memoryview) -> int:
        """Append and publish; return the number of appended bytes."""
        count = self.append(data)
        self.commit()
        return count

    def finish(self) -> int:
        """Publish everything and close for writing, once; return the total of written bytes."""
        self._check_open()
        if not self._finished:
            self._finished = True
            self._marker.value = -self._written if self._written else FINISHED_EMPTY
        return self._written

    def trim(self, size: int) -> None:
        """Lower the capacity to ``size`` bytes, but not below the number of written bytes."""
        size = integer(size)
        self._check_open()
        self._buffer.capacity = min(max(size, self._written), self._buffer._segment.size)

    def create_buffer_consumer(self) -> BufferConsumer:
        """Create the reading end, starting at the writer's current position."""
        return self._make_consumer(self._written)

    def create_buffer_consumer_from_beginning(self) -> BufferConsumer:
        """Create the reading end, starting at the first byte."""
        return self._make_consumer(0)

    def close(self) -> None:
        """Drop the builder's reference; a second call does nothing."""
        if not self._closed:
            # The writer stops here: the segment may belong to another owner from now on.
            self._closed = self._finished = True
            self._buffer.recycle()

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("buffer has been recycled")

    def _make_consumer(self, position: int) -> BufferConsumer:
        self._check_open()
        if self._consumer_made:
            raise IllegalStateError(
                "the buffer builder has a consumer already; copy the consumer instead"
            )
        self._consumer_made = True
        return BufferConsumer(self._buffer.retain(), self._marker, position)


class BufferConsumer(Uncopied):
    """The reading end; holds one reference of the buffer until ``close``."""

    __slots__ = (
        "_buffer",
        "_cached_marker",
        "_closed",
        "_data_type",
        "_marker",
        "_partial_record_length",
        "_reader_position",
    )

    def __init__(self, buffer: Buffer, marker: PositionMarker, reader_position: int) -> None:
        self._buffer = buffer
        self._marker = marker
        self._cached_marker = 0
        self._reader_position = reader_position
        self._closed = False
        self._data_type = buffer._data_type
        self._partial_record_length = 0

    @classmethod
    def of_event(cls, event: bytes, data_type: int) -> BufferConsumer:
        """Create the finished consumer of an event.

        Raises:
            ValueError: the data type is not an event's.
        """
        content, number = bytes(octets(event)), integer(data_type)
        try:
            kind = DataType(number)
        except ValueError:
            raise ValueError(f"{number} is not the type of an event") from None
        return cls._finished(event_buffer(content, kind))

    @classmethod
    def _of_bytes(cls, data: bytes, data_type: DataType) -> BufferConsumer:
        """Create the finished consumer of data outside of any pool."""
        segment = MemorySegment(bytearray(data))
        return cls._finished(Buffer(segment, FREEING_RECYCLER, data_type, len(data)))

    @classmethod
    def _finished(cls, buffer: Buffer) -> BufferConsumer:
        consumer = cls(buffer, PositionMarker(-buffer.size or FINISHED_EMPTY), 0)
        consumer._cached_marker = consumer._marker.value
        return consumer

    @property
    def is_finished(self) -> bool:
        """Return whether the writer had finished when ``build`` was last called."""
        self._check_open()
        return self._cached_marker < 0

    @property
    def data_type(self) -> DataType:
        """Kind of the content."""
        self._check_open()
        return self._data_type

    @property
    def is_buffer(self) -> bool:
        """Return whether it carries records."""
        self._check_open()
        return self._data_type.is_buffer

    @property
    def partial_record_length(self) -> int:
        """Leading bytes that belong to a record begun in an earlier buffer."""
        self._check_open()
        return self._partial_record_length

    @partial_record_length.setter
    def partial_record_length(self, length: int) -> None:
        length = position(length)
        self._check_open()
        self._partial_record_length = length

    @property
    def is_data_available(self) -> bool:
        """Return whether published bytes wait to be built."""
        self._check_open()
        return self._reader_position < absolute_position(self._marker.value)

    @property
    def written_bytes(self) -> int:
        """Bytes published so far."""
        self._check_open()
        return absolute_position(self._marker.value)

    def build(self) -> BufferSlice:
        """Return a retained slice of the bytes published since the last call, perhaps empty.

        Raises:
            IllegalStateError: the consumer was closed.
        """
        self._check_open()
        marker = self._cached_marker = self._marker.value
        end = absolute_position(marker)
        start = self._reader_position
        piece = BufferSlice(
            self._buffer, start, end - start, SharedReference(self._buffer.retain())
        )
        self._reader_position = end
        return piece

    def skip(self, count: int) -> int:
        """Skip up to ``count`` published bytes; return the number of skipped bytes."""
        count = position(count)
        self._check_open()
        marker = self._cached_marker = self._marker.value
        skipped = min(count, absolute_position(marker) - self._reader_position)
        self._reader_position += skipped
        return skipped

    def skip_partial_record(self) -> bool:
        """Skip the leading partial record; return False if it continues in the next buffer."""
        length = self.partial_record_length
        if length == 0 or self._reader_position != 0 or not self.is_buffer:
            return True
        self.skip(length)
        return length < self._buffer._segment.size

    def copy(self) -> BufferConsumer:
        """Return a retained twin at the same position, independent from then on."""
        self._check_open()
        return self._copy(self._reader_position)

    def copy_with_reader_position(self, at: int) -> BufferConsumer:
        """Return a retained twin at ``at``.

        Raises:
            IllegalStateError: the consumer was closed.
            IndexError: the position lies beyond the written bytes.
        """
        at = position(at)
        self._check_open()
        if at > self.written_bytes:
            raise IndexError(f"position {at} of {self.written_bytes} bytes written")
        return self._copy(at)

    def _copy(self, at: int) -> BufferConsumer:
        twin = BufferConsumer(self._buffer.retain(), self._marker, at)
        twin._cached_marker = self._cached_marker
        twin.partial_record_length = self.partial_record_length
        return twin

    def close(self) -> None:
        """Drop the consumer's reference; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._buffer.recycle()

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("buffer has been recycled")
