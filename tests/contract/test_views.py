"""Segments and buffers speak the buffer protocol, and no view outlives its bytes.

Method: views by memoryview, numpy and Arrow are held after their owner has ended.  Python supports
the protocol in classes written in Python only from 3.12 on; before, the tests call the method.
"""

import gc
import sys

import numpy
import pyarrow
import pytest
from penstock.errors import IllegalStateError

CONTENT = bytes(range(64))


@pytest.fixture
def exported(plane):
    """Return a function that creates an object to export views of."""
    if plane.kind == "native" or sys.version_info >= (3, 12):
        return lambda owner: owner
    return lambda owner: owner.__buffer__(0)


@pytest.fixture
def pool(plane):
    network_pool = plane.load("NetworkBufferPool")(2, 128)
    yield network_pool.create_buffer_pool(2)
    network_pool.destroy_all_buffer_pools()
    assert network_pool.available_segments == 2
    network_pool.destroy()


def filled(pool):
    """Return a buffer of the content, with no other references."""
    builder = pool.request_builder()
    builder.append_and_commit(CONTENT)
    consumer = builder.create_buffer_consumer_from_beginning()
    buffer = consumer.build()
    builder.close()
    consumer.close()
    return buffer


class Interface:
    """An object that has only the ``__array_interface__`` of an array."""

    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.array = array


@pytest.mark.parametrize(
    "view_of",
    [
        memoryview,
        lambda owner: memoryview(owner)[8:16],
        lambda owner: numpy.frombuffer(owner, dtype=numpy.uint8)[3:],
        pyarrow.py_buffer,
        lambda owner: numpy.from_dlpack(numpy.frombuffer(owner, dtype=numpy.uint8)),
        lambda owner: numpy.asarray(Interface(numpy.frombuffer(owner, dtype=numpy.uint8))),
    ],
    ids=["view", "part", "numpy", "arrow", "DLPack", "array interface"],
)
def test_views_of_a_buffer(pool, exported, view_of):
    """A buffer can be recycled only after its last view."""
    buffer = filled(pool)
    view = view_of(exported(buffer))
    assert bytes(memoryview(view)) in CONTENT
    with pytest.raises(BufferError, match="views of the buffer are in use"):
        buffer.recycle()
    assert not buffer.is_recycled
    del view
    gc.collect()
    buffer.recycle()
    assert buffer.is_recycled
    assert pool.used_segments == 0
    with pytest.raises(IllegalStateError, match="recycled"):
        memoryview(exported(buffer))
    with pytest.raises(IllegalStateError, match="recycled"):
        buffer.view()


def test_views_are_read_only(pool, exported):
    buffer = filled(pool)
    view = memoryview(exported(buffer))
    assert view.readonly
    assert view.format == "B"
    assert not numpy.frombuffer(view, dtype=numpy.int64).flags.writeable
    view.release()
    buffer.recycle()


def test_views_begin_at_the_reader_index(pool):
    """A view contains the unread bytes; a slice's view its own."""
    buffer = filled(pool)
    buffer.reader_index = 60
    assert bytes(buffer.view()) == CONTENT[60:]
    assert bytes(buffer.view()[2:4]) == CONTENT[62:64]
    assert bytes(buffer.slice(4, 3).view()) == CONTENT[4:7]
    buffer.recycle()


def test_more_references_than_views(pool):
    """Only the last reference waits for the views."""
    buffer = filled(pool).retain()
    assert buffer.references == 2
    view = buffer.view()
    buffer.recycle()
    with pytest.raises(BufferError):
        buffer.recycle()
    view.release()
    buffer.recycle()
    assert buffer.is_recycled


def test_a_view_keeps_its_buffer(plane, pool):
    """Dropping the buffer itself leaves the view its bytes."""
    if plane.kind == "pure":
        pytest.skip("a plain buffer that is dropped and not recycled never returns to its pool")
    view = filled(pool).view()
    gc.collect()
    held = [pool.request_buffer(), pool.request_buffer()]
    assert bytes(view) == CONTENT
    view.release()
    for each in filter(None, held):
        each.recycle()


@pytest.mark.parametrize("allocate", ["allocate_heap", "allocate_off_heap"])
def test_views_of_a_segment(plane, exported, allocate):
    """A view writes to the segment, and keeps the memory when the segment is freed."""
    segment = getattr(plane.load("MemorySegment"), allocate)(16)
    view = memoryview(exported(segment))
    view[0] = 7
    assert segment.get(0) == 7
    numpy.frombuffer(view, dtype=numpy.int64)[1] = -1
    assert segment.get_long(8) == -1
    # An array that holds the segment alone would read memory that was returned.
    assert numpy.frombuffer(exported(segment), dtype=numpy.int64).base is not segment
    segment.free()
    assert view[0] == 7
    with pytest.raises(IllegalStateError, match="freed"):
        memoryview(exported(segment))


def test_unsafe_memory_has_no_views(plane, exported):
    segment = plane.load("MemorySegment").allocate_unsafe(16, lambda: None)
    with pytest.raises(IllegalStateError, match="cannot be wrapped"):
        memoryview(exported(segment))
    segment.free()
