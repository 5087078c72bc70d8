"""Each primitive of `penstock.network`, the native one beside its pure twin.

Each table of the output is one primitive: its two rows are the twins, and the number in brackets
after a time is its ratio to the faster one.  A round makes ``PENSTOCK_BENCH_RECORDS`` calls (1,000
if unset), as a Python program makes them.
"""

import os
import tempfile
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from penstock.network import PartitionId, Types
from penstock.network.data_type import DataType
from penstock.network.events import CheckpointBarrier, serialize_event
from penstock.runtime import load

CALLS = int(os.environ.get("PENSTOCK_BENCH_RECORDS", "1000"))
SEGMENT_BYTES = 32 << 10
RECORD = bytes(64)
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
NO_TIMESTAMP = -(2**63)
END = 2
"""The result of `StreamInputProcessor.process_next` at the end of all channels."""


class Facade:
    """The names of one runtime."""

    def __init__(self, kind):
        self._kind = kind

    def __getattr__(self, name):
        return load(name, self._kind)


@pytest.fixture(params=["native", "pure"])
def facade(request):
    if request.param == "native":
        pytest.importorskip("penstock._core")
    return Facade(request.param)


def repeated(call, *arguments):
    """Return a function with as many calls as a round."""

    def run():
        for _ in range(CALLS):
            call(*arguments)

    return run


def put_and_get(facade):
    segment = facade.MemorySegment.allocate_off_heap(SEGMENT_BYTES)

    def run():
        for index in range(CALLS):
            segment.put_long(index & 0xFF8, index)
            segment.get_long(index & 0xFF8)

    yield run
    segment.free()


def copy_segment(facade):
    source = facade.MemorySegment.allocate_off_heap(SEGMENT_BYTES)
    target = facade.MemorySegment.allocate_off_heap(SEGMENT_BYTES)
    yield repeated(source.copy_to, 0, target, 0, SEGMENT_BYTES)


def request_and_recycle(facade):
    network_pool = facade.NetworkBufferPool(8, SEGMENT_BYTES)
    pool = network_pool.create_buffer_pool(4)
    yield repeated(lambda: pool.request_buffer().recycle())
    pool.lazy_destroy()
    network_pool.destroy()


def build_and_consume(facade):
    network_pool = facade.NetworkBufferPool(8, SEGMENT_BYTES)
    pool = network_pool.create_buffer_pool(4)

    def exchange():
        builder = pool.request_builder()
        consumer = builder.create_buffer_consumer()
        builder.append_and_commit(RECORD)
        builder.finish()
        buffer = consumer.build()
        buffer.view().release()
        for each in (builder, consumer):
            each.close()
        buffer.recycle()

    yield repeated(exchange)
    pool.lazy_destroy()
    network_pool.destroy()


def frame_records(facade):
    serializer = facade.RecordSerializer()

    def frame():
        serializer.add_record(RECORD)
        serializer.take(SEGMENT_BYTES)

    yield repeated(frame)


def split_buffers(facade):
    deserializer = facade.RecordDeserializer()
    framed = (len(RECORD).to_bytes(4, "big") + RECORD) * (SEGMENT_BYTES // (4 + len(RECORD)))
    yield repeated(deserializer.records_of, framed)


def encode_and_decode_array(facade):
    """An array of 8 KiB through its codec, which the runtimes share, and their codec of bytes."""
    yield through_bytes(facade, facade.ArrayCodec(), np.arange(1024))


def encode_and_decode_batch(facade):
    """An Arrow batch of 8 KiB, as `encode_and_decode_array`."""
    batch = pa.record_batch({"x": np.arange(1024)})
    yield through_bytes(facade, facade.RecordBatchCodec(batch.schema), batch)


def through_bytes(facade, columns, value):
    codec = facade.codec_for(BYTES)
    return repeated(lambda: columns.decode(codec.decode(codec.encode(columns.encode(value)))))


def select_channels(facade):
    yield repeated(facade.make_selector("REBALANCE", 8).select, RECORD)


def write_and_read_file(facade):
    with tempfile.TemporaryDirectory() as directory:
        manager = facade.IOManager([directory])

        def run():
            channel = manager.create_channel()
            writer = manager.create_buffer_writer(channel)
            for _ in range(CALLS):
                writer.write(RECORD)
            writer.close()
            reader = manager.create_buffer_reader(channel)
            for _ in range(CALLS):
                reader.request(len(RECORD))
                reader.next()
            reader.close_and_delete()

        yield run
        manager.close()


@contextmanager
def connected(facade, consumers, *settings, num_segments=64):
    """Create a partition and the gate of all its consumers, in one environment."""
    environment = facade.NetworkEnvironment(
        executor_id="bench", token=b"bench", num_segments=num_segments
    )
    identifier = PartitionId.random()
    partition = environment.create_result_partition(identifier, consumers, *settings)
    channels = [facade.InputChannelId(identifier, n) for n in range(consumers)]
    gate = environment.create_input_gate(channels)
    gate.request_partitions()
    yield partition, gate
    gate.close()
    partition.release()
    environment.close()


def write_and_read_records(facade):
    """A record writer and a reading loop of one environment, in turn."""
    codec = facade.codec_for(BYTES)
    seen = 0

    class Counting(facade.Input):
        """Counts records."""

        def process(self, value, timestamp):
            nonlocal seen
            seen += 1

    def run():
        expected = seen
        for left in range(CALLS, 0, -100):
            count = min(left, 100)
            for _ in range(count):
                writer.collect(RECORD, NO_TIMESTAMP)
            writer.flush()
            expected += count
            while seen < expected:
                loop.process_next(-1)

    num_segments = 4 * (8 + CALLS * 80 // SEGMENT_BYTES)
    with connected(facade, 1, num_segments=num_segments) as (partition, gate):
        writer = facade.RecordWriter(partition, facade.make_selector("FORWARD", 1), codec)
        loop = facade.StreamInputProcessor(gate, [codec], [Counting()], facade.ElementHandler())
        yield run


def send_events(facade):
    """A barrier to each of eight consumers."""
    event = serialize_event(CheckpointBarrier(1, 2))

    def run():
        for _ in range(CALLS):
            partition.broadcast_event(event, DataType.EVENT_BUFFER)
            for _ in range(8):
                gate.next_buffer(-1)

    with connected(facade, 8, "PIPELINED", -1) as (partition, gate):
        yield run


def store_and_read_records(facade):
    """A partition for a later stage: eight consumers read it when it is finished."""
    environment = facade.NetworkEnvironment(executor_id="bench", token=b"bench", num_segments=64)
    codec = facade.codec_for(BYTES)
    selector = facade.make_selector("REBALANCE", 8)

    class Counting(facade.Input):
        """Counts records."""

        def process(self, value, timestamp):
            pass

    def run():
        identifier = PartitionId.random()
        partition = environment.create_result_partition(identifier, 8, "BLOCKING")
        writer = facade.RecordWriter(partition, selector, codec)
        for _ in range(CALLS):
            writer.collect(RECORD, NO_TIMESTAMP)
        partition.finish()
        gate = environment.create_input_gate(
            [facade.InputChannelId(identifier, n) for n in range(8)]
        )
        gate.request_partitions()
        loop = facade.StreamInputProcessor(
            gate, [codec] * 8, [Counting()] * 8, facade.ElementHandler()
        )
        while loop.process_next(-1) != END:
            pass
        gate.close()
        partition.release()

    yield run
    environment.close()


@pytest.mark.parametrize(
    "primitive",
    [
        put_and_get,
        copy_segment,
        request_and_recycle,
        build_and_consume,
        frame_records,
        split_buffers,
        encode_and_decode_array,
        encode_and_decode_batch,
        select_channels,
        write_and_read_file,
        write_and_read_records,
        store_and_read_records,
        send_events,
    ],
    ids=lambda primitive: primitive.__name__,
)
def test_primitive(benchmark, facade, primitive):
    benchmark.group = primitive.__name__.replace("_", " ")
    prepared = primitive(facade)
    benchmark(next(prepared))
    next(prepared, None)
    benchmark.extra_info.update(calls=CALLS)
