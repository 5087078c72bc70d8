"""A fixed-size region of bytes with checked random access (internals M1)."""

from __future__ import annotations

import math
import mmap
import struct
import sys
from typing import TYPE_CHECKING, BinaryIO

from penstock.errors import IllegalStateError
from penstock.network.pure.arguments import amount, boolean, integer, integers, octets
from penstock.network.pure.memory.exports import ExportsViews

if TYPE_CHECKING:
    from collections.abc import Callable

_NATIVE = "<" if sys.byteorder == "little" else ">"
_SCALARS = {(code, order): struct.Struct(order + code) for code in "Hhiqfd" for order in ("<", ">")}


class MemorySegment(ExportsViews):
    """Bytes on the Python heap or in a mapping outside it.

    Scalars: ``get_int(index)``/``put_int(index, value)`` in native order, ``…_little_endian``
    and ``…_big_endian`` in the named one.  An access outside the segment raises IndexError and
    an access after ``free`` raises IllegalStateError; for scalars the freed check comes first,
    for bulk transfers the caller's own range is checked before either.
    """

    __slots__ = (
        "_cleaner",
        "_gives_views",
        "_heap",
        "_memory",
        "_owner",
        "_size",
        "_strict_free",
        "_view",
    )

    def __init__(
        self,
        memory: bytearray | mmap.mmap | memoryview,
        *,
        size: int | None = None,
        owner: object = None,
        cleaner: Callable[[], None] | None = None,
        gives_views: bool = True,
        strict_free: bool = False,
    ) -> None:
        """Wrap memory in a segment.

        Args:
            memory: Its first ``size`` bytes are the segment's.
            size: Length in bytes; None for all of the memory.
            owner: Any object, stored with the memory.
            cleaner: Called once, by ``free``.
            gives_views: Whether ``wrap_range`` is allowed.
            strict_free: Whether a second ``free`` raises, for tests of ownership.
        """
        self._memory: bytearray | mmap.mmap | memoryview | None = memory
        self._heap = isinstance(memory, bytearray)
        self._size = len(memory) if size is None else size
        self._cleaner = cleaner
        self._gives_views = gives_views
        self._strict_free = strict_free
        self._owner = owner
        self._view = memoryview(memory)[: self._size]

    @classmethod
    def allocate_heap(cls, size: int, owner: object = None) -> MemorySegment:
        """Allocate ``size`` zeroed bytes on the heap."""
        return cls(bytearray(amount(size)), owner=owner)

    @classmethod
    def allocate_off_heap(cls, size: int, owner: object = None) -> MemorySegment:
        """Map ``size`` zeroed bytes outside the heap."""
        size = amount(size)
        # A mapping has at least one byte.
        return cls(mmap.mmap(-1, max(1, size)), size=size, owner=owner)

    @classmethod
    def allocate_unsafe(cls, size: int, cleaner: Callable[[], None]) -> MemorySegment:
        """Map memory off the heap without views; ``cleaner`` is called once by ``free``."""
        size = amount(size)
        mapping = mmap.mmap(-1, max(1, size))
        return cls(mapping, size=size, cleaner=cleaner, gives_views=False)

    @classmethod
    def wrap(
        cls, memory: bytearray | mmap.mmap | memoryview, owner: object = None
    ) -> MemorySegment:
        """Share the caller's memory, which is on the heap if it is a bytearray.

        Raises:
            BufferError: the memory is read-only, not contiguous or not of bytes.
        """
        octets(memory)
        view = memoryview(memory)
        if view.readonly:
            raise BufferError("the memory is read-only")
        if view.ndim != 1 or not view.c_contiguous:
            raise BufferError("the memory is not contiguous")
        return cls(memory, owner=owner)

    @classmethod
    def wrap_copy(cls, memory: bytes | bytearray, start: int, end: int) -> MemorySegment:
        """Copy ``memory[start:end]``.

        Raises:
            IndexError: ``end`` precedes ``start`` or lies beyond the memory.
        """
        content, (start, end) = octets(memory), integers(start, end)
        if not 0 <= start <= end <= len(content):
            raise IndexError(f"{end - start} bytes at {start} are outside of {len(content)} bytes")
        return cls(bytearray(content[start:end]))

    @classmethod
    def wrap_int(cls, value: int) -> MemorySegment:
        """Create a segment of the four big-endian bytes of ``value``."""
        return cls(bytearray(struct.pack(">i", integer(value, 32))))

    # -- state ----------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Length in bytes; readable after ``free``."""
        return self._size

    @property
    def owner(self) -> object:
        """The object that was attached."""
        return self._owner

    @property
    def is_off_heap(self) -> bool:
        """Return whether the memory lies outside the Python heap."""
        self._check_freed()
        return not self._heap

    @property
    def is_freed(self) -> bool:
        """Return whether ``free`` was called."""
        return self._memory is None

    def free(self) -> None:
        """Drop the memory and run the cleaner; a second call does nothing.

        Raises:
            IllegalStateError: it is the second call and the segment is strict.
        """
        if self._memory is None:
            if self._strict_free:
                raise IllegalStateError("a segment can be freed only once")
            return
        self._memory = None
        self._view = memoryview(b"")
        cleaner, self._cleaner = self._cleaner, None
        if cleaner is not None:
            cleaner()

    def get_array(self) -> bytearray:
        """Return the heap memory itself.

        Raises:
            IllegalStateError: the segment is off-heap or freed.
        """
        self._check_freed()
        if not isinstance(self._memory, bytearray):
            raise IllegalStateError("a segment off the heap has no array")
        return self._memory

    def get_off_heap_buffer(self) -> memoryview:
        """Return a view of the off-heap memory.

        Raises:
            IllegalStateError: the segment is on the heap or freed.
        """
        self._check_freed()
        if self._heap:
            raise IllegalStateError("a segment on the heap has no off-heap buffer")
        # Return a new view, since the caller may release it.
        return self._view[:]

    def __buffer__(self, flags: int, /) -> memoryview:
        """Export the memory; Python calls it from 3.12 on.

        Raises:
            IllegalStateError: the segment is freed, or gives no views.
        """
        return self.wrap_range(0, self._size)

    def wrap_range(self, offset: int, length: int) -> memoryview:
        """Return a view of ``length`` bytes from ``offset``.

        Raises:
            IllegalStateError: the segment is freed, or gives no views.
        """
        offset, length = integers(offset, length)
        if not self._gives_views:
            raise IllegalStateError("unsafe memory cannot be wrapped")
        self._check(offset, length)
        return self._view[offset : offset + length]

    # -- single bytes ---------------------------------------------------------------------

    def get(self, index: int) -> int:
        """Return the signed byte at ``index``."""
        index = integer(index)
        self._check(index, 1)
        value = self._view[index]
        return value - 256 if value > 127 else value

    def put(self, index: int, value: int) -> None:
        """Store the low eight bits of ``value``."""
        index, value = integers(index, value)
        self._check(index, 1)
        self._view[index] = value & 0xFF

    def get_boolean(self, index: int) -> bool:
        """Return whether the byte is not zero."""
        return self.get(index) != 0

    def put_boolean(self, index: int, value: bool) -> None:
        """Store 1 or 0.

        Raises:
            TypeError: the value is neither True nor False.
        """
        self.put(index, int(boolean(value)))

    # -- scalars ---------------------------------------------------------------------------

    def _get_scalar(self, code: str, order: str, index: int) -> int | float:
        scalar = _SCALARS[code, order]
        index = integer(index)
        self._check(index, scalar.size)
        value: int | float = scalar.unpack_from(self._view, index)[0]
        return value

    def _put_scalar(self, code: str, order: str, index: int, value: float) -> None:
        scalar = _SCALARS[code, order]
        index = integer(index)
        try:
            content = scalar.pack(value)
        except OverflowError:
            # As in any narrowing, a number beyond 32 bits becomes infinite.
            content = scalar.pack(math.copysign(math.inf, value))
        except struct.error as error:
            kind = OverflowError if isinstance(value, int) and code not in "fd" else TypeError
            raise kind(f"{value!r} is no value of {scalar.size} bytes: {error}") from error
        self._check(index, scalar.size)
        # Not packed in place: that writes zeros before it rejects a value.
        self._view[index : index + scalar.size] = content

    # -- bulk -----------------------------------------------------------------------------

    def get_bytes(self, index: int, target: bytearray, offset: int, length: int) -> None:
        """Copy ``length`` bytes from ``index`` to ``target[offset:]``.

        Raises:
            BufferError: the target is read-only.
        """
        index, offset, length = integers(index, offset, length)
        self._check_array(len(octets(target)), offset, length)
        self._check(index, length)
        _writable(target)[offset : offset + length] = self._view[index : index + length]

    def put_bytes(self, index: int, source: bytes | bytearray, offset: int, length: int) -> None:
        """Copy ``source[offset:offset + length]`` to ``index``."""
        index, offset, length = integers(index, offset, length)
        content = octets(source)
        self._check_array(len(content), offset, length)
        self._check(index, length)
        self._view[index : index + length] = content[offset : offset + length]

    def get_to_byte_buffer(
        self, index: int, target: bytearray | memoryview, at: int, length: int
    ) -> int:
        """Copy ``length`` bytes from ``index`` to a byte buffer's position ``at``.

        Returns:
            The new position.

        Raises:
            BufferError: the byte buffer is read-only or has no room.
        """
        index, at, length = integers(index, at, length)
        octets(target)
        self._check(index, length)
        view = _writable(target)
        if not 0 <= at <= len(view) - length:
            raise BufferError("the target has too little room")
        view[at : at + length] = self._view[index : index + length]
        return at + length

    def put_from_byte_buffer(
        self, index: int, source: bytes | bytearray | memoryview, at: int, length: int
    ) -> int:
        """Copy ``length`` bytes from a byte buffer's position ``at`` to ``index``.

        Returns:
            The new position.

        Raises:
            BufferError: the byte buffer has fewer bytes.
        """
        index, at, length = integers(index, at, length)
        content = octets(source)
        self._check(index, length)
        if not 0 <= at <= len(content) - length:
            raise BufferError("the source has too few bytes")
        self._view[index : index + length] = content[at : at + length]
        return at + length

    def get_to_output(self, output: BinaryIO, index: int, length: int) -> None:
        """Write ``length`` bytes from ``index`` to a binary file."""
        index, length = integers(index, length)
        self._check(index, length)
        output.write(bytes(self._view[index : index + length]))

    def put_from_input(self, source: BinaryIO, index: int, length: int) -> None:
        """Read ``length`` bytes from a binary file to ``index``.

        Raises:
            EOFError: the file has fewer bytes.
        """
        index, length = integers(index, length)
        self._check(index, length)
        data = source.read(length)
        if len(data) < length:
            raise EOFError(f"{len(data)} bytes of {length}")
        self._view[index : index + length] = data

    def copy_to(self, offset: int, target: MemorySegment, target_offset: int, count: int) -> None:
        """Copy ``count`` bytes into another segment."""
        _check_segment(target)
        offset, target_offset, count = integers(offset, target_offset, count)
        self._check_pair(target, offset, target_offset, count)
        target._view[target_offset : target_offset + count] = self._view[offset : offset + count]

    def swap_bytes(
        self, scratch: bytearray, other: MemorySegment, offset: int, other_offset: int, count: int
    ) -> None:
        """Exchange ``count`` bytes with another segment; an error leaves both unchanged."""
        _check_segment(other)
        offset, other_offset, count = integers(offset, other_offset, count)
        self._check_array(len(octets(scratch)), 0, count)
        self._check_pair(other, offset, other_offset, count)
        mine, theirs = self._view, other._view
        swapped = bytes(mine[offset : offset + count])
        mine[offset : offset + count] = theirs[other_offset : other_offset + count]
        theirs[other_offset : other_offset + count] = swapped

    def compare(
        self,
        other: MemorySegment,
        offset: int,
        other_offset: int,
        length: int,
        other_length: int | None = None,
    ) -> int:
        """Compare as unsigned bytes; after a common prefix, the shorter range is smaller."""
        _check_segment(other)
        offset, other_offset, length = integers(offset, other_offset, length)
        if other_length is not None:
            other_length = integer(other_length)
        common = length if other_length is None else min(length, other_length)
        self._check_pair(other, offset, other_offset, common)
        mine = bytes(self._view[offset : offset + common])
        theirs = bytes(other._view[other_offset : other_offset + common])
        if mine != theirs:
            return _difference(mine, theirs)
        return 0 if other_length is None else length - other_length

    def equal_to(self, other: MemorySegment, offset: int, other_offset: int, length: int) -> bool:
        """Return whether two ranges hold the same bytes."""
        return self.compare(other, offset, other_offset, length) == 0

    # -- checks ---------------------------------------------------------------------------

    def _check_freed(self) -> None:
        if self._memory is None:
            raise IllegalStateError("this segment has been freed")

    def _check(self, index: int, width: int) -> None:
        if self._memory is None:
            raise IllegalStateError("this segment has been freed")
        self._check_array(self._size, index, width)

    def _check_pair(self, other: MemorySegment, index: int, other_index: int, width: int) -> None:
        if self._memory is None:
            raise IllegalStateError("this segment has been freed")
        self._check(index, width)
        if other._memory is None:
            raise IllegalStateError("the other segment has been freed")
        other._check(other_index, width)

    @staticmethod
    def _check_array(size: int, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset > size - length:
            raise IndexError(f"{length} bytes at {offset} are outside of {size} bytes")

    def get_char(self, index: int) -> int:
        """Return the unsigned 16 bits at ``index``."""
        return int(self._get_scalar("H", _NATIVE, index))

    def put_char(self, index: int, value: int) -> None:
        """Store 16 unsigned bits."""
        self._put_scalar("H", _NATIVE, index, value)

    def get_short(self, index: int) -> int:
        """Return the signed 16 bits at ``index``."""
        return int(self._get_scalar("h", _NATIVE, index))

    def put_short(self, index: int, value: int) -> None:
        """Store 16 signed bits."""
        self._put_scalar("h", _NATIVE, index, value)

    def get_int(self, index: int) -> int:
        """Return the signed 32 bits at ``index``."""
        return int(self._get_scalar("i", _NATIVE, index))

    def put_int(self, index: int, value: int) -> None:
        """Store 32 signed bits."""
        self._put_scalar("i", _NATIVE, index, value)

    def get_long(self, index: int) -> int:
        """Return the signed 64 bits at ``index``."""
        return int(self._get_scalar("q", _NATIVE, index))

    def put_long(self, index: int, value: int) -> None:
        """Store 64 signed bits."""
        self._put_scalar("q", _NATIVE, index, value)

    def get_float(self, index: int) -> float:
        """Return the 32-bit float at ``index``."""
        return float(self._get_scalar("f", _NATIVE, index))

    def put_float(self, index: int, value: float) -> None:
        """Store a 32-bit float."""
        self._put_scalar("f", _NATIVE, index, value)

    def get_double(self, index: int) -> float:
        """Return the 64-bit float at ``index``."""
        return float(self._get_scalar("d", _NATIVE, index))

    def put_double(self, index: int, value: float) -> None:
        """Store a 64-bit float."""
        self._put_scalar("d", _NATIVE, index, value)

    def get_int_big_endian(self, index: int) -> int:
        """Return 32 bits, most significant byte first."""
        return int(self._get_scalar("i", ">", index))

    def put_int_big_endian(self, index: int, value: int) -> None:
        """Store 32 bits, most significant byte first."""
        self._put_scalar("i", ">", index, value)

    def get_int_little_endian(self, index: int) -> int:
        """Return 32 bits, least significant byte first."""
        return int(self._get_scalar("i", "<", index))

    def put_int_little_endian(self, index: int, value: int) -> None:
        """Store 32 bits, least significant byte first."""
        self._put_scalar("i", "<", index, value)

    def get_long_big_endian(self, index: int) -> int:
        """Return 64 bits, most significant byte first."""
        return int(self._get_scalar("q", ">", index))

    def put_long_big_endian(self, index: int, value: int) -> None:
        """Store 64 bits, most significant byte first."""
        self._put_scalar("q", ">", index, value)

    def get_long_little_endian(self, index: int) -> int:
        """Return 64 bits, least significant byte first."""
        return int(self._get_scalar("q", "<", index))

    def put_long_little_endian(self, index: int, value: int) -> None:
        """Store 64 bits, least significant byte first."""
        self._put_scalar("q", "<", index, value)

    def get_char_big_endian(self, index: int) -> int:
        """Return 16 unsigned bits, most significant byte first."""
        return int(self._get_scalar("H", ">", index))

    def put_char_big_endian(self, index: int, value: int) -> None:
        """Store 16 unsigned bits, most significant byte first."""
        self._put_scalar("H", ">", index, value)

    def get_char_little_endian(self, index: int) -> int:
        """Return 16 unsigned bits, least significant byte first."""
        return int(self._get_scalar("H", "<", index))

    def put_char_little_endian(self, index: int, value: int) -> None:
        """Store 16 unsigned bits, least significant byte first."""
        self._put_scalar("H", "<", index, value)

    def get_short_big_endian(self, index: int) -> int:
        """Return 16 signed bits, most significant byte first."""
        return int(self._get_scalar("h", ">", index))

    def put_short_big_endian(self, index: int, value: int) -> None:
        """Store 16 signed bits, most significant byte first."""
        self._put_scalar("h", ">", index, value)

    def get_short_little_endian(self, index: int) -> int:
        """Return 16 signed bits, least significant byte first."""
        return int(self._get_scalar("h", "<", index))

    def put_short_little_endian(self, index: int, value: int) -> None:
        """Store 16 signed bits, least significant byte first."""
        self._put_scalar("h", "<", index, value)

    def get_float_big_endian(self, index: int) -> float:
        """Return a 32-bit float, most significant byte first."""
        return float(self._get_scalar("f", ">", index))

    def put_float_big_endian(self, index: int, value: float) -> None:
        """Store a 32-bit float, most significant byte first."""
        self._put_scalar("f", ">", index, value)

    def get_float_little_endian(self, index: int) -> float:
        """Return a 32-bit float, least significant byte first."""
        return float(self._get_scalar("f", "<", index))

    def put_float_little_endian(self, index: int, value: float) -> None:
        """Store a 32-bit float, least significant byte first."""
        self._put_scalar("f", "<", index, value)

    def get_double_big_endian(self, index: int) -> float:
        """Return a 64-bit float, most significant byte first."""
        return float(self._get_scalar("d", ">", index))

    def put_double_big_endian(self, index: int, value: float) -> None:
        """Store a 64-bit float, most significant byte first."""
        self._put_scalar("d", ">", index, value)

    def get_double_little_endian(self, index: int) -> float:
        """Return a 64-bit float, least significant byte first."""
        return float(self._get_scalar("d", "<", index))

    def put_double_little_endian(self, index: int, value: float) -> None:
        """Store a 64-bit float, least significant byte first."""
        self._put_scalar("d", "<", index, value)


def _check_segment(other: MemorySegment) -> None:
    if not isinstance(other, MemorySegment):
        raise TypeError(f"{type(other).__name__!r} object is not an instance of 'MemorySegment'")


def _writable(target: bytearray | memoryview) -> memoryview:
    """Return a view of the bytes of a target, in the order of its indexes.

    Raises:
        BufferError: the target is read-only, or has several dimensions and gaps.
    """
    view = memoryview(target)
    if view.readonly:
        raise BufferError("the target is read-only")
    if view.ndim == 1:
        return view
    if not view.c_contiguous:
        raise BufferError("the target has several dimensions and is not contiguous")
    return view.cast("B")


def _difference(mine: bytes, theirs: bytes) -> int:
    """Return ±1 for a mismatch inside an eight-byte word, else the bytes' difference."""
    at = next(i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b)
    if at < len(mine) - len(mine) % 8:
        return 1 if mine[at] > theirs[at] else -1
    return mine[at] - theirs[at]
