"""Reference counts, slices, builder and consumer of both runtimes (internals M2, M3).

A buffer and its slices share one reference count; each added reference is recycled once.
"""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.errors import IllegalStateError
from penstock.network.data_type import DataType

from contract.plane import NATIVE_IS_BUILT, Plane

SEGMENT_BYTES = 10
KINDS = ["native", "pure"] if NATIVE_IS_BUILT else ["pure"]


class Scene:
    """One segment, in a local pool of its own."""

    def __init__(self, plane: Plane) -> None:
        self.network = plane.load("NetworkBufferPool")(1, SEGMENT_BYTES)
        self.pool = self.network.create_buffer_pool(1, 1)

    def builder(self):
        builder = self.pool.request_builder()
        assert builder is not None
        return builder

    def holding(self, data: bytes):
        """Return a buffer of these bytes, which is the only holder of its segment."""
        builder = self.builder()
        builder.append_and_commit(data)
        consumer = builder.create_buffer_consumer_from_beginning()
        buffer = consumer.build()
        builder.close()
        consumer.close()
        return buffer

    @property
    def is_returned(self) -> bool:
        return self.pool.available_segments == 1


@pytest.fixture
def scene(plane):
    scene = Scene(plane)
    yield scene
    assert scene.is_returned
    scene.pool.lazy_destroy()
    assert scene.network.available_segments == 1


def text(piece) -> bytes:
    """Return the bytes of a slice, and recycle it."""
    data = bytes(piece.view())
    piece.recycle()
    return data


def test_parent_and_slices_recycle_together(scene):
    """A-6: the segment returns once, when every handle is recycled."""
    buffer = scene.holding(b"abcdefgh")
    piece = buffer.retain().slice(2, 4)
    nested = piece.retain().slice(1, 2)
    assert bytes(nested.view()) == b"de"
    buffer.recycle()
    piece.recycle()
    assert not scene.is_returned
    assert bytes(nested.view()) == b"de"
    nested.recycle()
    assert scene.is_returned
    for act in (buffer.recycle, buffer.retain, buffer.view, piece.view, nested.recycle):
        with pytest.raises(IllegalStateError, match="recycled"):
            act()


def test_slice_shares_the_count(scene):
    """A-6: a slice adds no reference, so recycling it releases its parent."""
    buffer = scene.holding(b"abcdefgh")
    piece = buffer.slice(2, 4)
    piece.retain().recycle()
    assert (bytes(piece.view()), buffer.is_recycled) == (b"cdef", False)
    piece.recycle()
    assert (buffer.is_recycled, piece.is_recycled, scene.is_returned) == (True, True, True)
    for act in (buffer.view, buffer.recycle, piece.view, piece.recycle, piece.retain):
        with pytest.raises(IllegalStateError, match="recycled"):
            act()


def test_reference_outlives_its_objects(scene):
    """A-6: a slice needs only the count, not the object that it was cut from."""
    buffer = scene.holding(b"abcdefgh")
    piece = buffer.slice(0, 6).slice(1, 4)
    other = buffer.slice(7, 1)
    del buffer
    assert (bytes(piece.view()), bytes(other.view())) == (b"bcde", b"h")
    piece.recycle()
    assert other.is_recycled


def test_capacity(scene):
    """A2: the capacity can be lowered to the size, and never raised beyond the segment."""
    buffer = scene.pool.request_buffer()
    assert (buffer.capacity, buffer.size, buffer.memory_segment_offset) == (SEGMENT_BYTES, 0, 0)
    buffer.size = 4
    buffer.capacity = 5
    for name, value in (("size", 6), ("capacity", 3), ("capacity", 11), ("capacity", -1)):
        with pytest.raises(IndexError):
            setattr(buffer, name, value)
    assert (buffer.capacity, buffer.size) == (5, 4)
    buffer.capacity = SEGMENT_BYTES
    buffer.size = SEGMENT_BYTES
    assert (buffer.capacity, buffer.size) == (SEGMENT_BYTES, SEGMENT_BYTES)
    buffer.recycle()


def test_size_of_a_slice(scene):
    """A-7: a slice has its own size and capacity, which do not affect its parent."""
    buffer = scene.holding(b"abcdefgh")
    piece = buffer.slice(2, 4)
    assert (piece.capacity, piece.size) == (4, 4)
    piece.reader_index = 1
    piece.size = 3
    for name, value in (("size", 4), ("size", 0), ("capacity", 5), ("capacity", 2)):
        with pytest.raises(IndexError):
            setattr(piece, name, value)
    piece.capacity = 3
    assert (piece.capacity, piece.size, bytes(piece.view())) == (3, 3, b"de")
    assert (buffer.size, bytes(buffer.view())) == (8, b"abcdefgh")
    buffer.recycle()


def test_slice_indexes_are_its_own(scene):
    """A-7: moving a slice moves nothing else; a slice is read-only."""
    buffer = scene.holding(b"abcdefgh")
    piece = buffer.retain().slice(2, 4)
    piece.reader_index = 3
    assert (buffer.reader_index, buffer.readable_bytes) == (0, 8)
    assert (bytes(piece.view()), piece.readable_bytes, piece.memory_segment_offset) == (b"f", 1, 2)
    with pytest.raises(TypeError):
        piece.view()[0] = 1
    for offset, length in ((-1, 2), (3, 8), (11, 0), (0, -1)):
        with pytest.raises(IndexError):
            buffer.slice(offset, length)
    for index in (-1, 5):
        with pytest.raises(IndexError):
            piece.reader_index = index
    with pytest.raises(IndexError):
        piece.slice(3, 2)
    piece.recycle()
    buffer.recycle()


def test_views_are_independent(scene):
    """A-8: threads that read one buffer through their own handles do not disturb each other."""
    buffer = scene.holding(bytes(range(10)))
    seen = []

    def read(handle, start):
        for index in range(start, 10):
            handle.reader_index = index
            seen.append(bytes(handle.view()) == bytes(range(index, 10)))
        handle.recycle()

    threads = [
        threading.Thread(target=read, args=(buffer.retain().slice(0, 10), start))
        for start in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(seen), all(seen), buffer.reader_index) == (45, True, 0)
    buffer.recycle()


def test_sizes_are_checked(scene):
    """A2: size and reader index keep their order and the segment's bounds."""
    buffer = scene.pool.request_buffer()
    buffer.size = 4
    for name, value in (("size", 11), ("size", -1), ("reader_index", 5), ("reader_index", -1)):
        with pytest.raises(IndexError):
            setattr(buffer, name, value)
    assert (buffer.size, buffer.reader_index) == (4, 0)
    buffer.recycle()


def test_compressed_buffer_has_no_parts(scene):
    """A2: parts of a compressed buffer are meaningless."""
    buffer = scene.holding(b"abcdefgh")
    buffer.is_compressed = True
    with pytest.raises(IllegalStateError, match="compressed"):
        buffer.slice(0, 4)
    buffer.recycle()


def test_append_and_commit(scene):
    """A-9, A-11: appended bytes are invisible until committed; a second build returns the rest."""
    builder = scene.builder()
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
    builder.close()
    consumer.close()


def test_append_over_size(scene):
    """A3: appending returns what fits; a full builder accepts nothing, a finished one raises."""
    builder = scene.builder()
    assert builder.append_and_commit(b"abcdefghijkl") == 10
    assert builder.is_full
    assert builder.append(b"x") == 0
    assert builder.finish() == builder.finish() == 10
    with pytest.raises(IllegalStateError, match="finished"):
        builder.append(b"x")
    builder.close()


@pytest.mark.parametrize("written", [0, 3, 10])
def test_finished(scene, written):
    """A-12: empty, partly full and full buffers are finished at the next build."""
    builder = scene.builder()
    consumer = builder.create_buffer_consumer()
    builder.append_and_commit(b"x" * written)
    assert text(consumer.build()) == b"x" * written
    builder.finish()
    assert not consumer.is_finished, "the marker is read by build alone"
    assert text(consumer.build()) == b""
    assert consumer.is_finished
    builder.close()
    consumer.close()


def test_one_consumer(scene):
    """A3: a builder has one consumer, which may be copied; copies advance independently."""
    builder = scene.builder()
    builder.append_and_commit(b"ab")
    consumer = builder.create_buffer_consumer_from_beginning()
    with pytest.raises(IllegalStateError, match="consumer"):
        builder.create_buffer_consumer()
    twin = consumer.copy()
    builder.append_and_commit(b"cd")
    assert text(consumer.build()) == b"abcd"
    assert text(twin.build()) == b"abcd"
    later = consumer.copy_with_reader_position(1)
    assert text(later.build()) == b"bcd"
    for holder in (builder, consumer, twin, later):
        holder.close()


def test_consumer_starts_where_the_writer_is(scene):
    """A3: the plain consumer reads the bytes appended after its creation."""
    builder = scene.builder()
    builder.append_and_commit(b"ab")
    consumer = builder.create_buffer_consumer()
    builder.append_and_commit(b"cd")
    assert text(consumer.build()) == b"cd"
    builder.close()
    consumer.close()


def test_skip(scene):
    """A-11: bytes can be skipped, but only published ones."""
    builder = scene.builder()
    consumer = builder.create_buffer_consumer()
    builder.append_and_commit(b"abcd")
    builder.append(b"ef")
    assert consumer.skip(3) == 3
    assert text(consumer.build()) == b"d"
    assert consumer.skip(2) == 0
    builder.close()
    consumer.close()


@pytest.mark.parametrize(
    ("written", "partial", "rest", "ends_here"),
    [(10, 0, 10, True), (10, 4, 6, True), (7, 7, 0, True), (10, 10, 0, False)],
)
def test_partial_record(scene, written, partial, rest, ends_here):
    """A3: the rest of an earlier record is skipped; one that fills the buffer continues."""
    builder = scene.builder()
    consumer = builder.create_buffer_consumer_from_beginning()
    consumer.partial_record_length = partial
    builder.append(b"x" * written)
    builder.finish()
    assert consumer.skip_partial_record() is ends_here
    assert len(text(consumer.build())) == rest
    builder.close()
    consumer.close()


@pytest.mark.parametrize(("size", "expected"), [(6, 6), (-1, 3), (2, 3), (100, 10)])
def test_trim(scene, size, expected):
    """A3: trim lowers the capacity, not below the written size nor beyond the segment."""
    builder = scene.builder()
    builder.append_and_commit(b"abc")
    builder.trim(size)
    assert builder.max_capacity == expected
    assert builder.writable_bytes == expected - 3
    builder.close()


@pytest.mark.parametrize("last", ["builder", "consumer", "twin", "piece"])
def test_recycled_when_all_are_closed(scene, last):
    """A-13: builder, consumers and slices each hold the segment; closing twice has no effect."""
    builder = scene.builder()
    consumer = builder.create_buffer_consumer()
    twin = consumer.copy()
    builder.append_and_commit(b"abcd")
    piece = consumer.build()
    ends = {"builder": builder.close, "consumer": consumer.close, "twin": twin.close}
    ends["piece"] = piece.recycle
    final = ends.pop(last)
    for end in ends.values():
        end()
        assert not scene.is_returned
    final()
    assert scene.is_returned
    for holder in (builder, consumer, twin):
        holder.close()
    assert scene.pool.used_segments == 0


def test_event_consumer(plane):
    """A2, A3: an event's consumer is finished from the start and has the event's type."""
    consumer = plane.load("BufferConsumer").of_event(b"event", DataType.END_OF_PARTITION)
    assert consumer.is_finished
    twin = consumer.copy()
    assert (twin.is_finished, twin.data_type) == (True, DataType.END_OF_PARTITION)
    built = consumer.build()
    assert built.data_type == DataType.END_OF_PARTITION
    assert text(built) == text(twin.build()) == b"event"
    for holder in (consumer, twin):
        holder.close()
    with pytest.raises(ValueError, match="not the type of an event"):
        plane.load("BufferConsumer").of_event(b"event", DataType.DATA_BUFFER)


@pytest.mark.parametrize("kind", KINDS)
@given(
    actions=st.lists(
        st.one_of(st.binary(max_size=4), st.sampled_from(["commit", "build"])), max_size=30
    )
)
def test_slices_are_the_committed_bytes(kind, actions):
    """A-10: in any interleaving the slices together are exactly the committed bytes."""
    scene = Scene(Plane(kind))
    builder = scene.builder()
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
    assert scene.is_returned


def test_reader_and_writer_on_two_threads(plane):
    """A-10, A-11: a concurrent reader gets every committed byte once and in order."""
    network = plane.load("NetworkBufferPool")(1, 1 << 15)
    builder = network.create_buffer_pool(1, 1).request_builder()
    consumer = builder.create_buffer_consumer()
    data = bytes(range(256)) * 128

    def write():
        for start in range(0, len(data), 100):
            builder.append_and_commit(data[start : start + 100])
        builder.finish()
        builder.close()

    writer = threading.Thread(target=write)
    writer.start()
    seen = b""
    while not consumer.is_finished:
        seen += text(consumer.build())
    writer.join()
    assert seen == data
    consumer.close()
