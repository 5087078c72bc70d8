"""What two environments of the pure twin exchange, for the column beside the native figures."""

import statistics
import threading
import time

import penstock.network as network
from penstock.common.typeinfo import TypeInformation, Types
from penstock.network.pure.codec import Codec
from penstock.network.type_schema import schema_of
from penstock.taskexecutor.operator_loop import Input

NO_TIMESTAMP = -(2**63)
FINISHED = 2
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
PATHS = {"TCP": False, "same host": True}


class Counting(Input):
    """Counts what arrives."""

    seen = 0

    def process(self, value: object, timestamp: int) -> None:
        self.seen += 1


class Handler:
    """Events mean nothing here."""

    def on_event(self, channel: int, event: bytes, data_type: int) -> None: ...


class Direction:
    """One channel from an environment to another, with a writer and a reader."""

    def __init__(self, producer, consumer, number: int, element: TypeInformation, flush_ms: int):
        pid = bytes([number]) * 60
        codec = Codec(schema_of(element))
        self.partition = producer.create_result_partition(pid, 1, flush_timeout_ms=flush_ms)
        self.gate = consumer.create_input_gate([(pid, 0, producer.address)])
        self.gate.request_partitions()
        self.target = Counting()
        self.processor = network.load("StreamInputProcessor", "pure")(
            self.gate, [codec], [self.target], Handler()
        )
        selector = network.load("make_selector", "pure")("GLOBAL", 1)
        self.writer = network.load("RecordWriter", "pure")(self.partition, selector, codec)

    def close(self) -> None:
        self.gate.close()
        self.partition.release()


def pair(*, same_host: bool):
    """Two environments; the caller closes them."""
    make = network.load("NetworkEnvironment", "pure")
    settings = {"token": b"token", "num_segments": 128, "same_host_path": same_host}
    return [make(executor_id=name, **settings) for name in ("one", "other")]


def records_per_second(value: object, element: TypeInformation, count: int, path: str) -> float:
    """The rate at which ``count`` records pass one channel, flushed every 100 ms."""
    producer, consumer = pair(same_host=PATHS[path])
    direction = Direction(producer, consumer, 1, element, 100)

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
    """Half of the middle round trip of a flushed long, in microseconds."""
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


def measures(*, smoke: bool):
    """What the pure twin has a figure for: name of the row → call that measures it."""
    longs, parts, rounds = (1_000, 100, 3) if smoke else (200_000, 20_000, 1_000)
    found = {
        "8 B records, 1 channel, 100 ms": lambda: (
            records_per_second(1, Types.LONG(), longs, "TCP") / 1e6
        )
    }
    for path in PATHS:
        for name, size in (("1 KiB", 1 << 10), ("32 KiB", 32 << 10)):
            found[f"{name} records, {path}"] = lambda size=size, path=path: (
                records_per_second(bytes(size), BYTES, parts, path) * size / 1e9
            )
        found[f"flushed 8 B record one way, {path}"] = lambda path=path: one_way_us(rounds, path)
    return found
