"""A reference-counted view of a memory segment that travels through the network (internals M2)."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Protocol, Self, SupportsIndex

from penstock.errors import IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.pure.arguments import boolean, integers
from penstock.network.pure.memory.exports import ExportsViews
from penstock.network.pure.memory.segment import MemorySegment
from penstock.serialization.pure.uncopied import Uncopied


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

_WRITABLE = 1
"""The flag of an export through which the consumer wants to write (``inspect.BufferFlags``)."""


def positions(*values: SupportsIndex) -> tuple[int, ...]:
    """Return positions in a buffer, or lengths.

    Raises:
        IndexError: one is negative.
        OverflowError: one has more than 64 bits.
        TypeError: one is not an integer.
    """
    numbers = integers(*values)
    for number in numbers:
        if number < 0:
            raise IndexError(f"position {number} of a buffer")
    return numbers


def position(value: SupportsIndex) -> int:
    """Return a position as `positions` does."""
    return positions(value)[0]


def _out_of_bounds(index: int, length: int, size: int) -> IndexError:
    return IndexError(f"{length} bytes at {index} are outside of a buffer of {size} bytes")


class _ViewsInUse:
    """Views of a buffer's bytes that are still in use.

    Each view, and every object derived from it, keeps its own exporter alive.  Checking which
    exporters are left, instead of being called by the garbage collector, needs no lock.
    """

    __slots__ = ("_exporters",)

    def __init__(self) -> None:
        self._exporters: list[weakref.ref[ctypes.Array[ctypes.c_ubyte]]] = []

    def add(self, view: memoryview) -> memoryview:
        """Return a read-only view of the same bytes, which are writable, and count it."""
        self._exporters = [exporter for exporter in self._exporters if exporter() is not None]
        exporter = (ctypes.c_ubyte * len(view)).from_buffer(view)
        self._exporters.append(weakref.ref(exporter))
        return memoryview(exporter).cast("B").toreadonly()

    def __len__(self) -> int:
        return sum(exporter() is not None for exporter in self._exporters)


class _Counted(Uncopied):
    """A reference count, which starts at 1, and the views of the bytes that it keeps alive."""

    __slots__ = ("_lock", "_references", "_views")

    def __init__(self) -> None:
        self._references = 1
        self._views = _ViewsInUse()
        self._lock = threading.Lock()

    @property
    def references(self) -> int:
        """Number of references held."""
        return self._references

    @property
    def is_recycled(self) -> bool:
        """Return whether the last reference was dropped."""
        return self._references == 0

    def retain(self) -> Self:
        """Add a reference.

        Raises:
            IllegalStateError: the buffer was recycled.
        """
        with self._lock:
            self._check_alive()
            self._references += 1
        return self

    def recycle(self) -> None:
        """Drop a reference; the last one returns the segment to its recycler.

        Raises:
            BufferError: it is the last reference and a view of the bytes is in use.
            IllegalStateError: the buffer was recycled.
        """
        with self._lock:
            self._check_alive()
            if self._references == 1 and (views := len(self._views)):
                raise BufferError(
                    f"{views} views of the buffer are in use; release them before you recycle it"
                )
            self._references -= 1
            is_last = self._references == 0
        if is_last:
            self._release()

    def _export(self, readable: memoryview) -> memoryview:
        """Return a counted, read-only view of bytes that the references keep alive."""
        with self._lock:
            self._check_alive()
            return self._views.add(readable)

    def _release(self) -> None:
        """Release the referenced resource."""
        raise NotImplementedError

    def _check_alive(self) -> None:
        if self._references == 0:
            raise IllegalStateError("buffer has been recycled")


class SharedReference(_Counted):
    """One counted reference of a buffer: that of a slice that a consumer has built."""

    __slots__ = ("_buffer",)

    def __init__(self, buffer: Buffer) -> None:
        super().__init__()
        self._buffer = buffer

    def _release(self) -> None:
        self._buffer.recycle()


class Buffer(_Counted, ExportsViews):
    """A segment, its recycler, reader and writer index, and a count of references.

    The count starts at 1.  The segment returns to the recycler exactly once, when the count reaches
    0; any later access raises IllegalStateError.  While a view of the bytes is in use, the last
    reference cannot be dropped.
    """

    __slots__ = (
        "_capacity",
        "_data_type",
        "_is_compressed",
        "_reader_index",
        "_recycler",
        "_segment",
        "_size",
    )

    def __init__(
        self,
        segment: MemorySegment,
        recycler: BufferRecycler,
        data_type: DataType = DataType.DATA_BUFFER,
        size: int = 0,
    ) -> None:
        super().__init__()
        self._segment = segment
        self._data_type = data_type
        self._is_compressed = False
        self._recycler = recycler
        self._capacity = segment.size
        self._reader_index = 0
        self._size = 0
        self.size = size

    def _release(self) -> None:
        self._recycler.recycle(self._segment)

    def _disown(self) -> bool:
        """End the buffer without recycling the segment, unless another reference or view exists."""
        with self._lock:
            if self._references != 1 or len(self._views):
                return False
            self._references = 0
        return True

    def _exchange(self, segment: MemorySegment, recycler: BufferRecycler) -> None:
        """Return another segment to the recycler now; the buffer's own goes to ``recycler`` later.

        Raises:
            IllegalStateError: the caller's reference is not the only one.
        """
        if self._references != 1:
            raise IllegalStateError(f"a buffer with {self._references} references")
        previous, self._recycler = self._recycler, recycler
        previous.recycle(segment)

    @property
    def capacity(self) -> int:
        """Limit of the size; may be lowered, never raised beyond the segment."""
        self._check_alive()
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        capacity = position(capacity)
        self._check_alive()
        if not self._size <= capacity <= self._segment.size:
            raise _out_of_bounds(0, capacity, self._capacity)
        self._capacity = capacity

    @property
    def size(self) -> int:
        """The writer index."""
        self._check_alive()
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        size = position(size)
        self._check_alive()
        if not self._reader_index <= size <= self._capacity:
            raise _out_of_bounds(0, size, self._capacity)
        self._size = size

    @property
    def reader_index(self) -> int:
        """Position of the next byte to read."""
        self._check_alive()
        return self._reader_index

    @reader_index.setter
    def reader_index(self, index: int) -> None:
        index = position(index)
        self._check_alive()
        if index > self._size:
            raise _out_of_bounds(index, 0, self._size)
        self._reader_index = index

    @property
    def memory_segment_offset(self) -> int:
        """Offset of the buffer in its segment."""
        self._check_alive()
        return 0

    @property
    def readable_bytes(self) -> int:
        """Bytes between the two indexes."""
        self._check_alive()
        return self._size - self._reader_index

    @property
    def data_type(self) -> DataType:
        """Kind of the content."""
        self._check_alive()
        return self._data_type

    @property
    def is_compressed(self) -> bool:
        """Return whether the content is one LZ4 block."""
        self._check_alive()
        return self._is_compressed

    @is_compressed.setter
    def is_compressed(self, compressed: bool) -> None:
        compressed = boolean(compressed)
        self._check_alive()
        self._is_compressed = compressed

    def view(self) -> memoryview:
        """Return a read-only view of the readable bytes, without copying them.

        The buffer cannot be recycled while the view, or an object derived from it, is in use.

        Raises:
            IllegalStateError: the buffer was recycled.
        """
        return self._export(self._readable())

    def __buffer__(self, flags: int, /) -> memoryview:
        """Export the readable bytes, read-only; Python calls it from 3.12 on."""
        if flags & _WRITABLE:
            raise BufferError("the bytes of a buffer are read-only")
        return self.view()

    def _readable(self) -> memoryview:
        """Return the readable bytes; the caller keeps a reference while it uses them."""
        self._check_alive()
        return self._segment._view[self._reader_index : self._size]

    def slice(self, offset: int, length: int) -> BufferSlice:
        """Return a read-only slice that shares the reference count (none is added).

        Raises:
            IllegalStateError: the buffer was recycled, or is compressed.
            IndexError: the slice exceeds the buffer's size.
        """
        offset, length = positions(offset, length)
        self._check_alive()
        if self._is_compressed:
            raise IllegalStateError("a compressed buffer cannot be sliced")
        if offset > self._size - length:
            raise _out_of_bounds(offset, length, self._size)
        return BufferSlice(self, offset, length, self)


class BufferSlice(ExportsViews):
    """A read-only part of a buffer with indexes and data type of its own."""

    __slots__ = (
        "_capacity",
        "_data_type",
        "_held",
        "_is_compressed",
        "_length",
        "_limit",
        "_offset",
        "_reader_index",
        "parent",
    )

    def __init__(self, parent: Buffer, offset: int, length: int, held: _Counted) -> None:
        self._held = held
        self.parent = parent
        self._data_type = parent._data_type
        self._is_compressed = parent._is_compressed
        self._offset = offset
        self._length = self._capacity = self._limit = length
        self._reader_index = 0

    @property
    def memory_segment_offset(self) -> int:
        """Offset of the buffer in its segment."""
        self._held._check_alive()
        return self._offset

    @property
    def capacity(self) -> int:
        """Limit of the size; never raised beyond its initial value."""
        self._held._check_alive()
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        capacity = position(capacity)
        self._held._check_alive()
        if not self._length <= capacity <= self._limit:
            raise _out_of_bounds(0, capacity, self._capacity)
        self._capacity = capacity

    @property
    def size(self) -> int:
        """Length in bytes; it can only shrink, since a slice is read-only."""
        self._held._check_alive()
        return self._length

    @size.setter
    def size(self, size: int) -> None:
        size = position(size)
        self._held._check_alive()
        if not self._reader_index <= size <= self._length:
            raise _out_of_bounds(0, size, self._length)
        self._length = size

    @property
    def is_recycled(self) -> bool:
        """Return whether the segment was recycled."""
        return self._held.is_recycled

    @property
    def reader_index(self) -> int:
        """Position of the next byte to read."""
        self._held._check_alive()
        return self._reader_index

    @reader_index.setter
    def reader_index(self, index: int) -> None:
        index = position(index)
        self._held._check_alive()
        if index > self._length:
            raise _out_of_bounds(index, 0, self._length)
        self._reader_index = index

    @property
    def readable_bytes(self) -> int:
        """Bytes not yet read."""
        self._held._check_alive()
        return self._length - self._reader_index

    @property
    def data_type(self) -> DataType:
        """Kind of the content."""
        self._held._check_alive()
        return self._data_type

    @property
    def is_compressed(self) -> bool:
        """Return whether the content is one LZ4 block."""
        self._held._check_alive()
        return self._is_compressed

    @is_compressed.setter
    def is_compressed(self, compressed: bool) -> None:
        compressed = boolean(compressed)
        self._held._check_alive()
        self._is_compressed = compressed

    @property
    def references(self) -> int:
        """Number of references held on the buffer."""
        return self._held.references

    def view(self) -> memoryview:
        """Return a read-only view of the readable bytes, as `Buffer.view` does."""
        start = self._offset + self._reader_index
        readable = self.parent._segment._view[start : self._offset + self._length]
        return self._held._export(readable)

    def __buffer__(self, flags: int, /) -> memoryview:
        """Export the readable bytes, read-only; Python calls it from 3.12 on."""
        if flags & _WRITABLE:
            raise BufferError("the bytes of a buffer are read-only")
        return self.view()

    def _readable(self) -> memoryview:
        """Return the readable bytes; the caller keeps a reference while it uses them."""
        self._held._check_alive()
        start = self._offset + self._reader_index
        return self.parent._segment._view[start : self._offset + self._length].toreadonly()

    def retain(self) -> BufferSlice:
        """Add a reference."""
        self._held.retain()
        return self

    def recycle(self) -> None:
        """Drop a reference; see `Buffer.recycle`."""
        self._held.recycle()

    def slice(self, offset: int, length: int) -> BufferSlice:
        """Return a slice of the slice."""
        offset, length = positions(offset, length)
        self._held._check_alive()
        if self._is_compressed:
            raise IllegalStateError("a compressed buffer cannot be sliced")
        if offset > self._length - length:
            raise _out_of_bounds(offset, length, self._length)
        return BufferSlice(self.parent, self._offset + offset, length, self._held)


AnyBuffer = Buffer | BufferSlice


def event_buffer(event: bytes | bytearray | memoryview, data_type: DataType) -> Buffer:
    """Wrap a serialized event in an unpooled buffer.

    Raises:
        ValueError: the data type is not an event's.
    """
    if not data_type.is_event:
        raise ValueError(f"{data_type:d} is not the type of an event")
    return Buffer(MemorySegment(bytearray(event)), FREEING_RECYCLER, data_type, len(event))
