"""Buffers of the pure runtime outside of pools (internals M2)."""

import pytest
from penstock.network.data_type import DataType
from penstock.network.pure.memory.buffer import FREEING_RECYCLER, Buffer, event_buffer
from penstock.network.pure.memory.segment import MemorySegment


def test_capacity():
    """A2: the capacity can be lowered to the written size, and never raised beyond the segment."""
    buffer = Buffer(MemorySegment.allocate_heap(8), FREEING_RECYCLER, size=4)
    for capacity in (9, 3):
        with pytest.raises(IndexError):
            buffer.capacity = capacity
    buffer.capacity = 5
    with pytest.raises(IndexError):
        buffer.size = 6


def test_event_buffer():
    """A2: events are unpooled and have the type of an event."""
    buffer = event_buffer(b"event", DataType.EVENT_BUFFER)
    assert bytes(buffer.view()) == b"event"
    segment = buffer._segment
    buffer.recycle()
    assert segment.is_freed
    with pytest.raises(ValueError, match="1 is not the type of an event"):
        event_buffer(b"event", DataType.DATA_BUFFER)
