"""Segments and pools of ``penstock._core``.

Goal: the Python surface of the memory crate raises the right classes and keeps the pools' promises;
the crate's own tests cover the rest.
"""

from __future__ import annotations

import gc
import threading

import pytest
from penstock import _core as core
from penstock.errors import CancelTaskError, IllegalStateError, InsufficientBuffersError


@pytest.mark.parametrize("make", ["allocate_heap", "allocate_off_heap"])
def test_scalars_round_trip_at_every_offset(make: str) -> None:
    segment = getattr(core.MemorySegment, make)(16)
    for index in range(9):
        segment.put_long_big_endian(index, 0x0102030405060708)
        assert segment.get_long_little_endian(index) == 0x0807060504030201
        assert segment.get_bytes(index, 8) == bytes(range(1, 9))
    segment.put_double(3, -0.5)
    assert segment.get_double(3) == -0.5


@pytest.mark.parametrize("index", [-1, 13, 16, 2**31 - 1, 2**62])
def test_access_outside_raises_index_error(index: int) -> None:
    segment = core.MemorySegment.allocate_heap(16)
    with pytest.raises(IndexError):
        segment.get_int(index)
    with pytest.raises(IndexError):
        segment.put_int(index, 1)
    with pytest.raises(IndexError):
        segment.get_bytes(index, 4)


def test_freed_segment_keeps_only_its_size() -> None:
    segment = core.MemorySegment.wrap_int(7)
    segment.free()
    segment.free()
    assert segment.is_freed
    assert segment.size == 4
    with pytest.raises(IllegalStateError, match="freed"):
        segment.get_int(100)


def test_pools_share_what_nobody_requires() -> None:
    pool = core.NetworkBufferPool(10, 128)
    first = pool.create_buffer_pool(1, 10)
    pool.request_unpooled_segments(2)
    second = pool.create_buffer_pool(1, 10)
    assert (first.num_buffers, second.num_buffers) == (4, 4)
    pool.recycle_unpooled_segments(2)
    assert (first.num_buffers, second.num_buffers) == (5, 5)
    first.lazy_destroy()
    assert second.num_buffers == 10


def test_refused_requests_name_their_class() -> None:
    pool = core.NetworkBufferPool(4, 128, request_timeout_ms=1)
    local = pool.create_buffer_pool(2)
    with pytest.raises(InsufficientBuffersError, match="required 3, but only 2 available"):
        pool.create_buffer_pool(3)
    held = [local.request_buffer() for _ in range(4)]
    with pytest.raises(InsufficientBuffersError, match="Timeout"):
        pool.request_unpooled_segments(2)
    with pytest.raises(ValueError, match="at least 2"):
        local.set_num_buffers(1)
    pool.destroy_all_buffer_pools()
    with pytest.raises(CancelTaskError):
        local.request_buffer()
    pool.destroy()
    with pytest.raises(IllegalStateError):
        pool.create_buffer_pool(1)
    assert len(held) == 4


def test_buffer_returns_when_it_is_recycled_or_collected() -> None:
    pool = core.NetworkBufferPool(2, 8)
    local = pool.create_buffer_pool(2, 2)
    buffer = local.request_buffer()
    assert buffer is not None
    assert buffer.append(b"0123456789") == 8
    assert buffer.to_bytes() == b"01234567"
    with pytest.raises(IndexError):
        buffer.set_size(9)
    buffer.recycle()
    with pytest.raises(IllegalStateError):
        buffer.recycle()
    held = [local.request_buffer(), local.request_buffer()]
    assert local.request_buffer() is None
    assert not local.is_available()
    held.clear()
    gc.collect()
    assert local.used_segments == 0


def test_blocked_request_lets_other_threads_run() -> None:
    pool = core.NetworkBufferPool(1, 8)
    local = pool.create_buffer_pool(1, 1)
    held = local.request_buffer()
    assert held is not None
    recycler = threading.Thread(target=held.recycle)
    recycler.start()
    taken = local.request_buffer_blocking()
    recycler.join()
    assert taken is not None
    assert local.request_buffer_blocking(timeout_ms=1) is None
