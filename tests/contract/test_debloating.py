"""Producers adapt their buffers to the consumer's throughput (internals M6).

A target of zero is never met, whatever the throughput: so the outcome is certain.  The size for a
given throughput is arithmetic, which the unit tests check.
"""

import pytest
from penstock.errors import ConfigurationError
from penstock.network.data_type import DataType
from penstock.network.events import CancelCheckpointMarker
from penstock.network.pure.wire import messages as wire

from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    connect,
    eventually,
    partition_id,
)
from contract.raw_peer import RECEIVER, RawConsumer

PID = partition_id()
SEGMENT = 1024
SMALLEST = 64


@pytest.fixture
def environments(plane, link):
    """Create the pair of environments; their gates debloat towards a target."""

    def make(target_ms, **settings):
        plane.same_host_path = link == "same-host"
        debloat = {
            "debloat_target_ms": target_ms,
            "debloat_samples": 1,
            "min_segment_size": SMALLEST,
            "starting_segment_size": SEGMENT,
            **settings,
        }
        consumer = plane.environment(**debloat)
        return consumer if link == "local" else plane.environment(), consumer, link == "local"

    return make


def take_data(gate) -> int:
    """Return the size of the next data buffer."""
    channel, data_type, data = gate.next_buffer(PATIENCE_MS)
    assert (channel, data_type) == (0, DataType.DATA_BUFFER)
    return len(data)


def test_no_time_makes_buffers_small(plane, environments):
    """Buffers shrink to the minimum if their data cannot be processed in time."""
    producer, consumer, local = environments(0)
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    writing = plane.writing(partition, "GLOBAL")
    value = bytes(10)
    writing.write(value)
    take_data(gate)
    assert [size for size, _ in gate.debloat()] == [SMALLEST]

    def is_small():
        # The size applies to buffers that are begun after its arrival.  All written data is read
        # before more is written: the pool can hold it, so no buffer grows for want of another.
        for _ in range(8):
            writing.write(value)
        partition.flush_all()
        sizes, missing = [], 8 * plane.framed_size(value)
        while missing:
            sizes.append(take_data(gate))
            missing -= sizes[-1]
        return max(sizes) <= SMALLEST

    eventually(is_small, "the producer's buffers stay large")
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_share_of_the_target(plane, environments):
    """A gate with no share of the target time shrinks its buffers at once."""
    producer, consumer, local = environments(1 << 30)
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    plane.writing(partition, "GLOBAL").write(bytes(10))
    take_data(gate)
    assert [size for size, _ in gate.debloat(0.0)] == [SMALLEST]
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_size_holds_for_the_next_buffer(plane):
    """A6: the first buffer that is requested after the size's arrival has that size."""
    producer = plane.environment()
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    writing = plane.writing(partition, "GLOBAL")
    value = plane.value_of_framed_size(SMALLEST)
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=20)
        writing.write(value)
        writing.flush()
        assert consumer.receive()[0].size == SMALLEST
        consumer.send(wire.NewBufferSize(SMALLEST, RECEIVER))
        # Messages are read in order, so the answer to the second one follows the first.
        consumer.request(PID, receiver=b"2" * 16, credit=1)
        assert isinstance(consumer.receive(), wire.ErrorResponse)
        # The open buffer ends with the event; those behind it hold one record each.
        writing.event(CancelCheckpointMarker(1))
        assert consumer.receive()[0].data_type == DataType.EVENT_BUFFER
        writing.write(value, value, plane.value_of_framed_size(SMALLEST + 9), value)
        writing.flush()
        sizes = [consumer.receive()[0].size for _ in range(4)]
        assert sizes == [SMALLEST, SMALLEST, SMALLEST + 9, SMALLEST]
    partition.release()
    assert_all_returned(producer)


def test_records_over_small_buffers(plane, environments):
    """Records of all sizes arrive while sizes change."""
    producer, consumer, local = environments(0)
    partition = producer.create_result_partition(PID, 2, flush_timeout_ms=1)
    gate = connect(plane, producer, consumer, [(PID, 0), (PID, 1)], local=local)
    reading = plane.reading(gate)
    values = [bytes([n % 2]) + bytes([n % 251]) * (n * 37 % 3000) for n in range(600)]

    def produce():
        plane.writing(partition).write(*values)
        partition.finish()

    background = Background(produce)
    while reading.step() != 2:
        gate.debloat()
    background.result()
    assert [reading.seen.values[n] for n in (0, 1)] == [values[0::2], values[1::2]]
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_union_of_gates(plane, environments):
    """Each gate of a union has its own size."""
    producer, consumer, local = environments(0)
    ids = [partition_id(n) for n in range(2)]
    partitions = [producer.create_result_partition(pid, 1) for pid in ids]
    gates = [connect(plane, producer, consumer, [(pid, 0)], local=local) for pid in ids]
    union = consumer.create_union_gate(gates)
    assert union.next_buffer(0) is None
    assert [size for size, _ in union.debloat()] == [SMALLEST] * 2
    union.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(producer, consumer)


def test_not_asked_for(plane, pair):
    """Without a target nothing is measured and nothing announced."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    assert gate.debloat() == []
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_bounds_that_cannot_be(plane):
    """The smallest buffer must not be larger than a segment."""
    with pytest.raises(ConfigurationError, match="debloated"):
        plane.environment(debloat_target_ms=1, segment_size=128, min_segment_size=256)
