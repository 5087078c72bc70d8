"""The queue between one writer and one reader (internals M16)."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.errors import IllegalStateError, PartitionNotFoundError
from penstock.network.data_type import DataType
from penstock.network.events import CheckpointBarrier, EndOfData, serialize_event
from penstock.network.pure.memory.buffer_builder import BufferBuilder, BufferConsumer
from penstock.network.pure.memory.segment import MemorySegment
from penstock.network.pure.partition.subpartition import REFUSED, PipelinedSubpartition
from penstock.network.pure.partition.view import next_sequence_number
from support.patience import PATIENCE_S

SEGMENT_BYTES = 4096


class Parent:
    """Stands for the result partition."""

    failure_cause = None

    def __init__(self):
        self.consumed = []

    def _on_consumed_subpartition(self, index):
        self.consumed.append(index)


class Recycler:
    def __init__(self):
        self.count = 0

    def recycle(self, segment):
        self.count += 1


class Scene:
    """A subpartition, its view, and counted notifications."""

    def __init__(self, *, view=True, exclusive=2):
        self.parent = Parent()
        self.subpartition = PipelinedSubpartition(0, self.parent, exclusive)
        self.recycler = Recycler()
        self.made = 0
        self.notified = 0
        self.notified_priority = []
        self.view = self.subpartition.create_read_view(self) if view else None

    def notify_data_available(self):
        self.notified += 1

    def notify_priority_event(self, sequence_number):
        self.notified_priority.append(sequence_number)

    def builder(self, size=0, *, finished=False):
        """Return a builder with ``size`` committed bytes whose consumer is not added yet."""
        self.made += 1
        builder = BufferBuilder(MemorySegment.allocate_heap(SEGMENT_BYTES), self.recycler)
        builder.append_and_commit(b"x" * size)
        if finished:
            builder.finish()
        return builder

    def add(self, size=0, *, finished=False):
        builder = self.builder(size, finished=finished)
        self.subpartition.add(builder.create_buffer_consumer_from_beginning())
        return builder

    def add_event(self, event=None, data_type=DataType.EVENT_BUFFER):
        data = serialize_event(event or EndOfData())
        return self.subpartition.add(BufferConsumer.of_event(data, data_type))

    def poll(self):
        """Return (size, backlog, next type, sequence number), or None."""
        result = self.view.get_next_buffer()
        if result is None:
            return None
        size = result.buffer.size
        result.buffer.recycle()
        return size, result.backlog, result.next_data_type, result.sequence_number


def test_two_unfinished_buffers():
    """C-1: a second buffer behind an unfinished one is a bug of the writer."""
    scene = Scene()
    scene.add(10)
    scene.add(10)
    with pytest.raises(IllegalStateError):
        scene.poll()


def test_empty_unfinished_buffer():
    """C-4: nothing to read, no notification; finishing it and adding the next one notifies once."""
    scene = Scene()
    first = scene.add()
    assert scene.notified == 0
    assert scene.poll() is None
    first.append_and_commit(b"x" * 1024)
    first.finish()
    second = scene.add()
    assert scene.notified == 1
    assert scene.subpartition.buffers_in_backlog == 2
    assert scene.poll()[:2] == (1024, 0)
    assert scene.poll() is None
    second.append_and_commit(b"x" * 3)
    assert scene.poll()[:2] == (3, 0)


def test_unfinished_buffer_is_readable():
    """C-5: committed bytes of the only buffer can be polled, and are not returned again."""
    scene = Scene()
    builder = scene.add(1024)
    assert scene.poll() == (1024, 0, DataType.NONE, 0)
    assert scene.poll() is None
    builder.append_and_commit(b"x" * 5)
    assert scene.poll() == (5, 0, DataType.NONE, 1)


def test_unfinished_behind_finished():
    """The backlog excludes the buffer that is still being written."""
    scene = Scene()
    scene.add(1025, finished=True)
    scene.add(1024)
    assert scene.notified == 1
    assert scene.poll() == (1025, 0, DataType.NONE, 0)
    assert scene.poll() == (1024, 0, DataType.NONE, 1)


def test_flush_counts_the_open_buffer():
    """After a flush the backlog includes the open buffer, and adding does not notify again."""
    scene = Scene()
    scene.add(1025, finished=True)
    scene.add(1024)
    scene.subpartition.flush()
    assert scene.notified == 1
    assert scene.poll() == (1025, 1, DataType.DATA_BUFFER, 0)
    assert scene.poll() == (1024, 0, DataType.NONE, 1)


def test_add_after_flush():
    """C-4: while a flush is pending, more data causes no further notification."""
    scene = Scene()
    builder = scene.add(100)
    scene.subpartition.flush()
    assert scene.notified == 1
    builder.finish()
    scene.add(200, finished=True)
    scene.add(300)
    assert scene.notified == 1
    assert scene.subpartition.buffers_in_backlog == 3
    assert [scene.poll()[0] for _ in range(3)] == [100, 200, 300]


def test_flush_twice():
    """A flush after everything was read notifies once if there are new bytes, otherwise not."""
    scene = Scene()
    builder = scene.add(10)
    scene.subpartition.flush()
    assert scene.poll()[0] == 10
    scene.subpartition.flush()
    assert scene.notified == 1
    builder.append_and_commit(b"y")
    scene.subpartition.flush()
    scene.subpartition.flush()
    assert scene.notified == 2
    assert scene.poll()[0] == 1


def test_empty_finished_buffers_are_skipped():
    """The reader gets only the buffer with data; empty ones are recycled."""
    scene = Scene()
    for _ in range(3):
        scene.add(0, finished=True).close()
    assert scene.notified == 1
    scene.add(1024, finished=True).close()
    assert scene.poll()[:2] == (1024, 0)
    assert scene.recycler.count == 4


def test_empty_finished_buffer_without_exclusive_credit():
    """Without exclusive buffers an empty one is sent, to free the credit spent on it."""
    scene = Scene(exclusive=0)
    scene.add(0, finished=True).close()
    scene.add(7, finished=True).close()
    assert scene.poll()[0] == 0
    assert scene.poll()[0] == 7


def test_events_are_not_backlog():
    """C-2: events do not count as backlog and are always readable."""
    scene = Scene()
    scene.add(10, finished=True)
    scene.add_event()
    assert scene.subpartition.buffers_in_backlog == 1
    assert scene.view.availability_and_backlog(has_credit=False) == (False, 1)
    size, backlog, following, _ = scene.poll()
    assert (size, backlog, following) == (10, 0, DataType.EVENT_BUFFER)
    assert scene.view.availability_and_backlog(has_credit=False) == (True, 0)
    assert scene.poll()[2] is DataType.NONE


def test_sequence_numbers():
    """C-3: numbers are gap-free and wrap as signed 32-bit integers."""
    scene = Scene()
    for size in (1, 2, 3):
        scene.add(size, finished=True)
    scene.add_event()
    assert [scene.poll()[3] for _ in range(4)] == [0, 1, 2, 3]
    assert next_sequence_number(2**31 - 1) == -(2**31)
    assert next_sequence_number(-1) == 0


BEHIND = {
    "nothing": [],
    "an unfinished buffer": ["open"],
    "a finished buffer": ["full"],
    "an event": ["event"],
    "several": ["full", "event", "full", "open"],
}


@pytest.mark.parametrize("name", BEHIND)
def test_blocking_event(name):
    """C-6: behind a barrier nothing is delivered or reported until the view is resumed."""
    scene = Scene()
    scene.add_event(CheckpointBarrier(1, 1), DataType.ALIGNED_CHECKPOINT_BARRIER)
    assert scene.notified == 1
    for kind in BEHIND[name]:
        if kind == "event":
            scene.add_event()
        else:
            scene.add(10, finished=kind == "full")
    size, backlog, following, _ = scene.poll()
    assert (backlog, following) == (0, DataType.NONE)
    assert size > 0
    before = scene.notified
    scene.subpartition.flush()
    scene.add_event()
    assert scene.notified == before
    assert scene.poll() is None
    assert scene.view.availability_and_backlog(has_credit=True) == (False, 0)
    scene.view.resume_consumption()
    with pytest.raises(IllegalStateError):
        scene.view.resume_consumption()
    if BEHIND[name] != ["open"]:
        assert scene.poll() is not None


def test_priority_events_overtake():
    """Priority events go first, in their own order, and only the first one notifies."""
    scene = Scene()
    scene.add(10, finished=True)
    for n in range(2):
        event = CheckpointBarrier(n, n)
        scene.add_event(event, DataType.PRIORITIZED_EVENT_BUFFER)
    assert scene.notified_priority == [0]
    first = scene.view.get_next_buffer()
    assert first.buffer.data_type is DataType.PRIORITIZED_EVENT_BUFFER
    assert first.next_data_type is DataType.PRIORITIZED_EVENT_BUFFER
    assert scene.poll()[2] is DataType.NONE
    scene.subpartition.flush()
    assert scene.poll()[0] == 10


def test_finish():
    """Finishing adds the end of the partition, always notifies, and rejects later data."""
    scene = Scene()
    scene.add(10, finished=True)
    scene.subpartition.finish()
    assert scene.notified == 1
    late = scene.builder(5)
    assert scene.subpartition.add(late.create_buffer_consumer()) == REFUSED
    late.close()
    assert scene.recycler.count == 1
    assert scene.poll()[:3] == (10, 0, DataType.END_OF_PARTITION)
    assert scene.poll()[:3] == (4, 0, DataType.NONE)


def test_release():
    """Releasing recycles every buffer once and notifies the view."""
    scene = Scene()
    for size in (10, 20):
        scene.add(size, finished=True).close()
    before = scene.notified
    scene.subpartition.release()
    scene.subpartition.release()
    assert scene.recycler.count == 2
    assert scene.view.is_released
    assert scene.notified == before + 1
    assert scene.poll() is None
    assert scene.add_event() == REFUSED
    with pytest.raises(PartitionNotFoundError):
        scene.subpartition.create_read_view(scene)


def test_view_release():
    """A finished reader reports that once."""
    scene = Scene()
    scene.view.release_all_resources()
    scene.view.release_all_resources()
    assert scene.parent.consumed == [0]


def test_one_view():
    """A pipelined subpartition is read once."""
    scene = Scene()
    with pytest.raises(IllegalStateError, match="consumed once"):
        scene.subpartition.create_read_view(scene)


def test_view_over_queued_data():
    """A late reader is notified of queued data."""
    scene = Scene(view=False)
    scene.add(10, finished=True)
    scene.view = scene.subpartition.create_read_view(scene)
    assert scene.notified == 1
    scene.subpartition.flush()
    assert scene.poll()[0] == 10


def test_new_buffer_size():
    """Adding returns the requested size; 0 is ignored and a negative size is rejected."""
    scene = Scene()
    assert scene.add_event() == 2**31 - 1
    scene.view.notify_new_buffer_size(512)
    scene.view.notify_new_buffer_size(0)
    assert scene.add_event() == 512
    with pytest.raises(ValueError, match="-1"):
        scene.view.notify_new_buffer_size(-1)


def test_concurrent_writer_and_reader():
    """A-10, C-13: a reader that polls only when notified sees every byte."""
    scene = Scene()
    ready = threading.Semaphore(0)
    scene.notify_data_available = ready.release
    total = 200_000

    def write():
        left, builder = total, scene.add()
        while left:
            count = builder.append_and_commit(b"x" * min(left, 777))
            left -= count
            if builder.is_full:
                builder.finish()
                builder = scene.add()
            scene.subpartition.flush()
        builder.finish()
        scene.subpartition.finish()

    thread = threading.Thread(target=write)
    thread.start()
    seen, ended = 0, False
    while not ended:
        assert ready.acquire(timeout=PATIENCE_S)
        while (result := scene.view.get_next_buffer()) is not None:
            if result.buffer.data_type is DataType.END_OF_PARTITION:
                ended = True
            else:
                seen += result.buffer.size
            result.buffer.recycle()
    thread.join()
    assert seen == total


STEPS = st.lists(
    st.sampled_from(["open", "write", "finish", "event", "poll", "flush"]), max_size=60
)


@given(STEPS)
def test_any_schedule(steps):
    """C-2, C-3, C-5: backlog, numbers and bytes agree at every step of any schedule."""
    scene = Scene()
    builder, written, seen, number, queued_events = None, 0, 0, 0, 0
    for step in [*steps, "finish", "event", *["poll"] * 80]:
        if step == "open" and builder is None:
            builder = scene.add()
        elif step == "write" and builder is not None:
            written += builder.append_and_commit(b"x" * 3)
        elif step == "finish" and builder is not None:
            builder.finish()
            builder = None
        elif step == "event" and builder is None:
            scene.add_event()
            queued_events += 1
        elif step == "flush":
            scene.subpartition.flush()
        elif step == "poll" and (result := scene.view.get_next_buffer()) is not None:
            assert result.sequence_number == number
            number += 1
            if result.buffer.data_type.is_event:
                queued_events -= 1
            else:
                seen += result.buffer.size
            result.buffer.recycle()
        data = scene.subpartition.num_queued - queued_events
        assert scene.subpartition.buffers_in_backlog == data >= 0
    assert seen == written
