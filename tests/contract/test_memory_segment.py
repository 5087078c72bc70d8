"""Access to segments, one by one and in bulk, in both runtimes (internals M1)."""

import io
import itertools
import math
import struct

import pytest
from penstock.errors import IllegalStateError

SCALARS = {
    "char": ("H", 0xBEEF),
    "short": ("h", -12345),
    "int": ("i", -123456789),
    "long": ("q", -(2**62) - 5),
    "float": ("f", 1.5),
    "double": ("d", -2.25),
}
ORDERS = {"": "=", "_big_endian": ">", "_little_endian": "<"}
ACCESSORS = [(name, order) for name in SCALARS for order in ORDERS]


KINDS = ["allocate_heap", "allocate_off_heap"]


@pytest.fixture
def segments(plane):
    """Return the class of segments."""
    return plane.load("MemorySegment")


@pytest.fixture(params=KINDS)
def make(request, segments):
    """Return a function that allocates a segment of either kind."""
    return getattr(segments, request.param)


@pytest.fixture(params=list(itertools.product(KINDS, KINDS)), ids="-".join)
def two(request, segments):
    """Allocate two segments of 32 bytes, each of either kind; the first holds numbers from 0."""
    one, other = (getattr(segments, kind)(32) for kind in request.param)
    one.put_bytes(0, bytes(range(32)), 0, 32)
    return one, other


def content(segment) -> bytes:
    """Return all bytes of a segment."""
    data = bytearray(segment.size)
    segment.get_bytes(0, data, 0, segment.size)
    return bytes(data)


@pytest.mark.parametrize(("name", "order"), ACCESSORS)
def test_scalar(make, name, order):
    """A-1, A-5: the last index is valid; the one after it and all wild indexes raise."""
    code, value = SCALARS[name]
    width, segment = struct.calcsize("=" + code), make(64)
    get = getattr(segment, f"get_{name}{order}")
    put = getattr(segment, f"put_{name}{order}")
    for index in (0, 1, 7, 64 - width):
        put(index, value)
        assert get(index) == value
    for index in (-1, 64 - width + 1, 64, 2**31 - 1, 2**31, -(2**31)):
        with pytest.raises(IndexError):
            get(index)
        with pytest.raises(IndexError):
            put(index, value)


@pytest.mark.parametrize("name", SCALARS)
def test_byte_orders(make, name):
    """A-3: each order is as named, and each reads the other's bytes reversed."""
    code, value = SCALARS[name]
    segment = make(8)
    getattr(segment, f"put_{name}_big_endian")(0, value)
    (reversed_value,) = struct.unpack("<" + code, struct.pack(">" + code, value))
    read = getattr(segment, f"get_{name}_little_endian")(0)
    assert struct.pack("<" + code, read) == struct.pack("<" + code, reversed_value)
    (native,) = struct.unpack("=" + code, struct.pack(">" + code, value))
    read = getattr(segment, f"get_{name}")(0)
    assert struct.pack("=" + code, read) == struct.pack("=" + code, native)


@pytest.mark.parametrize(("name", "order"), ACCESSORS)
@pytest.mark.parametrize("size", [0, 1, 64])
def test_freed_and_undersized(make, name, order, size):
    """A-2, A-4: too small a segment raises, a freed one raises that it is freed."""
    code, value = SCALARS[name]
    segment = make(size)
    if size < struct.calcsize("=" + code):
        with pytest.raises(IndexError):
            getattr(segment, f"get_{name}{order}")(0)
    segment.free()
    segment.free()
    assert segment.is_freed
    assert segment.size == size
    with pytest.raises(IllegalStateError, match="freed"):
        getattr(segment, f"get_{name}{order}")(0)
    with pytest.raises(IllegalStateError, match="freed"):
        getattr(segment, f"put_{name}{order}")(size + 1, value)


def test_bytes_and_booleans(make):
    """A-1: bytes are signed, booleans are 1 and 0 and any other byte is true."""
    segment = make(4)
    segment.put(0, -1)
    segment.put(1, 200)
    segment.put_boolean(2, True)
    segment.put_boolean(3, False)
    assert [segment.get(index) for index in range(4)] == [-1, -56, 1, 0]
    assert [segment.get_boolean(index) for index in range(4)] == [True, True, True, False]
    for index in (-1, 4, 2**31):
        for act in (segment.get, segment.get_boolean):
            with pytest.raises(IndexError):
                act(index)
        with pytest.raises(IndexError):
            segment.put(index, 1)


def test_nan_payload_survives(make):
    """A1: the payload bits of a NaN are kept."""
    segment = make(8)
    pattern = struct.pack("=q", 0x7FF8000000000123)
    (value,) = struct.unpack("=d", pattern)
    segment.put_double(0, value)
    assert content(segment) == pattern


def test_single_byte(make):
    """A-4: a segment of one byte holds a byte and nothing wider."""
    segment = make(1)
    segment.put(0, 7)
    assert segment.get(0) == 7
    with pytest.raises(IndexError):
        segment.put(1, 7)
    empty = make(0)
    assert content(empty) == b""
    with pytest.raises(IndexError):
        empty.get(0)


def test_bulk(make):
    """A-1, A-2, A-5: the caller's range is checked first, then the freed state, then our range."""
    segment = make(10)
    segment.put_bytes(2, b"abcdef", 1, 3)
    target = bytearray(6)
    segment.get_bytes(1, target, 2, 4)
    assert bytes(target) == b"\0\0\0bcd"
    for index, offset, length in ((0, 4, 3), (0, -1, 2), (0, 0, -1), (0, 2**31, 1), (8, 0, 3)):
        with pytest.raises(IndexError):
            segment.get_bytes(index, target, offset, length)
        with pytest.raises(IndexError):
            segment.put_bytes(index, bytes(6), offset, length)
    segment.free()
    with pytest.raises(IndexError):
        segment.get_bytes(0, target, 4, 3)
    for act in (segment.get_bytes, segment.put_bytes):
        with pytest.raises(IllegalStateError, match="freed"):
            act(0, target, 0, 1)


def test_byte_buffers(make):
    """A1: a byte buffer's position advances by the number of moved bytes, or nothing moves."""
    segment = make(4)
    assert segment.put_from_byte_buffer(1, b"abcd", 1, 2) == 3
    target = bytearray(4)
    assert segment.get_to_byte_buffer(0, target, 1, 3) == 4
    assert bytes(target) == b"\0\0bc"
    with pytest.raises(BufferError, match="few"):
        segment.put_from_byte_buffer(0, b"abcd", 3, 2)
    with pytest.raises(BufferError, match="room"):
        segment.get_to_byte_buffer(0, target, 2, 3)
    with pytest.raises(BufferError, match="read-only"):
        segment.get_to_byte_buffer(0, memoryview(b"abcd"), 0, 1)
    for act in (segment.get_to_byte_buffer, segment.put_from_byte_buffer):
        with pytest.raises(IndexError):
            act(3, target, 0, 2)
    assert (bytes(target), content(segment)) == (b"\0\0bc", b"\0bc\0")
    segment.free()
    for act in (segment.get_to_byte_buffer, segment.put_from_byte_buffer):
        with pytest.raises(IllegalStateError, match="freed"):
            act(0, target, 0, 1)


def test_outputs_and_inputs(make):
    """A1: bytes written to a file or read from one equal a copy of the bytes."""
    segment = make(20)
    segment.put_from_input(io.BytesIO(bytes(range(1, 20))), 1, 17)
    output = io.BytesIO()
    segment.get_to_output(output, 2, 18)
    assert output.getvalue() == bytes(range(2, 18)) + bytes(2)
    with pytest.raises(EOFError):
        segment.put_from_input(io.BytesIO(b"abc"), 0, 4)
    with pytest.raises(IndexError):
        segment.get_to_output(output, 19, 2)
    with pytest.raises(IndexError):
        segment.put_from_input(io.BytesIO(b"abc"), 18, 3)


def test_copy(two):
    """A-1, A-5: a range moves between segments of any kind, or the index is rejected."""
    one, other = two
    one.copy_to(4, other, 8, 16)
    assert content(other) == bytes(8) + bytes(range(4, 20)) + bytes(8)
    for offset, target_offset, count in ((20, 0, 13), (0, 20, 13), (-1, 0, 1), (0, 2**31 - 1, 2)):
        with pytest.raises(IndexError):
            one.copy_to(offset, other, target_offset, count)


def test_compare(two):
    """A1: unsigned, ±1 in words of eight bytes, the bytes' difference in the tail."""
    one, other = two
    one.copy_to(4, other, 8, 16)
    assert one.equal_to(other, 4, 8, 16)
    assert one.equal_to(other, 0, 0, 0)
    other.put(8 + 3, 255)
    assert not one.equal_to(other, 4, 8, 16)
    assert one.compare(other, 4, 8, 16) == -1
    assert other.compare(one, 8, 4, 16) == 1
    assert one.compare(other, 7, 11, 1) == 7 - 255
    assert one.compare(other, 4, 8, 3, 3) == 0
    assert one.compare(other, 4, 8, 2, 3) == -1
    assert one.compare(other, 4, 8, 3, 1) == 2
    with pytest.raises(IndexError):
        one.compare(other, 30, 0, 3)


def test_swap(two):
    """A1: two ranges are swapped, or nothing moves."""
    one, other = two
    other.put_bytes(0, b"abcd", 0, 4)
    one.swap_bytes(bytearray(4), other, 2, 0, 4)
    assert content(other)[:5] == b"\2\3\4\5\0"
    before = content(one), content(other)
    assert before[0][:8] == b"\0\1abcd\6\7"
    for scratch, offset, other_offset in ((3, 0, 0), (4, 0, 30), (4, 30, 0)):
        with pytest.raises(IndexError):
            one.swap_bytes(bytearray(scratch), other, offset, other_offset, 4)
    assert (content(one), content(other)) == before


def test_freed_on_either_side(two):
    """A-2: of two segments the error names the freed one."""
    freed, other = two
    freed.free()
    operations = {
        "copy_to": lambda one, two: one.copy_to(0, two, 0, 1),
        "swap_bytes": lambda one, two: one.swap_bytes(bytearray(1), two, 0, 0, 1),
        "compare": lambda one, two: one.compare(two, 0, 0, 1),
        "equal_to": lambda one, two: one.equal_to(two, 0, 0, 1),
    }
    for operation in operations.values():
        with pytest.raises(IllegalStateError, match=r"this .*freed"):
            operation(freed, other)
        with pytest.raises(IllegalStateError, match=r"other .*freed"):
            operation(other, freed)
    with pytest.raises(IllegalStateError, match="freed"):
        _ = freed.is_off_heap
    with pytest.raises(IllegalStateError, match="freed"):
        freed.wrap_range(0, 1)


def test_factories(segments):
    """A1: the kinds of memory, copies of arrays, a number as big-endian bytes, views."""
    assert not segments.allocate_heap(4).is_off_heap
    assert segments.allocate_off_heap(4).is_off_heap
    copy = segments.wrap_copy(b"abcd", 1, 3)
    assert (copy.size, content(copy)) == (2, b"bc")
    for start, end in ((3, 1), (0, 5)):
        with pytest.raises(IndexError):
            segments.wrap_copy(b"abcd", start, end)
    assert content(segments.wrap_int(0x01020304)) == b"\1\2\3\4"
    assert bytes(copy.wrap_range(1, 1)) == b"c"
    with pytest.raises(IndexError):
        copy.wrap_range(1, 2)


def test_backing(segments):
    """A1: each kind returns its own kind of memory, which is the segment's."""
    heap, off_heap = segments.allocate_heap(4), segments.allocate_off_heap(4)
    heap.get_array()[1] = 65
    off_heap.get_off_heap_buffer()[1] = 66
    assert (content(heap), content(off_heap)) == (b"\0A\0\0", b"\0B\0\0")
    off_heap.get_off_heap_buffer().release()
    assert bytes(off_heap.get_off_heap_buffer()) == b"\0B\0\0"
    refused = (off_heap.get_array, heap.get_off_heap_buffer)
    for act in refused:
        with pytest.raises(IllegalStateError, match="heap"):
            act()
    heap.free()
    off_heap.free()
    for act in (*refused, heap.get_array, off_heap.get_off_heap_buffer):
        with pytest.raises(IllegalStateError, match="freed"):
            act()


def test_owner(segments):
    """A1: an owner may be attached."""
    owner = object()
    assert segments.allocate_heap(1, owner).owner is owner
    assert segments.allocate_off_heap(1, owner=owner).owner is owner
    assert segments.wrap(bytearray(1), owner).owner is owner
    assert segments.allocate_heap(1).owner is None


@pytest.mark.parametrize("is_array", [True, False])
def test_wrapped_memory_is_shared(segments, is_array):
    """A1: what one side writes, the other reads, until the segment releases the memory."""
    memory = bytearray(b"abcd")
    segment = segments.wrap(memory if is_array else memoryview(memory))
    segment.put(0, 65)
    segment.wrap_range(1, 2)[0] = 66
    assert memory == b"ABcd"
    memory[3] = 68
    assert (segment.get(3), bytes(segment.wrap_range(3, 1))) == (68, b"D")
    assert segment.is_off_heap is not is_array
    if is_array:
        assert segment.get_array() is memory
    with pytest.raises(BufferError):
        memory.append(1)
    segment.free()
    memory.append(1)


def test_part_of_an_array(segments):
    """A1: a view of part of an array is the segment's whole memory."""
    memory = bytearray(8)
    segments.wrap(memoryview(memory)[2:6]).put_int_big_endian(0, 0x01020304)
    assert memory == b"\0\0\1\2\3\4\0\0"


def test_memory_that_cannot_be_shared(segments):
    """A1: read-only memory, memory with gaps and memory that is not of bytes are rejected."""
    strided = memoryview(bytearray(4))[::2]
    for memory in (b"abcd", strided, memoryview(bytearray(4)).cast("i"), memoryview(b"abcd")):
        with pytest.raises(BufferError):
            segments.wrap(memory)
    with pytest.raises(TypeError):
        segments.wrap(5)


def test_view_outlives_its_segment(make):
    """A1: memory lives as long as a view of it; a view can be writable, or empty."""
    segment = make(4)
    view = segment.wrap_range(1, 2)
    assert bytes(segment.wrap_range(4, 0)) == b""
    view[:] = b"xy"
    assert content(segment) == b"\0xy\0"
    segment.free()
    assert bytes(view) == b"xy"


def test_two_segments_of_one_array(segments):
    """A1: two segments may share bytes; overlapping ranges behave as within one segment."""
    memory = bytearray(range(16))
    one, other = segments.wrap(memory), segments.wrap(memoryview(memory)[4:])
    one.copy_to(0, other, 0, 8)
    assert memory == bytes([0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15])
    assert (one.compare(other, 0, 0, 4), one.compare(other, 0, 0, 8)) == (0, -1)
    assert one.compare(other, 4, 1, 4) == one.compare(one, 4, 5, 4) != 0
    assert one.equal_to(other, 6, 2, 10)
    one.swap_bytes(bytearray(2), other, 0, 0, 2)
    one.swap_bytes(bytearray(2), other, 14, 8, 2)
    assert memory == bytes([0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 14, 15, 12, 13])
    one.swap_bytes(bytearray(2), other, 0, 4, 2)
    assert memory[:10] == bytes([4, 5, 2, 3, 0, 1, 2, 3, 0, 1])
    with pytest.raises(IndexError):
        one.copy_to(0, other, 8, 5)
    with pytest.raises(IndexError):
        one.swap_bytes(bytearray(2**4), other, 0, 0, 13)


def test_bytes_move_within_one_array(segments):
    """A1: the array of a bulk transfer may be the segment's own."""
    memory = bytearray(range(8))
    segment = segments.wrap(memory)
    segment.put_bytes(2, memory, 0, 4)
    assert memory == bytes([0, 1, 0, 1, 2, 3, 6, 7])
    segment.get_bytes(2, memory, 0, 4)
    assert memory == bytes([0, 1, 2, 3, 2, 3, 6, 7])


def test_unsafe_memory(segments):
    """A-2: memory for unsafe use returns no views, and its cleaner runs once."""
    cleaned = []
    segment = segments.allocate_unsafe(4, lambda: cleaned.append(True))
    segment.put_int(0, 5)
    assert (segment.get_int(0), segment.is_off_heap) == (5, True)
    with pytest.raises(IllegalStateError, match="wrapped"):
        segment.wrap_range(0, 1)
    segment.free()
    segment.free()
    assert cleaned == [True]


def test_cleaner_may_look(segments):
    """A-2: a cleaner finds its segment freed; ``free`` raises its error, once."""
    seen = []
    segment = segments.allocate_unsafe(4, lambda: seen.append((segment.is_freed, segment.size)))
    segment.free()
    assert seen == [(True, 4)]
    failing = segments.allocate_unsafe(4, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failing.free()
    failing.free()
    assert failing.is_freed


def test_segment_with_itself(make):
    """A1: both sides of an operation may be one segment, and ranges of a copy may overlap."""
    segment = make(16)
    segment.put_bytes(0, bytes(range(16)), 0, 16)
    segment.copy_to(0, segment, 4, 8)
    assert content(segment) == bytes([0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15])
    segment.copy_to(4, segment, 0, 8)
    assert content(segment)[:8] == bytes(range(8))
    assert segment.compare(segment, 0, 1, 8) == -1
    assert segment.compare(segment, 0, 1, 3, 2) == -1
    assert segment.equal_to(segment, 8, 8, 8)
    segment.swap_bytes(bytearray(4), segment, 0, 12, 4)
    assert content(segment)[:4] + content(segment)[12:] == bytes([12, 13, 14, 15, 0, 1, 2, 3])
    with pytest.raises(IndexError):
        segment.copy_to(0, segment, 12, 5)
    segment.free()
    for act in (segment.copy_to, segment.compare, segment.equal_to):
        with pytest.raises(IllegalStateError, match="freed"):
            act(0, segment, 0, 1) if act == segment.copy_to else act(segment, 0, 0, 1)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("char", (-1, 2**16)),
        ("short", (-(2**15) - 1, 2**15)),
        ("int", (-(2**31) - 1, 2**31)),
        ("long", (-(2**63) - 1, 2**63)),
    ],
)
def test_values_that_do_not_fit(make, name, values):
    """A1: a number too large for its width is rejected, and nothing is stored."""
    segment = make(8)
    for value in values:
        with pytest.raises(OverflowError):
            getattr(segment, f"put_{name}")(0, value)
    for value in ("x", 1.5):
        with pytest.raises(TypeError):
            getattr(segment, f"put_{name}")(0, value)
    assert content(segment) == bytes(8)


def test_narrowed_float(make):
    """A1: values beyond 32 bits become infinite."""
    segment = make(4)
    for value in (1e300, -1e300):
        segment.put_float(0, value)
        assert segment.get_float(0) == value * math.inf


def test_negative_index_is_named(make):
    """A-1: the error names the index."""
    with pytest.raises(IndexError, match=r"-5"):
        make(8).get_int(-5)
