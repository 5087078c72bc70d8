"""The whole data plane in plain Python: the reference, and the twin that needs no extension.

It uses the same wire format as the native one and has the same interface, so that either kind
exchanges data with the other.  `from penstock.network.pure import X` returns the twin of
`penstock.network.X`, whatever ``PENSTOCK_RUNTIME`` says; importing this package loads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.runtime import load

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
    from penstock.network.legacy.readers import BufferReader
    from penstock.network.legacy.spanning import DeserializationResult, SerializationResult
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
    from penstock.network.pure.records import (
        AdaptiveSpanningRecordDeserializer,
        MutableRecordReader,
        RecordReader,
        SpanningRecordSerializer,
        SpillingAdaptiveSpanningRecordDeserializer,
        codec_for,
    )
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
    "make_selector",
    "parse_event",
    "serialize_event",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(name, "pure")
