"""Buffers of ``penstock._core`` that no caller returns explicitly."""

import gc

import pytest
from penstock import _core as core


def test_forgotten_buffers_return() -> None:
    """A-16: the garbage collector returns unreferenced buffers."""
    pool = core.NetworkBufferPool(6, 8)
    local = pool.create_buffer_pool(3, 3)
    held: list[object] = [local.request_buffer(), local.request_builder()]
    builder = local.request_builder()
    assert builder is not None
    consumer = builder.create_buffer_consumer()
    held += [builder, consumer, consumer.copy(), consumer.build()]
    held += pool.request_unpooled_segments(2)
    assert (local.used_segments, pool.required_segments) == (3, 5)
    del builder, consumer
    held.clear()
    gc.collect()
    assert (local.used_segments, pool.required_segments) == (0, 3)


@pytest.mark.parametrize("index", [-1, 13, 16, 2**31 - 1, 2**62])
def test_wild_indexes(index: int) -> None:
    """A-5: an index outside the segment is out of bounds, however wide."""
    segment = core.MemorySegment.allocate_heap(16)
    with pytest.raises(IndexError):
        segment.get_int(index)
