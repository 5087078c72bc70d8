"""The pure twin runs the native rows' work, for the column beside them."""

import statistics
import threading
import time

import penstock.network as network
from penstock.common.typeinfo import TypeInformation, Types
from penstock.network.data_type import DataType
from penstock.network.pure.framing.deserializer import RecordDeserializer
from penstock.network.pure.framing.serializer import RecordSerializer
from penstock.network.pure.memory.network_buffer_pool import NetworkBufferPool
from penstock.serialization.pure.codec import Codec
from penstock.serialization.type_schema import schema_of
from penstock.taskexecutor.compiled.operator_loop import Input

NO_TIMESTAMP = -(2**63)
FINISHED = 2
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
PATHS = {"TCP": False, "same host": True}
SEGMENT_BYTES = 32 << 10
LONG = bytes(8)


class Counting(Input):
    """Counts arriving elements."""

    seen = 0

    def process(self, value: object, timestamp: int) -> None:
        self.seen += 1


class Handler:
    """Ignores events."""

    def on_event(self, channel: int, event: bytes, data_type: int) -> None: ...


class Direction:
    """Channels from one environment to another, with a writer and a reader."""

    def __init__(
        self,
        producer,
        consumer,
        number: int,
        element: TypeInformation,
        flush_ms: int,
        channels: int = 1,
    ):
        pid = bytes([number]) * 60
        codec = Codec(schema_of(element))
        self.partition = producer.create_result_partition(pid, channels, flush_timeout_ms=flush_ms)
        self.gate = consumer.create_input_gate(
            [(pid, index, producer.address) for index in range(channels)]
        )
        self.gate.request_partitions()
        self.target = Counting()
        self.processor = network.load("StreamInputProcessor", "pure")(
            self.gate, [codec] * channels, [self.target] * channels, Handler()
        )
        selector = network.load("make_selector", "pure")(
            "REBALANCE" if channels > 1 else "GLOBAL", channels
        )
        self.writer = network.load("RecordWriter", "pure")(self.partition, selector, codec)

    def close(self) -> None:
        self.gate.close()
        self.partition.wait_consumed(1_000)
        self.partition.release()


def pair(*, same_host: bool, channels: int = 1):
    """Return two environments, which the caller closes."""
    make = network.load("NetworkEnvironment", "pure")
    settings = {
        "token": b"token",
        "num_segments": 128 + 4 * channels,
        "same_host_path": same_host,
    }
    return [make(executor_id=name, **settings) for name in ("one", "other")]


def records_per_second(
    value: object,
    element: TypeInformation,
    count: int,
    path: str,
    channels: int = 1,
    flush_ms: int = 100,
) -> float:
    """Return the rate at which ``count`` records pass from one writer to one reader."""
    producer, consumer = pair(same_host=PATHS[path], channels=channels)
    direction = Direction(producer, consumer, 1, element, flush_ms, channels)

    def write() -> None:
        for _ in range(count):
            direction.writer.collect(value, NO_TIMESTAMP)
        direction.partition.finish()

    started = time.perf_counter()
    thread = threading.Thread(target=write)
    thread.start()
    while direction.processor.process_next(1_000) != FINISHED:
        pass
    thread.join()
    seconds = time.perf_counter() - started
    assert direction.target.seen == count
    direction.close()
    consumer.close()
    producer.close()
    return count / seconds


def one_way_us(rounds: int, path: str) -> float:
    """Return half of the median round trip of a flushed long, in microseconds."""
    left, right = pair(same_host=PATHS[path])
    there = Direction(left, right, 1, Types.LONG(), 0)
    back = Direction(right, left, 2, Types.LONG(), 0)

    def pass_on(arriving: Direction, leaving: Direction | None, expected: int) -> None:
        while arriving.target.seen < expected:
            arriving.processor.process_next(1_000)
        if leaving is not None:
            leaving.writer.collect(1, NO_TIMESTAMP)
            leaving.writer.flush()

    def answer() -> None:
        for number in range(rounds):
            pass_on(there, back, number + 1)

    thread = threading.Thread(target=answer)
    thread.start()
    times = []
    for number in range(rounds):
        started = time.perf_counter()
        there.writer.collect(1, NO_TIMESTAMP)
        there.writer.flush()
        pass_on(back, None, number + 1)
        times.append(time.perf_counter() - started)
    thread.join()
    for direction in (there, back):
        direction.close()
    left.close()
    right.close()
    return statistics.median(times) * 1e6 / 2


def barrier_us(data_type: DataType, channels: int, rounds: int, *, first: bool) -> float:
    """Return the median time until a broadcast event has arrived on all channels, or on one."""
    producer, consumer = pair(same_host=False, channels=channels)
    direction = Direction(producer, consumer, 1, Types.LONG(), -1, channels)
    times = []
    # The first round also waits for the connection.
    for _ in range(rounds + 1):
        started = time.perf_counter()
        direction.partition.broadcast_event(bytes(24), data_type)
        arrivals, blocked = [], []
        while len(blocked) < channels:
            arrived = direction.gate.next_buffer(1_000)
            if arrived is not None:
                arrivals.append(time.perf_counter() - started)
                blocked.append(arrived[0])
        times.append(arrivals[0 if first else -1])
        if data_type is DataType.ALIGNED_CHECKPOINT_BARRIER:
            for channel in blocked:
                direction.gate.resume_consumption(channel)
    direction.close()
    consumer.close()
    producer.close()
    return statistics.median(times[1:]) * 1e6


def seconds_each(rounds: int, body) -> float:
    """Return the time of one call of ``body``."""
    started = time.perf_counter()
    for _ in range(rounds):
        body()
    return (time.perf_counter() - started) / rounds


def request_ns(rounds: int, threads: int) -> float:
    """Return the time to get a buffer from a pool and return it, by threads that share the pool."""
    pool = NetworkBufferPool(64, SEGMENT_BYTES).create_buffer_pool(32, 32)

    def exchange() -> None:
        pool.request_buffer().recycle()

    workers = [
        threading.Thread(target=seconds_each, args=(rounds, exchange)) for _ in range(threads)
    ]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return (time.perf_counter() - started) / rounds * 1e9


def redistribution_ns(pools: int, rounds: int) -> float:
    """Return half of the time to create and destroy a pool beside so many others."""
    network_pool = NetworkBufferPool(4 * pools, 64)
    for _ in range(pools):
        network_pool.create_buffer_pool(2, 10)
    return seconds_each(rounds, lambda: network_pool.create_buffer_pool(2, 10).lazy_destroy()) / (
        2e-9
    )


def serialize_seconds(payload: bytes, count: int) -> float:
    """Return the time to write a record into the segments of a pool."""
    pool = NetworkBufferPool(16, SEGMENT_BYTES).create_buffer_pool(8, 8)
    serializer, builder = RecordSerializer(), pool.request_builder()

    def serialize() -> None:
        nonlocal builder
        serializer.add_record(payload)
        while serializer.has_serialized_data:
            if builder.is_full:
                builder.finish()
                builder.close()
                builder = pool.request_builder()
            builder.append_and_commit(serializer.take(builder.writable_bytes))

    return seconds_each(count, serialize)


def deserialize_seconds(payload: bytes, count: int) -> float:
    """Return the time to read a record from the segments that it spans."""
    framed = len(payload).to_bytes(4, "big") + payload
    records = max(1, SEGMENT_BYTES // len(framed))
    data = memoryview(framed * records)
    parts = [data[at : at + SEGMENT_BYTES] for at in range(0, len(data), SEGMENT_BYTES)]
    deserializer = RecordDeserializer()

    def deserialize() -> None:
        seen = sum(len(deserializer.records_of(part)) for part in parts)
        assert seen == records

    return seconds_each(-(-count // records), deserialize) / records


def measures(*, smoke: bool):
    """Return the measurements of the pure twin: name of the row → call that measures it."""
    scale = 0.01 if smoke else 1.0

    def times(count: int) -> int:
        return max(2, int(count * scale))

    longs, parts, rounds = times(200_000), times(20_000), times(1_000)
    aligned, priority = DataType.ALIGNED_CHECKPOINT_BARRIER, DataType.PRIORITIZED_EVENT_BUFFER
    found = {
        "request + recycle, 1 thread": lambda: request_ns(longs, 1),
        "request + recycle, 2 threads": lambda: request_ns(longs, 2),
        "redistribution, 1,000 pools": lambda: redistribution_ns(1_000, times(50)),
        "serialize 8 B": lambda: serialize_seconds(LONG, longs) * 1e9,
        "deserialize 8 B": lambda: deserialize_seconds(LONG, longs) * 1e9,
        "8 B records, 1 channel, 100 ms": lambda: (
            records_per_second(1, Types.LONG(), longs, "TCP") / 1e6
        ),
        "8 B records, 1,000 channels, 1 ms": lambda: (
            records_per_second(1, Types.LONG(), longs, "TCP", 1_000, 1) / 1e6
        ),
        "unaligned barrier, 1,000 channels": lambda: barrier_us(
            priority, 1_000, times(20), first=False
        ),
        "unaligned barrier, 1,000 channels, first arrival": lambda: barrier_us(
            priority, 1_000, times(20), first=True
        ),
    }
    for name, channels in (("1 channel", 1), ("100 channels", 100), ("1,000 channels", 1_000)):
        found[f"aligned barrier, {name}"] = lambda channels=channels: barrier_us(
            aligned, channels, times(20), first=False
        )
    for name, size, count in (
        ("100 KiB", 100 << 10, times(2_000)),
        ("10 MiB", 10 << 20, times(20)),
    ):
        payload = bytes(size)
        found[f"serialize {name}"] = lambda payload=payload, count=count: (
            len(payload) / serialize_seconds(payload, count) / 1e9
        )
        found[f"deserialize {name}"] = lambda payload=payload, count=count: (
            len(payload) / deserialize_seconds(payload, count) / 1e9
        )
    for path in PATHS:
        for name, size in (("1 KiB", 1 << 10), ("32 KiB", 32 << 10)):
            found[f"{name} records, {path}"] = lambda size=size, path=path: (
                records_per_second(bytes(size), BYTES, parts, path) * size / 1e9
            )
        found[f"flushed 8 B record one way, {path}"] = lambda path=path: one_way_us(rounds, path)
    return found
