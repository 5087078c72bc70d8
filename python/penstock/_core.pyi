# The classes of penstock.network are declared once, by their twins in penstock.network.pure;
# tests/contract/test_twins.py compares the two.  The record path goes through the C function table
# in _C_API.

from typing import final

from penstock.network.pure.environment import NetworkEnvironment
from penstock.network.pure.framing.deserializer import RecordDeserializer
from penstock.network.pure.framing.serializer import RecordSerializer
from penstock.network.pure.gate.input_gate import InputGate
from penstock.network.pure.memory.availability import AvailabilityFuture
from penstock.network.pure.memory.buffer import Buffer
from penstock.network.pure.memory.buffer_builder import BufferBuilder, BufferConsumer
from penstock.network.pure.memory.file_channel import (
    BlockChannelReader,
    BlockChannelWriter,
    BufferFileReader,
    BufferFileWriter,
)
from penstock.network.pure.memory.io_manager import (
    FileChannelEnumerator,
    FileChannelId,
    IOManager,
)
from penstock.network.pure.memory.local_buffer_pool import LocalBufferPool
from penstock.network.pure.memory.network_buffer_pool import NetworkBufferPool, PooledSegment
from penstock.network.pure.memory.segment import MemorySegment
from penstock.network.pure.partition.result_partition import ResultPartition

__all__ = [
    "_C_API",
    "AvailabilityFuture",
    "BlockChannelReader",
    "BlockChannelWriter",
    "Buffer",
    "BufferBuilder",
    "BufferConsumer",
    "BufferFileReader",
    "BufferFileWriter",
    "FileChannelEnumerator",
    "FileChannelId",
    "Heartbeat",
    "IOManager",
    "InputGate",
    "LocalBufferPool",
    "MemorySegment",
    "NetworkBufferPool",
    "NetworkEnvironment",
    "PooledSegment",
    "RecordDeserializer",
    "RecordSerializer",
    "ResultPartition",
    "StackSampler",
    "__version__",
]

_C_API: object
__version__: str

@final
class Heartbeat:
    def __new__(
        cls,
        fd: int,
        interval_ms: int,
        opening: bytes = ...,
        tls_identity: tuple[bytes, bytes] | None = None,
    ) -> Heartbeat: ...
    def millis_since_last_beat(self) -> int: ...
    def beats_received(self) -> int: ...
    def is_closed(self) -> bool: ...
    def stop(self) -> None: ...

@final
class StackSampler:
    def __new__(
        cls,
        layout: tuple[int, int | None, int, int, int, int | None, tuple[int, int] | None],
    ) -> StackSampler: ...
    def look(
        self, threads: list[tuple[int, int]], delay_ms: int
    ) -> list[tuple[bool, bool, list[int], list[tuple[int, int, bool]]] | None]: ...
    def name(self, address: int) -> tuple[str, str]: ...
