"""Reference counts, slices, builder and consumer (SEMANTICS A2, A3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.errors import IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.pure.buffer import Buffer, event_buffer
from penstock.network.pure.buffer_builder import BufferBuilder, BufferConsumer
from penstock.network.pure.memory_segment import MemorySegment


class Recycler:
    """Counts what comes back."""

    def __init__(self):
        self.segments = []

    def recycle(self, segment):
        self.segments.append(segment)


@pytest.fixture
def recycler():
    return Recycler()


def builder_of(size, recycler):
    return BufferBuilder(MemorySegment.allocate_heap(size), recycler)


def text(piece):
    """The bytes of a slice, which is given back."""
    data = bytes(piece.view())
    piece.recycle()
    return data


def test_parent_and_slices_recycle_together(recycler):
    """A-6: the segment returns once, when every retain has its recycle."""
    buffer = Buffer(MemorySegment.allocate_heap(8), recycler, size=8)
    piece = buffer.retain().slice(2, 4)
    nested = piece.retain().slice(1, 2)
    buffer.recycle()
    piece.recycle()
    assert recycler.segments == []
    nested.recycle()
    assert len(recycler.segments) == 1
    for act in (buffer.recycle, buffer.retain, buffer.view, piece.view):
        with pytest.raises(IllegalStateError):
            act()


def test_slice_indexes_are_its_own(recycler):
    """A-7, A-8: moving a slice moves nothing else; views are independent and read-only."""
    buffer = Buffer(MemorySegment.wrap(bytearray(b"abcdefgh")), recycler, size=8)
    piece = buffer.slice(2, 4)
    piece.reader_index = 3
    assert buffer.reader_index == 0
    assert (bytes(piece.view()), piece.readable_bytes, piece.memory_segment_offset) == (b"f", 1, 2)
    with pytest.raises(TypeError):
        piece.view()[0] = 1
    for offset, length in ((-1, 2), (3, 6), (9, 0)):
        with pytest.raises(IndexError):
            buffer.slice(offset, length)
    with pytest.raises(IndexError):
        piece.reader_index = 5
    with pytest.raises(IndexError):
        piece.slice(3, 2)


def test_sizes_are_checked(recycler):
    """Size, capacity and reader index keep their order and the segment's bounds."""
    buffer = Buffer(MemorySegment.allocate_heap(8), recycler, size=4)
    for name, value in (
        ("size", 9),
        ("size", -1),
        ("reader_index", 5),
        ("reader_index", -1),
        ("capacity", 9),
        ("capacity", 3),
    ):
        with pytest.raises(IndexError):
            setattr(buffer, name, value)
    buffer.capacity = 5
    with pytest.raises(IndexError):
        buffer.size = 6


def test_compressed_buffer_has_no_parts(recycler):
    """A part of a compressed buffer means nothing."""
    buffer = Buffer(MemorySegment.allocate_heap(8), recycler, size=8)
    buffer.is_compressed = True
    with pytest.raises(IllegalStateError):
        buffer.slice(0, 4)


def test_event_buffer():
    """Events are unpooled and of an event's type."""
    buffer = event_buffer(b"event", DataType.EVENT_BUFFER)
    assert bytes(buffer.view()) == b"event"
    segment = buffer.segment
    buffer.recycle()
    assert segment.is_freed
    with pytest.raises(ValueError, match="DATA_BUFFER"):
        event_buffer(b"event", DataType.DATA_BUFFER)


def test_append_and_commit(recycler):
    """A-9, A-11: what is appended is invisible until committed; a second build gives the rest."""
    builder = builder_of(10, recycler)
    consumer = builder.create_buffer_consumer()
    assert builder.append(b"abc") == 3
    assert not consumer.is_data_available
    assert text(consumer.build()) == b""
    builder.commit()
    assert consumer.is_data_available
    assert text(consumer.build()) == b"abc"
    assert builder.append_and_commit(b"de") == 2
    assert text(consumer.build()) == b"de"
    assert text(consumer.build()) == b""
    assert not consumer.is_finished


def test_append_over_size(recycler):
    """Appending returns what fits; a full builder takes nothing more."""
    builder = builder_of(4, recycler)
    assert builder.append_and_commit(b"abcdef") == 4
    assert builder.is_full
    assert builder.append(b"x") == 0
    assert builder.finish() == builder.finish() == 4
    with pytest.raises(IllegalStateError):
        builder.append(b"x")


@pytest.mark.parametrize("written", [0, 3, 4])
def test_finished(recycler, written):
    """A-12: empty, partly full and full buffers are seen finished, upon the next build."""
    builder = builder_of(4, recycler)
    consumer = builder.create_buffer_consumer()
    builder.append_and_commit(b"x" * written)
    assert text(consumer.build()) == b"x" * written
    builder.finish()
    assert not consumer.is_finished, "the marker is read by build alone"
    assert text(consumer.build()) == b""
    assert consumer.is_finished


def test_one_consumer(recycler):
    """A builder has one consumer, which may be copied; copies move alone."""
    builder = builder_of(8, recycler)
    builder.append_and_commit(b"ab")
    consumer = builder.create_buffer_consumer_from_beginning()
    with pytest.raises(IllegalStateError):
        builder.create_buffer_consumer()
    twin = consumer.copy()
    builder.append_and_commit(b"cd")
    assert text(consumer.build()) == b"abcd"
    assert text(twin.build()) == b"abcd"
    assert text(consumer.copy_with_reader_position(1).build()) == b"bcd"


def test_consumer_starts_where_the_writer_is(recycler):
    """The plain consumer sees what comes after it was made."""
    builder = builder_of(8, recycler)
    builder.append_and_commit(b"ab")
    consumer = builder.create_buffer_consumer()
    builder.append_and_commit(b"cd")
    assert text(consumer.build()) == b"cd"


def test_skip(recycler):
    """Bytes of a partial record are passed over, never beyond what is published."""
    builder = builder_of(8, recycler)
    consumer = builder.create_buffer_consumer()
    builder.append_and_commit(b"abcd")
    consumer.skip(3)
    with pytest.raises(IndexError):
        consumer.skip(2)
    assert text(consumer.build()) == b"d"


@pytest.mark.parametrize(("size", "expected"), [(6, 6), (-1, 3), (2, 3), (100, 10)])
def test_trim(recycler, size, expected):
    """trim lowers the capacity, never below what is written nor beyond the segment."""
    builder = builder_of(10, recycler)
    builder.append_and_commit(b"abc")
    builder.trim(size)
    assert builder.max_capacity == expected
    assert builder.writable_bytes == expected - 3


def test_recycled_when_all_are_closed(recycler):
    """A-13: builder, consumers and slices each hold the segment; closing twice is harmless."""
    builder = builder_of(4, recycler)
    consumer = builder.create_buffer_consumer()
    twin = consumer.copy()
    builder.append_and_commit(b"abcd")
    piece = consumer.build()
    for holder in (builder, consumer, twin):
        holder.close()
        holder.close()
        assert recycler.segments == []
    piece.recycle()
    assert len(recycler.segments) == 1


def test_event_consumer():
    """The consumer of an event is finished from the start."""
    consumer = BufferConsumer.of_event(b"event", DataType.END_OF_PARTITION)
    assert consumer.is_finished
    twin = consumer.copy()
    assert twin.is_finished
    assert text(consumer.build()) == text(twin.build()) == b"event"


@given(
    st.lists(st.one_of(st.binary(max_size=9), st.sampled_from(["commit", "build"])), max_size=40)
)
def test_slices_are_the_committed_bytes(actions):
    """A-10: in any interleaving the slices together are exactly the committed bytes."""
    recycler = Recycler()
    builder = builder_of(50, recycler)
    consumer = builder.create_buffer_consumer()
    written, committed, seen = b"", b"", b""
    for action in actions:
        if action == "commit":
            builder.commit()
            committed = written
        elif action == "build":
            seen += text(consumer.build())
            assert seen == committed
        else:
            written += action[: builder.append(action)]
    builder.finish()
    seen += text(consumer.build())
    assert seen == written
    builder.close()
    consumer.close()
    assert len(recycler.segments) == 1
