"""Records between processes through memory segments: the data plane, as a library.

`from penstock.network import X` returns the native class, `from penstock.network.pure import X` the
same one in plain Python, with the same members, signatures, exceptions and results.  The docstrings
are those of the plain classes.  With ``PENSTOCK_RUNTIME=pure`` this package returns them, too.

The classes are looked up on first access, so importing this package starts and loads nothing::

    from penstock.network import NetworkEnvironment

    environment = NetworkEnvironment(executor_id="worker-1", token=token)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.runtime import load, runtime

if TYPE_CHECKING:
    from penstock.common.typeinfo import Types
    from penstock.network.array_codecs import ArrayCodec, RecordBatchCodec
    from penstock.network.data_type import DataType
    from penstock.network.element_handler import ElementHandler
    from penstock.network.events import (
        CancelCheckpointMarker,
        CheckpointBarrier,
        EndOfData,
        EndOfPartition,
        EndOfSuperstep,
        TaskEvent,
        data_type_of,
        parse_event,
        serialize_event,
    )
    from penstock.network.identifiers import InputChannelId, PartitionId
    from penstock.network.legacy.readers import BufferReader, MutableRecordReader, RecordReader
    from penstock.network.legacy.spanning import (
        AdaptiveSpanningRecordDeserializer,
        DeserializationResult,
        SerializationResult,
        SpanningRecordSerializer,
        SpillingAdaptiveSpanningRecordDeserializer,
    )
    from penstock.network.legacy.task_events import TaskEventDispatcher
    from penstock.network.pure.channel_selector import ChannelSelector, make_selector
    from penstock.network.pure.environment import NetworkEnvironment
    from penstock.network.pure.framing.deserializer import RecordDeserializer
    from penstock.network.pure.framing.serializer import RecordSerializer
    from penstock.network.pure.gate.input_gate import InputGate
    from penstock.network.pure.input_processor import StreamInputProcessor
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
    from penstock.network.pure.record_writer import RecordWriter
    from penstock.serialization.codec import codec_for
    from penstock.serialization.pure.key_hash import key_hash
    from penstock.serialization.pure.keys import (
        ExactType,
        KeyConversion,
        KeyReader,
        identity_of,
        key_of,
    )
    from penstock.taskexecutor.compiled.operator_loop import Input

__all__ = [
    "AdaptiveSpanningRecordDeserializer",
    "ArrayCodec",
    "AvailabilityFuture",
    "BlockChannelReader",
    "BlockChannelWriter",
    "Buffer",
    "BufferBuilder",
    "BufferConsumer",
    "BufferFileReader",
    "BufferFileWriter",
    "BufferReader",
    "CancelCheckpointMarker",
    "ChannelSelector",
    "CheckpointBarrier",
    "DataType",
    "DeserializationResult",
    "ElementHandler",
    "EndOfData",
    "EndOfPartition",
    "EndOfSuperstep",
    "ExactType",
    "FileChannelEnumerator",
    "FileChannelId",
    "IOManager",
    "Input",
    "InputChannelId",
    "InputGate",
    "KeyConversion",
    "KeyReader",
    "LocalBufferPool",
    "MemorySegment",
    "MutableRecordReader",
    "NetworkBufferPool",
    "NetworkEnvironment",
    "PartitionId",
    "PooledSegment",
    "RecordBatchCodec",
    "RecordDeserializer",
    "RecordReader",
    "RecordSerializer",
    "RecordWriter",
    "ResultPartition",
    "SerializationResult",
    "SpanningRecordSerializer",
    "SpillingAdaptiveSpanningRecordDeserializer",
    "StreamInputProcessor",
    "TaskEvent",
    "TaskEventDispatcher",
    "Types",
    "codec_for",
    "data_type_of",
    "identity_of",
    "key_hash",
    "key_of",
    "load",
    "make_selector",
    "parse_event",
    "runtime",
    "serialize_event",
]


def __getattr__(name: str) -> Any:
    # Not stored: a test may switch the runtime between two look-ups.
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(name)
