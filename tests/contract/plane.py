"""One interface for the contract tests over either runtime, and small readers and writers."""

from __future__ import annotations

import importlib.util
import struct
import threading
from collections import defaultdict
from dataclasses import dataclass, field

from penstock.network import load
from penstock.network.data_type import DataType
from penstock.network.events import Event, data_type_of, parse_event, serialize_event
from penstock.serialization.type_schema import schema_of
from support.patience import eventually

NATIVE_IS_BUILT = importlib.util.find_spec("penstock._core") is not None
TOKEN = b"contract tests' token, 32 bytes!"
NO_TIMESTAMP = -(2**63)
PATIENCE_MS = 60_000
"""The time limit for expected data, in milliseconds: long, as the machine may be busy."""


def partition_id(number: int = 0, attempt: int = 0) -> bytes:
    """Return a partition id whose parts are recognisable."""
    return (
        b"D" * 16
        + struct.pack(">i", number)
        + b"G" * 16
        + b"V" * 16
        + struct.pack(">ii", 0, attempt)
    )


def first_byte(key, num_channels: int) -> int:
    """Return the first byte of a value: the channel, for the tests' custom partitioner."""
    return key[0] % num_channels


class Writing:
    """A record writer whose values are bytes, the first one naming the channel."""

    def __init__(self, plane: Plane, partition, kind: str = "CUSTOM") -> None:
        arguments = {"function": first_byte} if kind == "CUSTOM" else {}
        selector = plane.load("make_selector")(kind, partition.num_subpartitions, **arguments)
        self.partition = partition
        self.writer = plane.load("RecordWriter")(partition, selector, plane.codec)

    def write(self, *values: bytes) -> None:
        for value in values:
            self.writer.collect(value, NO_TIMESTAMP)

    def event(self, event: Event, *, priority: bool = False) -> None:
        data_type = data_type_of(event, priority=priority)
        self.writer.broadcast_event(serialize_event(event), int(data_type))

    def flush(self) -> None:
        self.writer.flush()


@dataclass
class Collected:
    """The records and events that a reading loop saw, in order, by channel."""

    values: dict[int, list] = field(default_factory=lambda: defaultdict(list))
    events: dict[int, list[Event]] = field(default_factory=lambda: defaultdict(list))
    everything: dict[int, list] = field(default_factory=lambda: defaultdict(list))
    data_types: list[int] = field(default_factory=list)

    def on_event(self, channel: int, event: bytes, data_type: int) -> None:
        parsed = parse_event(event)
        self.events[channel].append(parsed)
        self.everything[channel].append(parsed)
        self.data_types.append(data_type)

    def on_watermark(self, channel: int, timestamp: int) -> None:
        self.everything[channel].append(("watermark", timestamp))

    def on_status(self, channel: int, idle: bool) -> None:
        self.everything[channel].append("idle" if idle else "active")

    def on_record_attributes(self, channel: int, is_backlog: bool) -> None:
        self.everything[channel].append("backlog" if is_backlog else "no backlog")

    def on_internal_watermark(self, channel: int, timestamp: int, subpartition: int) -> None:
        self.everything[channel].append(("watermark", timestamp, subpartition))

    def on_latency_marker(self, channel, marked, op_lower, op_upper, subtask) -> None:
        self.everything[channel].append(("latency", marked, op_lower, op_upper, subtask))


class Reading:
    """The runtime's reading loop over a gate."""

    def __init__(self, plane: Plane, gate) -> None:
        self.gate = gate
        self.seen = Collected()
        inputs = [plane.input_for(self._take(channel)) for channel in range(gate.num_channels)]
        codecs = [plane.codec] * gate.num_channels
        self.processor = plane.load("StreamInputProcessor")(gate, codecs, inputs, self.seen)

    def _take(self, channel: int):
        def process(value, timestamp) -> None:
            self.seen.values[channel].append(value)
            self.seen.everything[channel].append(value)

        return process

    def step(self, timeout_ms: int = PATIENCE_MS) -> int:
        return self.processor.process_next(timeout_ms)

    def to_end(self) -> Collected:
        while (result := self.step()) != 2:
            assert result == 1, "nothing came in time"
        return self.seen

    def until(self, condition) -> Collected:
        while not condition(self.seen):
            assert self.step() == 1, "nothing came in time"
        return self.seen


class Background:
    """Runs a call in a thread and returns its result or raises its exception."""

    def __init__(self, call) -> None:
        self._result = None
        self._error: BaseException | None = None

        def run() -> None:
            try:
                self._result = call()
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self):
        self._thread.join(PATIENCE_MS / 1000)
        assert not self._thread.is_alive(), "the background call hangs"
        if self._error is not None:
            raise self._error
        return self._result


class Plane:
    """Creates environments, writers and readers of one runtime."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.environments: list = []
        self.same_host_path = True

    def load(self, name: str):
        return load(name, self.kind)

    @property
    def codec(self):
        if self.kind == "native":
            from penstock._native.codecs.codec import Codec
        else:
            from penstock.serialization.pure.codec import Codec
        return Codec(schema_of(None))

    def input_for(self, process):
        class FunctionInput(self.load("Input")):
            def process(self, value, timestamp):
                process(value, timestamp)

        return FunctionInput()

    def environment(self, **settings):
        defaults = {
            "executor_id": f"{self.kind}-{len(self.environments)}",
            "token": TOKEN,
            "num_segments": 128,
            "segment_size": 1024,
            "same_host_path": self.same_host_path,
            # A request that arrives after the release waits this long twice.
            "partition_request_timeout_ms": 2_000,
        }
        environment = self.load("NetworkEnvironment")(**{**defaults, **settings})
        self.environments.append(environment)
        return environment

    def writing(self, partition, kind: str = "CUSTOM") -> Writing:
        return Writing(self, partition, kind)

    def reading(self, gate) -> Reading:
        return Reading(self, gate)

    def framed_size(self, value: bytes) -> int:
        """Return the bytes of a record in the stream: length, tag, encoded value."""
        return 4 + 1 + len(self.codec.encode(value))

    def value_of_framed_size(self, size: int, channel: int = 0) -> bytes:
        """Return a value whose record needs exactly ``size`` bytes."""
        value = bytes([channel]) * size
        while self.framed_size(value) > size:
            value = value[:-1]
        assert self.framed_size(value) == size, f"no value is framed in {size} bytes"
        return value

    def close(self) -> None:
        environments, self.environments = self.environments, []
        for environment in environments:
            environment.close()


def connect(plane: Plane, producer, consumer, specs, *, local: bool):
    """Return a requested gate of ``consumer`` on (partition id, subpartition) of ``producer``."""
    address = None if local else producer.address
    gate = consumer.create_input_gate([(pid, index, address) for pid, index in specs])
    gate.request_partitions()
    return gate


def exchanged(producing: Plane, consuming: Plane, partition, gate, values) -> list:
    """Return the values of a gate while another thread writes them and finishes the partition."""

    def produce():
        producing.writing(partition, "GLOBAL").write(*values)
        partition.finish()

    background = Background(produce)
    seen = consuming.reading(gate).to_end().values[0]
    background.result()
    return seen


def assert_all_returned(*environments) -> None:
    """Assert that every segment is back in the pool of its environment (A-16, C-11)."""
    for environment in environments:
        eventually(
            lambda e=environment: e.available_segments == e.total_segments,
            f"{environment.total_segments - environment.available_segments} segments are missing",
        )


def raw_frames(buffers: list[bytes]) -> list[bytes]:
    """Cut concatenated data buffers into payloads; check that nothing is left over."""
    stream, frames, offset = b"".join(buffers), [], 0
    while offset < len(stream):
        (length,) = struct.unpack_from(">i", stream, offset)
        frames.append(stream[offset + 4 : offset + 4 + length])
        assert len(frames[-1]) == length, "the stream ends inside a record"
        offset += 4 + length
    return frames


def raw_to_end(gate) -> list[tuple[int, int, bytes]]:
    """Return all buffers of a gate until it is finished."""
    buffers = []
    while not gate.is_finished():
        item = gate.next_buffer(PATIENCE_MS)
        assert item is not None, "nothing came in time"
        buffers.append(item)
    return buffers


def data_of(buffers: list[tuple[int, int, bytes]], channel: int = 0) -> list[bytes]:
    """Return the contents of a channel's data buffers."""
    return [data for at, kind, data in buffers if at == channel and kind == DataType.DATA_BUFFER]
