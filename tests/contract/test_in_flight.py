"""In-flight data during an unaligned checkpoint (internals M16, M57).

F-11: the data that the reader has taken, the channel's data and the data that the barrier overtook
are together the data written before the barrier, each byte once and in order.
"""

import random

import pytest
from penstock.errors import IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.events import (
    Alignment,
    CheckpointBarrier,
    data_type_of,
    parse_event,
    serialize_event,
)

from contract.plane import (
    PATIENCE_MS,
    assert_all_returned,
    connect,
    partition_id,
    raw_to_end,
)

PID = partition_id()


def barrier(number: int) -> tuple[bytes, int]:
    """Return an unaligned barrier and its data type."""
    event = CheckpointBarrier(number, 0, alignment=Alignment.UNALIGNED)
    return serialize_event(event), int(data_type_of(event, priority=True))


class Taken:
    """Takes buffers of a gate; stores the data of each channel and the received barriers."""

    def __init__(self, gate) -> None:
        self.gate = gate
        self.data = [b""] * gate.num_channels
        self.barriers: list[tuple[int, int]] = []

    def one(self) -> None:
        item = self.gate.next_buffer(PATIENCE_MS)
        assert item is not None, "nothing came in time"
        channel, data_type, data = item
        if data_type == DataType.DATA_BUFFER:
            self.data[channel] += data
        else:
            self.barriers.append((channel, parse_event(data).checkpoint_id))

    def until_barrier(self, channel: int, number: int) -> None:
        while (channel, number) not in self.barriers:
            self.one()


class Written:
    """Writes values to one subpartition and stores the bytes of their stream."""

    def __init__(self, plane, partition, source) -> None:
        self._writing = plane.writing(partition, "GLOBAL")
        self.overtake = self._writing.writer.overtake
        self._plane, self._partition, self._source = plane, partition, source
        self.bytes = b""

    def some(self) -> None:
        """Return a few values that fit the partition's pool, the last ones perhaps unflushed."""
        for _ in range(self._source.randrange(1, 12)):
            value = self._source.randbytes(self._source.choice((1, 50, 400)))
            self._writing.write(value)
            framed = self._plane.codec.encode(value)
            self.bytes += (len(framed) + 1).to_bytes(4, "big") + b"\1" + framed
        if self._source.random() < 0.5:
            self._partition.flush_all()


@pytest.mark.parametrize("seed", range(5))
def test_each_byte_once(plane, pair, seed):
    """F-11, F-12: checkpoint after checkpoint over one channel."""
    producer, consumer, local = pair
    source = random.Random(seed)
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    written, taken = Written(plane, partition, source), Taken(gate)
    for number in range(1, 6):
        written.some()
        before = written.bytes
        [overtaken] = written.overtake(*barrier(number))
        if source.random() < 0.5:
            written.some()
        taken.until_barrier(0, number)
        gate.start_persisting(number)
        persisted, complete = gate.take_persisted(0)
        assert complete
        assert taken.data[0] + b"".join(persisted) + b"".join(overtaken) == before
        gate.stop_persisting(number)
        partition.flush_all()
        while len(taken.data[0]) < len(before):
            taken.one()
    partition.finish()
    rest = b"".join(data for _, kind, data in raw_to_end(gate) if kind == DataType.DATA_BUFFER)
    assert taken.data[0] + rest == written.bytes
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


@pytest.mark.parametrize("seed", range(3))
def test_channels_whose_barrier_is_late(plane, pair, seed):
    """F6: data that arrives before a channel's own barrier is stored when it is read."""
    producer, consumer, local = pair
    source = random.Random(f"late {seed}")
    ids = [partition_id(n) for n in range(2)]
    partitions = [producer.create_result_partition(pid, 1, flush_timeout_ms=-1) for pid in ids]
    gate = connect(plane, producer, consumer, [(pid, 0) for pid in ids], local=local)
    taken = Taken(gate)
    early, late = (Written(plane, partition, source) for partition in partitions)
    early.some()
    late.some()
    [early_overtaken] = early.overtake(*barrier(1))
    taken.until_barrier(0, 1)
    gate.start_persisting(1)
    at_start = list(taken.data)
    persisted, complete = gate.take_persisted(0)
    assert complete
    assert at_start[0] + b"".join(persisted) + b"".join(early_overtaken) == early.bytes
    kept, complete = gate.take_persisted(1)
    assert not complete
    late.some()
    partitions[1].flush_all()
    taken.one()
    before = late.bytes
    [late_overtaken] = late.overtake(*barrier(1))
    late.some()
    taken.until_barrier(1, 1)
    more, complete = gate.take_persisted(1)
    assert complete
    assert at_start[1] + b"".join(kept + more + late_overtaken) == before
    gate.stop_persisting(1)
    gate.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(producer, consumer)


def test_end_without_a_barrier(plane, pair):
    """The data of a producer that has ended is complete without a barrier."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    gate.start_persisting(1)
    written = Written(plane, partition, random.Random(1))
    written.some()
    partition.finish()
    raw_to_end(gate)
    persisted, complete = gate.take_persisted(0)
    assert complete
    assert b"".join(persisted) == written.bytes
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_a_later_barrier_subsumes(plane, pair):
    """F-14: a checkpoint is no longer persisted once its successor's barrier has arrived."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    partition.overtake(*barrier(5))
    Taken(gate).until_barrier(0, 5)
    with pytest.raises(IllegalStateError, match="subsumed by 5"):
        gate.start_persisting(4)
    gate.stop_persisting(4)
    gate.start_persisting(5)
    assert gate.take_persisted(0) == ([], True)
    gate.start_persisting(6)
    assert gate.take_persisted(0) == ([], False)
    gate.stop_persisting(5)
    assert gate.take_persisted(0) == ([], False)
    gate.stop_persisting(6)
    assert gate.take_persisted(0) == ([], True)
    with pytest.raises(IllegalStateError, match="channel 1"):
        gate.take_persisted(1)
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_channels_of_a_union(plane, pair):
    """A union forwards calls to each channel's gate."""
    producer, consumer, local = pair
    ids = [partition_id(n) for n in range(2)]
    partitions = [producer.create_result_partition(pid, 1) for pid in ids]
    gates = [connect(plane, producer, consumer, [(pid, 0)], local=local) for pid in ids]
    union = consumer.create_union_gate(gates)
    partitions[1].overtake(*barrier(1))
    Taken(union).until_barrier(1, 1)
    union.start_persisting(1)
    assert [union.take_persisted(n) for n in (0, 1)] == [([], False), ([], True)]
    union.stop_persisting(1)
    assert union.take_persisted(0) == ([], True)
    union.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(producer, consumer)


@pytest.mark.parametrize("seed", range(4))
def test_begun_records(plane, pair, seed):
    """F6, B4: the begun record precedes the channel's data; together they can be replayed.

    The task's state holds the delivered records; a new reader reads the others from the rest.
    """
    producer, consumer, local = pair
    source = random.Random(f"begun {seed}")
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    writing, reading = plane.writing(partition, "GLOBAL"), plane.reading(gate)
    values = [source.randbytes(source.choice((10, 700, 2500))) for _ in range(6)]
    writing.write(*values)
    partition.flush_all()
    while len(reading.seen.values[0]) < seed:
        assert reading.step() == 1, "nothing came in time"
    [overtaken] = writing.writer.overtake(*barrier(1))
    reading.until(lambda seen: seen.events[0])
    gate.start_persisting(1)
    persisted, complete = gate.take_persisted(0)
    assert complete
    rest = gate.unconsumed(0) + b"".join(persisted + overtaken)
    handed_on = len(reading.seen.values[0])
    framed = [plane.codec.encode(value) for value in values[handed_on:]]
    assert rest == b"".join((len(f) + 1).to_bytes(4, "big") + b"\1" + f for f in framed)
    with pytest.raises(IllegalStateError, match="channel 1"):
        gate.unconsumed(1)
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_events_that_may_not_overtake(plane):
    """Only an event with priority overtakes, and only in a pipelined partition."""
    environment = plane.environment()
    pipelined = environment.create_result_partition(PID, 1)
    event, priority = barrier(1)
    with pytest.raises(IllegalStateError, match="overtakes nothing"):
        pipelined.overtake(event, int(DataType.EVENT_BUFFER))
    blocking = environment.create_result_partition(partition_id(1), 1, "BLOCKING")
    with pytest.raises(IllegalStateError, match="blocking partition"):
        blocking.overtake(event, priority)
    pipelined.release()
    blocking.release()
    assert_all_returned(environment)
