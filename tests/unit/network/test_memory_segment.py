"""Random access, bounds and the freed state of a segment (SEMANTICS A1)."""

import struct

import pytest
from penstock.errors import IllegalStateError
from penstock.network.pure.memory_segment import MemorySegment

SCALARS = {
    "char": (2, 0xBEEF),
    "short": (2, -12345),
    "int": (4, -123456789),
    "long": (8, -(2**62) - 5),
    "float": (4, 1.5),
    "double": (8, -2.25),
    "int_big_endian": (4, 0x01020304),
    "int_little_endian": (4, 0x01020304),
    "long_big_endian": (8, 0x0102030405060708),
    "long_little_endian": (8, 0x0102030405060708),
}
MAKERS = [MemorySegment.allocate_heap, MemorySegment.allocate_off_heap]


@pytest.fixture(params=MAKERS, ids=["heap", "off-heap"])
def make(request):
    return request.param


@pytest.mark.parametrize("name", SCALARS)
def test_scalar_bounds(make, name):
    """A-1, A-5: the last place works, one further and all wild indexes raise."""
    width, value = SCALARS[name]
    segment = make(64)
    get, put = getattr(segment, f"get_{name}"), getattr(segment, f"put_{name}")
    for index in (0, 1, 7, 64 - width):
        put(index, value)
        assert get(index) == value
    for index in (-1, 64 - width + 1, 64, 2**31 - 1, 2**31, -(2**31), 2**63):
        with pytest.raises(IndexError):
            get(index)
        with pytest.raises(IndexError):
            put(index, value)


def test_byte_order():
    """A-3: what is written big-endian reads reversed as little-endian."""
    segment = MemorySegment.allocate_heap(8)
    segment.put_int_big_endian(0, 0x01020304)
    assert segment.get_int_little_endian(0) == 0x04030201
    segment.put_long_little_endian(0, 0x0102030405060708)
    assert segment.get_long_big_endian(0) == 0x0807060504030201


def test_bytes_and_booleans(make):
    """Bytes are signed, booleans are 1 and 0 and any other byte is true."""
    segment = make(4)
    segment.put(0, -1)
    segment.put(1, 200)
    segment.put_boolean(2, True)
    segment.put_boolean(3, False)
    assert [segment.get(index) for index in range(4)] == [-1, -56, 1, 0]
    assert [segment.get_boolean(index) for index in range(4)] == [True, True, True, False]


def test_nan_payload_survives():
    """The payload bits of a NaN are kept."""
    segment = MemorySegment.allocate_heap(8)
    segment.put_long_big_endian(0, 0x7FF8000000000123)
    value = struct.unpack(">d", bytes(segment.view))[0]
    segment.put_double(0, value)
    assert bytes(segment.view) == struct.pack("=d", value)


@pytest.mark.parametrize("size", [1, 2])
def test_undersized(make, size):
    """A-4: a tiny segment works as far as widths allow."""
    segment = make(size)
    segment.put(size - 1, 7)
    assert segment.get(size - 1) == 7
    with pytest.raises(IndexError):
        segment.get_int(0)


def test_bulk():
    """Bulk copies check the caller's range first, then the freed state, then the segment's."""
    segment = MemorySegment.allocate_heap(10)
    segment.put_bytes(2, b"abcdef", 1, 3)
    target = bytearray(6)
    segment.get_bytes(1, target, 2, 4)
    assert bytes(target) == b"\0\0\0bcd"
    with pytest.raises(IndexError, match="array"):
        segment.get_bytes(0, target, 4, 3)
    with pytest.raises(IndexError, match="segment"):
        segment.put_bytes(8, b"abc", 0, 3)
    segment.free()
    with pytest.raises(IndexError, match="array"):
        segment.get_bytes(0, target, 4, 3)
    with pytest.raises(IllegalStateError):
        segment.get_bytes(0, target, 0, 1)


def test_copy_compare_swap():
    """Two segments of either kind exchange and compare ranges."""
    one, other = MemorySegment.allocate_heap(32), MemorySegment.allocate_off_heap(32)
    one.put_bytes(0, bytes(range(32)), 0, 32)
    one.copy_to(4, other, 8, 16)
    assert one.equal_to(other, 4, 8, 16)
    assert one.equal_to(other, 0, 0, 0)
    other.put(8 + 3, 255)
    assert one.compare(other, 4, 8, 16) == -1
    assert other.compare(one, 8, 4, 16) == 1
    assert one.compare(other, 7, 11, 1) == 7 - 255, "the tail returns the difference of bytes"
    assert one.compare(one, 0, 0, 3, 5) == -2
    before = bytes(one.view[:4]), bytes(other.view[:4])
    one.swap_bytes(bytearray(4), other, 0, 0, 4)
    assert (bytes(other.view[:4]), bytes(one.view[:4])) == before
    with pytest.raises(IndexError):
        one.swap_bytes(bytearray(3), other, 0, 0, 4)
    with pytest.raises(IndexError):
        one.swap_bytes(bytearray(4), other, 0, 30, 4)
    assert (bytes(other.view[:4]), bytes(one.view[:4])) == before


def test_freed():
    """A-2: nothing works after free, on either side; the size stays; the cleaner runs once."""
    cleaned = []
    segment = MemorySegment(bytearray(8), cleaner=lambda: cleaned.append(1))
    other = MemorySegment.allocate_heap(8)
    segment.free()
    segment.free()
    assert cleaned == [1]
    assert segment.is_freed
    assert segment.size == 8
    with pytest.raises(IllegalStateError, match="has been freed"):
        segment.get_int(2**31)
    with pytest.raises(IllegalStateError, match="this memory segment"):
        segment.copy_to(0, other, 0, 1)
    with pytest.raises(IllegalStateError, match="other memory segment"):
        other.copy_to(0, segment, 0, 1)
    with pytest.raises(IllegalStateError):
        other.compare(segment, 0, 0, 1)
    with pytest.raises(IllegalStateError):
        other.swap_bytes(bytearray(1), segment, 0, 0, 1)


def test_backing():
    """Each kind gives out its own kind of memory."""
    heap, off_heap = MemorySegment.allocate_heap(4), MemorySegment.allocate_off_heap(4)
    assert not heap.is_off_heap
    assert off_heap.is_off_heap
    assert heap.get_array() == bytearray(4)
    assert len(off_heap.get_off_heap_buffer()) == 4
    with pytest.raises(IllegalStateError):
        off_heap.get_array()
    with pytest.raises(IllegalStateError):
        heap.get_off_heap_buffer()


def test_factory():
    """wrap shares, wrap_copy copies, wrap_int is big-endian."""
    memory = bytearray(b"abcd")
    MemorySegment.wrap(memory).put(0, 65)
    assert memory == b"Abcd"
    copy = MemorySegment.wrap_copy(memory, 1, 3)
    copy.put(0, 66)
    assert (copy.size, memory) == (2, b"Abcd")
    with pytest.raises(ValueError, match=r"range 3\.\.1"):
        MemorySegment.wrap_copy(memory, 3, 1)
    assert bytes(MemorySegment.wrap_int(0x01020304).view) == b"\1\2\3\4"
