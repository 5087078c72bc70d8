"""The data plane: the native one, or its twin in plain Python.

``PENSTOCK_RUNTIME`` selects ``native`` (the default) or ``pure``.  The classes are looked up on
first access, so importing this package starts and loads nothing::

    from penstock.network import NetworkEnvironment

    environment = NetworkEnvironment(executor_id="worker-1", token=token)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.runtime import load, runtime

if TYPE_CHECKING:
    from penstock.network.legacy.readers import BufferReader, MutableRecordReader, RecordReader
    from penstock.network.legacy.spanning import (
        DeserializationResult,
        SerializationResult,
        SpanningRecordSerializer,
        SpillingAdaptiveSpanningRecordDeserializer,
    )
    from penstock.network.pure.channel_selector import make_selector
    from penstock.network.pure.environment import NetworkEnvironment
    from penstock.network.pure.framing.deserializer import RecordDeserializer
    from penstock.network.pure.framing.serializer import RecordSerializer
    from penstock.network.pure.gate.input_gate import InputGate
    from penstock.network.pure.input_processor import StreamInputProcessor
    from penstock.network.pure.memory.io_manager import IOManager
    from penstock.network.pure.memory.local_buffer_pool import LocalBufferPool
    from penstock.network.pure.memory.network_buffer_pool import NetworkBufferPool
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

__all__ = [
    "BufferReader",
    "DeserializationResult",
    "ExactType",
    "IOManager",
    "InputGate",
    "KeyConversion",
    "KeyReader",
    "LocalBufferPool",
    "MemorySegment",
    "MutableRecordReader",
    "NetworkBufferPool",
    "NetworkEnvironment",
    "RecordDeserializer",
    "RecordReader",
    "RecordSerializer",
    "RecordWriter",
    "ResultPartition",
    "SerializationResult",
    "SpanningRecordSerializer",
    "SpillingAdaptiveSpanningRecordDeserializer",
    "StreamInputProcessor",
    "codec_for",
    "identity_of",
    "key_hash",
    "key_of",
    "load",
    "make_selector",
    "runtime",
]


def __getattr__(name: str) -> Any:
    # Not stored: a test may switch the runtime between two look-ups.
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(name)
