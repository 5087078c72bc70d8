"""What segments of the pure runtime share with their Python callers (SEMANTICS A1)."""

import pytest
from penstock.errors import IllegalStateError
from penstock.network.pure.memory_segment import MemorySegment


def test_backing():
    """Each kind gives out its own kind of memory."""
    heap, off_heap = MemorySegment.allocate_heap(4), MemorySegment.allocate_off_heap(4)
    assert heap.get_array() == bytearray(4)
    assert len(off_heap.get_off_heap_buffer()) == 4
    with pytest.raises(IllegalStateError):
        off_heap.get_array()
    with pytest.raises(IllegalStateError):
        heap.get_off_heap_buffer()


def test_wrapped_array_is_shared():
    """wrap shares the caller's array, and a view writes into the segment."""
    memory = bytearray(b"abcd")
    owner = object()
    segment = MemorySegment(memory, owner=owner)
    segment.put(0, 65)
    segment.wrap_range(1, 2)[0] = 66
    assert memory == b"ABcd"
    assert segment.owner is owner
    MemorySegment.wrap(memory).put(3, 68)
    assert memory == b"ABcD"


def test_strict_segment_is_freed_once():
    """A-2: a second free is an error if that was asked for."""
    segment = MemorySegment(bytearray(1), strict_free=True)
    segment.free()
    with pytest.raises(IllegalStateError, match="only once"):
        segment.free()
