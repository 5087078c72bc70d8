"""A reference-counted view of a memory segment that travels through the network (internals M2)."""

from __future__ import annotations

import threading
from typing import Protocol

from penstock.errors import IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.pure.memory.segment import MemorySegment


class BufferRecycler(Protocol):
    """Receiver of a segment whose last reference was dropped."""

    def recycle(self, segment: MemorySegment) -> None:
        """Take the segment back."""


class FreeingBufferRecycler:
    """Recycler of unpooled segments."""

    def recycle(self, segment: MemorySegment) -> None:
        """Free the segment."""
        segment.free()


FREEING_RECYCLER = FreeingBufferRecycler()


class Buffer:
    """A segment, its recycler, reader and writer index, and a count of references.

    The count starts at 1.  The segment returns to the recycler exactly once, when the count reaches
    0; any later access raises IllegalStateError.
    """

    __slots__ = (
        "_capacity",
        "_lock",
        "_reader_index",
        "_recycler",
        "_references",
        "_size",
        "data_type",
        "is_compressed",
        "segment",
    )

    def __init__(
        self,
        segment: MemorySegment,
        recycler: BufferRecycler,
        data_type: DataType = DataType.DATA_BUFFER,
        size: int = 0,
    ) -> None:
        self.segment = segment
        self.data_type = data_type
        self.is_compressed = False
        self._recycler = recycler
        self._capacity = segment.size
        self._references = 1
        self._reader_index = 0
        self._size = 0
        self._lock = threading.Lock()
        self.size = size

    @property
    def references(self) -> int:
        """Number of references held."""
        return self._references

    @property
    def is_recycled(self) -> bool:
        """Return whether the segment was recycled."""
        return self._references == 0

    def retain(self) -> Buffer:
        """Add a reference."""
        with self._lock:
            if self._references == 0:
                raise IllegalStateError("buffer has been recycled")
            self._references += 1
        return self

    def recycle(self) -> None:
        """Drop a reference."""
        with self._lock:
            if self._references == 0:
                raise IllegalStateError("buffer has been recycled")
            self._references -= 1
            last = self._references == 0
        if last:
            self._recycler.recycle(self.segment)

    def exchange(self, segment: MemorySegment, recycler: BufferRecycler) -> None:
        """Give the recycler another segment now; its own one goes to ``recycler`` at the end.

        Raises:
            IllegalStateError: the caller's reference is not the only one.
        """
        if self._references != 1:
            raise IllegalStateError(f"a buffer with {self._references} references")
        previous, self._recycler = self._recycler, recycler
        previous.recycle(segment)

    @property
    def capacity(self) -> int:
        """Most bytes it may hold; may be lowered, never raised beyond the segment."""
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        self._check_alive()
        if not self._size <= capacity <= self.segment.size:
            raise IndexError(
                f"capacity {capacity} of a segment of {self.segment.size} with {self._size} bytes"
            )
        self._capacity = capacity

    @property
    def size(self) -> int:
        """The writer index."""
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        self._check_alive()
        if not self._reader_index <= size <= self._capacity:
            raise IndexError(
                f"size {size} with reader index {self._reader_index}, capacity {self._capacity}"
            )
        self._size = size

    @property
    def reader_index(self) -> int:
        """Position of the next byte to read."""
        return self._reader_index

    @reader_index.setter
    def reader_index(self, index: int) -> None:
        self._check_alive()
        if not 0 <= index <= self._size:
            raise IndexError(f"reader index {index} of {self._size} bytes")
        self._reader_index = index

    @property
    def memory_segment_offset(self) -> int:
        """Offset of the buffer in its segment."""
        return 0

    @property
    def readable_bytes(self) -> int:
        """Bytes between the two indexes."""
        return self._size - self._reader_index

    def view(self) -> memoryview:
        """Return an independent view of the readable bytes."""
        self._check_alive()
        return self.segment.view[self._reader_index : self._size]

    def slice(self, offset: int, length: int) -> BufferSlice:
        """Return a read-only slice that shares the reference count (none is added)."""
        self._check_alive()
        if self.is_compressed:
            raise IllegalStateError("part of a compressed buffer means nothing")
        return BufferSlice(self, offset, length)

    def _check_alive(self) -> None:
        if self._references == 0:
            raise IllegalStateError("buffer has been recycled")


class BufferSlice:
    """A read-only part of a buffer with indexes and data type of its own."""

    __slots__ = (
        "_capacity",
        "_length",
        "_limit",
        "_offset",
        "_reader_index",
        "data_type",
        "is_compressed",
        "parent",
    )

    def __init__(self, parent: Buffer, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset > parent.capacity - length:
            raise IndexError(f"slice of {length} bytes at {offset} of {parent.capacity}")
        self.parent = parent
        self.data_type = parent.data_type
        self.is_compressed = parent.is_compressed
        self._offset = offset
        self._length = self._capacity = self._limit = length
        self._reader_index = 0

    @property
    def memory_segment_offset(self) -> int:
        """Offset of the buffer in its segment."""
        return self._offset

    @property
    def capacity(self) -> int:
        """Most bytes it may hold; never raised beyond its initial value."""
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        self.parent._check_alive()
        if not self._length <= capacity <= self._limit:
            raise IndexError(
                f"capacity {capacity} of a slice of {self._limit} with {self._length} bytes"
            )
        self._capacity = capacity

    @property
    def size(self) -> int:
        """Length in bytes; it can only get fewer, since nobody writes through a slice."""
        return self._length

    @size.setter
    def size(self, size: int) -> None:
        self.parent._check_alive()
        if not self._reader_index <= size <= self._length:
            raise IndexError(
                f"size {size} with reader index {self._reader_index}, {self._length} bytes"
            )
        self._length = size

    @property
    def is_recycled(self) -> bool:
        """Return whether the segment was recycled."""
        return self.parent.is_recycled

    @property
    def reader_index(self) -> int:
        """Position of the next byte to read."""
        return self._reader_index

    @reader_index.setter
    def reader_index(self, index: int) -> None:
        if not 0 <= index <= self._length:
            raise IndexError(f"reader index {index} of {self._length} bytes")
        self._reader_index = index

    @property
    def readable_bytes(self) -> int:
        """Bytes not yet read."""
        return self._length - self._reader_index

    def view(self) -> memoryview:
        """Return an independent read-only view of the readable bytes."""
        self.parent._check_alive()
        start = self._offset + self._reader_index
        return self.parent.segment.view[start : self._offset + self._length].toreadonly()

    def retain(self) -> BufferSlice:
        """Add a reference to the parent."""
        self.parent.retain()
        return self

    def recycle(self) -> None:
        """Drop a reference of the parent."""
        self.parent.recycle()

    def slice(self, offset: int, length: int) -> BufferSlice:
        """Return a slice of the slice."""
        if self.is_compressed:
            raise IllegalStateError("part of a compressed buffer means nothing")
        if offset < 0 or length < 0 or offset > self._length - length:
            raise IndexError(f"slice of {length} bytes at {offset} of {self._length}")
        return self.parent.slice(self._offset + offset, length)


AnyBuffer = Buffer | BufferSlice


def event_buffer(event: bytes | bytearray | memoryview, data_type: DataType) -> Buffer:
    """Wrap a serialized event in an unpooled buffer.

    Raises:
        ValueError: the data type is not an event's.
    """
    if not data_type.is_event:
        raise ValueError(f"{data_type.name} is not the type of an event")
    return Buffer(MemorySegment(bytearray(event)), FREEING_RECYCLER, data_type, len(event))
