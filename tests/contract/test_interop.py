"""A native and a pure executor exchange data: one wire format (internals M17)."""

import dataclasses
import random
import uuid

import pytest
from penstock.common import Row
from penstock.errors import PartitionNotFoundError, ProducerFailedError
from penstock.network.events import CheckpointBarrier, EndOfData, EndOfPartition
from penstock.serialization.value_layouts import number_classes

from contract.codecs import EXTENDED, Point
from contract.plane import (
    NATIVE_IS_BUILT,
    PATIENCE_MS,
    Background,
    Plane,
    assert_all_returned,
    connect,
    exchanged,
    partition_id,
)

pytestmark = pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._core is not built")


@pytest.fixture(params=["same-host", "tcp"])
def path(request):
    """Return the transport between the executors."""
    return request.param


@pytest.fixture(params=["native to pure", "pure to native"])
def planes(request, path, monkeypatch):
    """Return the producing and the consuming runtime."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    made = [Plane(kind) for kind in request.param.split(" to ")]
    for plane in made:
        plane.same_host_path = path == "same-host"
    yield made
    for plane in made:
        plane.close()


def test_records_and_events(planes):
    """Records of all sizes, watermarks, barriers and ends, over several channels."""
    ids = [partition_id(n) for n in range(2)]
    producing, consuming = planes
    producer, consumer = producing.environment(), consuming.environment()
    partitions = [producer.create_result_partition(pid, 2, flush_timeout_ms=5) for pid in ids]
    specs = [(pid, n) for pid in ids for n in range(2)]
    gate = connect(consuming, producer, consumer, specs, local=False)
    reading = consuming.reading(gate)
    source = random.Random(11)
    expected = {channel: [] for channel in range(4)}
    barrier = CheckpointBarrier(7, 8)

    def produce(number):
        writing = producing.writing(partitions[number])
        for step in range(120):
            size = source.choice((0, 3, 500, 1023, 1024, 9000))
            value = bytes([step % 2]) + bytes(size)
            writing.write(value)
            expected[number * 2 + step % 2].append(value)
            if step == 60:
                writing.event(barrier)
                writing.writer.emit_watermark(step)
                for channel in (0, 1):
                    expected[number * 2 + channel] += [barrier, ("watermark", step)]
        writing.event(EndOfData())
        partitions[number].finish()
        for channel in (0, 1):
            expected[number * 2 + channel] += [EndOfData(), EndOfPartition()]
        return partitions[number].wait_consumed(PATIENCE_MS)

    backgrounds = [Background(lambda n=n: produce(n)) for n in range(2)]
    resumed = set()
    while (result := reading.step()) != 2:
        assert result == 1
        for channel in range(4):
            if reading.seen.events[channel] and channel not in resumed:
                resumed.add(channel)
                gate.resume_consumption(channel)
    assert [background.result() for background in backgrounds] == [True, True]
    assert dict(reading.seen.everything) == expected
    gate.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(producer, consumer)


def test_large_record(planes):
    """A record above the spill threshold."""
    producing, consuming = planes
    pid = partition_id()
    producer = producing.environment(segment_size=32768)
    consumer = consuming.environment(segment_size=32768)
    partition = producer.create_result_partition(pid, 1)
    gate = connect(consuming, producer, consumer, [(pid, 0)], local=False)
    value = random.Random(3).randbytes(6 << 20)
    assert exchanged(producing, consuming, partition, gate, [value]) == [value]


@dataclasses.dataclass
class Item:
    """A class that the test's job knows by a number."""

    name: str
    parts: list


def test_values_of_every_kind(planes):
    """Equal, of their class and with their hash after the exchange; classes by their number."""
    number_classes([(None, Item), (None, Point)])
    producing, consuming = planes
    pid = partition_id()
    producer, consumer = producing.environment(), consuming.environment()
    partition = producer.create_result_partition(pid, 1)
    gate = connect(consuming, producer, consumer, [(pid, 0)], local=False)
    values = [
        *EXTENDED,
        Item("a", [Point(1, 2.0)]),
        Row(a=1, b=[Row(2)]),
        uuid.UUID(int=7),
        {"a": {1}},
    ]
    found = exchanged(producing, consuming, partition, gate, values)
    assert [type(value) for value in found] == [type(value) for value in values]
    assert found == values
    for value, back in zip(values, found, strict=True):
        if type(value).__hash__ is not None and not isinstance(value, (Item, Row)):
            assert hash(back) == hash(value)
    assert partition_bytes(producing, values[-4:]) < sum(
        len(producing.codec.encode(value)) for value in values[-4:]
    )
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def partition_bytes(plane, values):
    """Return the bytes that a record writer makes of values, without the records' framing."""
    environment = plane.environment()
    partition = environment.create_result_partition(partition_id(), 1)
    writing = plane.writing(partition, "GLOBAL")
    writing.write(*values)
    size = writing.writer.bytes_out - 5 * len(values)
    partition.release()
    return size


@pytest.mark.parametrize("exclusive", [0, 1, 2])
def test_credits(planes, exclusive):
    """Any number of exclusive buffers: announcements, credits and backlog agree."""
    producing, consuming = planes
    pid = partition_id()
    producer = producing.environment(exclusive_buffers_per_channel=exclusive)
    consumer = consuming.environment(exclusive_buffers_per_channel=exclusive)
    partition = producer.create_result_partition(pid, 1, flush_timeout_ms=1)
    gate = connect(consuming, producer, consumer, [(pid, 0)], local=False)
    values = [bytes([n % 256]) * 900 for n in range(300)]
    assert exchanged(producing, consuming, partition, gate, values) == values
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_blocking_partition(planes):
    """One runtime writes a file, and the other reads it twice."""
    producing, consuming = planes
    pid = partition_id()
    producer, consumer = producing.environment(), consuming.environment()
    partition = producer.create_result_partition(pid, 1, "BLOCKING")
    values = [bytes([n]) * 900 for n in range(200)]
    producing.writing(partition, "GLOBAL").write(*values)
    partition.finish()
    for _ in range(2):
        gate = connect(consuming, producer, consumer, [(pid, 0)], local=False)
        assert consuming.reading(gate).to_end().values[0] == values
        gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_failure_crosses(planes):
    """A producer's failure and an unknown partition raise the same exceptions."""
    producing, consuming = planes
    producer = producing.environment(partition_request_timeout_ms=30)
    consumer = consuming.environment(partition_request_timeout_ms=30)
    pid = partition_id()
    partition = producer.create_result_partition(pid, 1, flush_timeout_ms=0)
    gate = connect(consuming, producer, consumer, [(pid, 0)], local=False)
    producing.writing(partition, "GLOBAL").write(b"x")
    assert gate.next_buffer(PATIENCE_MS) is not None
    partition.fail("out of luck")
    with pytest.raises(ProducerFailedError, match="out of luck"):
        gate.next_buffer(PATIENCE_MS)
    unknown = connect(consuming, producer, consumer, [(partition_id(5), 0)], local=False)
    with pytest.raises(PartitionNotFoundError):
        unknown.next_buffer(PATIENCE_MS)
    gate.close()
    unknown.close()
    assert_all_returned(producer, consumer)


def test_wrong_token(planes):
    """Executors of different jobs cannot connect."""
    producing, consuming = planes
    producer = producing.environment()
    consumer = consuming.environment(
        token=b"another job's token, 32 bytes...", handshake_timeout_ms=300
    )
    pid = partition_id()
    producer.create_result_partition(pid, 1)
    gate = connect(consuming, producer, consumer, [(pid, 0)], local=False)
    with pytest.raises(Exception, match=str(producer.address[1])):
        gate.next_buffer(PATIENCE_MS)
