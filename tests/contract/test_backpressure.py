"""A reader that stops also stops the writer, within the granted buffers (internals M25).

The tests count buffers and never measure time: the writer has stopped if its partition is
unavailable and neither its position nor the reader's advances any more because no buffer is freed.
"""

import threading
import time

import pytest
from penstock.errors import CancelTaskError, InsufficientBuffersError

from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    connect,
    eventually,
    partition_id,
)

PID = partition_id()
EXCLUSIVE = 2
FLOATING = 8
MAX_OVERDRAFT = 20
POOL = EXCLUSIVE + FLOATING


class SlowWriter:
    """Writes records that each fill a segment, until the partition is released."""

    def __init__(self, plane, partition) -> None:
        self.written = 0
        self._writing = plane.writing(partition, "GLOBAL")
        self._value = plane.value_of_framed_size(1024)
        self.background = Background(self._run)

    def _run(self) -> None:
        try:
            while True:
                self._writing.write(self._value)
                self.written += 1
        except CancelTaskError:
            return


def settled(writer, partition, granted: int) -> int:
    """Wait until every available buffer is in use; return the number of written records."""
    eventually(
        lambda: not partition.is_available() and writer.written >= granted,
        "the writer does not use what it is granted",
    )
    return writer.written


@pytest.mark.parametrize("batch", [0, 1, 7])
def test_writer_stops_within_granted_buffers(plane, pair, batch):
    """C11, A-18: the producer's pool, overdraft and the consumer's buffers limit the data."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    receiving = 0 if local else EXCLUSIVE + FLOATING
    writer = SlowWriter(plane, partition)
    taken = 0
    for _ in range(5):
        written = settled(writer, partition, taken + POOL + receiving - 1)
        assert written <= taken + POOL + MAX_OVERDRAFT + receiving
        assert partition.buffers_in_use <= POOL + MAX_OVERDRAFT
        for _ in range(batch):
            assert gate.next_buffer(PATIENCE_MS) is not None
            taken += 1
    # The gate's pool may hold one segment ready; lent buffers on the same host are on their way
    # back.
    unused = producer.total_segments - POOL - MAX_OVERDRAFT - 1
    eventually(lambda: producer.available_segments >= unused, "segments stay out of the pool")
    partition.release()
    writer.background.result()
    gate.close()
    assert_all_returned(*plane.environments)


def test_usage_tells_how_full_an_exchange_is(plane, pair):
    """Metrics show that the pools of both ends fill up, and are empty at the end."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    receiving = 0 if local else EXCLUSIVE + FLOATING
    union = consumer.create_union_gate([gate])
    writer = SlowWriter(plane, partition)
    settled(writer, partition, POOL + receiving - 1)
    assert partition.buffers_total == POOL
    assert partition.buffers_in_use >= POOL
    if local:
        assert gate.buffer_usage()[0] >= POOL - 1
        assert gate.buffer_usage()[1:] == (0, 0)
    else:
        full = (receiving, receiving, receiving)
        eventually(lambda: gate.buffer_usage() == full, "the gate's memory does not fill up")
    assert union.buffer_usage() == gate.buffer_usage()
    assert gate.received() == (0, 0, 0, 0)
    assert partition.buffers_out >= POOL
    sizes = [len(union.next_buffer(PATIENCE_MS)[2]) for _ in range(3)]
    read = (sum(sizes), len(sizes))
    assert gate.received() == ((*read, 0, 0) if local else (0, 0, *read))
    assert union.received() == gate.received()
    partition.release()
    writer.background.result()
    gate.close()
    assert gate.buffer_usage()[:2] == (0, 0)
    assert_all_returned(*plane.environments)


def test_slow_channel_does_not_stop_the_connection(plane):
    """C5: credit is per channel, so the others continue if one channel is not read."""
    producer, consumer = plane.environment(), plane.environment()
    ids = [partition_id(n) for n in range(2)]
    partitions = [producer.create_result_partition(pid, 1, flush_timeout_ms=-1) for pid in ids]
    gates = [connect(plane, producer, consumer, [(pid, 0)], local=False) for pid in ids]
    stuck = SlowWriter(plane, partitions[0])
    settled(stuck, partitions[0], POOL + EXCLUSIVE + FLOATING - 1)
    value = plane.value_of_framed_size(1024)

    def produce():
        plane.writing(partitions[1], "GLOBAL").write(*[value] * 200)
        partitions[1].finish()

    flowing = Background(produce)
    assert plane.reading(gates[1]).to_end().values[0] == [value] * 200
    flowing.result()
    partitions[0].release()
    stuck.background.result()
    for gate in gates:
        gate.close()
    partitions[1].release()
    assert_all_returned(producer, consumer)


def test_memory_stays_in_the_pool(plane, pair):
    """C11: over many records the segments in use never exceed the granted ones."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    reading = plane.reading(gate)
    writing = plane.writing(partition, "GLOBAL")
    count = 1_000_000 if plane.kind == "native" else 20_000
    most_used = 0

    def produce():
        for n in range(count):
            writing.write(n.to_bytes(4, "big"))
        partition.finish()

    background = Background(produce)
    while (result := reading.step()) != 2:
        assert result == 1
        most_used = max(most_used, partition.buffers_in_use)
    background.result()
    assert [int.from_bytes(value, "big") for value in reading.seen.values[0]] == list(range(count))
    assert most_used <= POOL + MAX_OVERDRAFT
    gate.close()
    partition.release()
    assert_all_returned(*plane.environments)


def test_overdraft_leaves_the_minimum_of_others(plane):
    """A-15: a partition that is not read cannot deprive another one of its minimum."""
    environment = plane.environment(num_segments=12)
    greedy = environment.create_result_partition(PID, 1, flush_timeout_ms=-1)
    modest = environment.create_result_partition(partition_id(1), 1, flush_timeout_ms=-1)
    writer = SlowWriter(plane, greedy)
    settled(writer, greedy, 9)
    assert environment.available_segments <= 2
    value = plane.value_of_framed_size(1024)

    def produce():
        plane.writing(modest, "GLOBAL").write(value, value)
        modest.finish()

    Background(produce).result()
    greedy.release()
    writer.background.result()
    modest.release()
    assert_all_returned(environment)


def test_little_is_written_ahead_of_a_slow_reader(plane):
    """A reader that needs over a second for a buffer has two ahead of it, a fast one ten."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, environment, environment, [(PID, 0)], local=True)
    writing = plane.writing(partition, "GLOBAL")
    value = plane.value_of_framed_size(1024)
    writing.write(*[value] * 6)
    assert gate.next_buffer(PATIENCE_MS) is not None
    assert partition.is_available()
    # The reader's work on the buffer.
    time.sleep(1)
    assert gate.next_buffer(PATIENCE_MS) is not None
    assert partition.buffers_in_use >= 3
    assert not partition.is_available()
    for _ in range(3):
        assert gate.next_buffer(PATIENCE_MS) is not None
    gate.release_batch()
    assert partition.is_available()
    # However long it was slow, ten buffers in a second make it fast again.
    eventually(lambda: _takes_ten(writing, gate, value), "the reader counts as slow")
    writing.write(*[value] * 6)
    assert partition.buffers_in_use >= 6
    assert partition.is_available()
    gate.close()
    partition.release()
    assert_all_returned(environment)


def _takes_ten(writing, gate, value) -> bool:
    """Return whether the reader took ten buffers within a second."""
    began = time.monotonic()
    for _ in range(20):
        writing.write(value)
        assert gate.next_buffer(PATIENCE_MS) is not None
    gate.release_batch()
    return time.monotonic() - began < 1


def test_availability_follows_the_pool(plane):
    """A-19: a partition is unavailable exactly while its writer would have to wait."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 1, flush_timeout_ms=-1)
    assert partition.is_available()
    assert partition.wait_available(0)
    writer = SlowWriter(plane, partition)
    settled(writer, partition, POOL - 1)
    assert not partition.wait_available(0)
    waiting = Background(lambda: partition.wait_available(PATIENCE_MS))
    gate = connect(plane, environment, environment, [(PID, 0)], local=True)
    stop = threading.Event()

    def drain():
        while not stop.is_set():
            gate.next_buffer(10)

    reader = Background(drain)
    assert waiting.result()
    stop.set()
    reader.result()
    partition.release()
    writer.background.result()
    gate.close()
    assert_all_returned(environment)


def test_hard_backpressure_is_reported(plane):
    """C11: the time that a writer waits within a record is reported, also while it still waits."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 1, flush_timeout_ms=-1)
    assert partition.hard_back_pressured_ms == 0
    writer = SlowWriter(plane, partition)
    settled(writer, partition, POOL - 1)
    eventually(lambda: partition.hard_back_pressured_ms >= 2, "a wait that goes on is not counted")
    partition.release()
    writer.background.result()
    waited = partition.hard_back_pressured_ms
    assert waited >= 2
    assert partition.hard_back_pressured_ms == waited
    assert waited >= partition.take_longest_wait_ms() >= 2
    assert partition.take_longest_wait_ms() == 0
    assert_all_returned(environment)


def test_idle_time_is_reported(plane):
    """C11: only the waiting time of a reading loop is reported as idle."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 1, flush_timeout_ms=0)
    gate = connect(plane, environment, environment, [(PID, 0)], local=True)
    reading = plane.reading(gate)
    writing = plane.writing(partition, "GLOBAL")
    writing.write(b"there already")
    assert reading.step() == 1
    assert reading.processor.idle_ns == 0
    assert reading.step(timeout_ms=5) == 0
    waited = reading.processor.idle_ns
    assert waited >= 1_000_000
    writing.write(b"again")
    assert reading.step() == 1
    assert reading.processor.idle_ns == waited
    gate.close()
    with pytest.raises(CancelTaskError):
        reading.step()
    partition.release()
    assert_all_returned(environment)


def test_a_finished_partition_returns_its_pool(plane, link):
    """A-16: its segments can be promised to others while its reader still has to read all data."""
    plane.same_host_path = link == "same-host"
    local = link == "local"
    # Enough for one partition, and on this side for a gate, but not for two partitions.
    producer = plane.environment(num_segments=4 if local else 3)
    consumer = producer if local else plane.environment()
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    values = [bytes([0, number]) * 100 for number in range(6)]
    plane.writing(partition).write(*values)
    assert partition.buffers_in_use > 1
    with pytest.raises(InsufficientBuffersError):
        producer.create_result_partition(partition_id(1), 1)
    partition.finish()
    later = producer.create_result_partition(partition_id(1), 1)
    assert plane.reading(gate).to_end().values[0] == values
    assert partition.wait_consumed(PATIENCE_MS)
    # Not released yet: only its buffers are gone.
    gate.close()
    later.release()
    assert_all_returned(*plane.environments)
    partition.release()
