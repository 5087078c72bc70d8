"""The selected runtime: native, or its twin in plain Python, with the modules of their names.

``PENSTOCK_RUNTIME`` selects ``native`` (the default) or ``pure``.  A name is imported only when it
is requested, so that every package may use this module; `penstock.network` is the facade of the
data plane.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Final, Literal

from penstock.errors import ConfigurationError

Runtime = Literal["native", "pure"]

_SHARED: Final = {
    "data_type_of": "penstock.network.events",
    "parse_event": "penstock.network.events",
    "serialize_event": "penstock.network.events",
    "ArrayCodec": "penstock.network.array_codecs",
    "BufferReader": "penstock.network.legacy.readers",
    "CancelCheckpointMarker": "penstock.network.events",
    "CheckpointBarrier": "penstock.network.events",
    "DataType": "penstock.network.data_type",
    "DeserializationResult": "penstock.network.legacy.spanning",
    "ElementHandler": "penstock.network.element_handler",
    "EndOfData": "penstock.network.events",
    "EndOfPartition": "penstock.network.events",
    "EndOfSuperstep": "penstock.network.events",
    "InputChannelId": "penstock.network.identifiers",
    "PartitionId": "penstock.network.identifiers",
    "RecordBatchCodec": "penstock.network.array_codecs",
    "SerializationResult": "penstock.network.legacy.spanning",
    "TaskEvent": "penstock.network.events",
    "TaskEventDispatcher": "penstock.network.legacy.task_events",
    "Types": "penstock.common.typeinfo",
}
"""Names that both runtimes share: they are written in Python, on top of either."""

_MODULES: Final[dict[Runtime, dict[str, str]]] = {
    "native": _SHARED
    | {
        "AdaptiveSpanningRecordDeserializer": "penstock.network.legacy.spanning",
        "codec_for": "penstock.serialization.codec",
        "identity_of": "penstock._native.keys.keys",
        "key_hash": "penstock._native.keys.key_hash",
        "key_of": "penstock._native.keys.keys",
        "make_selector": "penstock._native.keys.channel_selector",
        "AvailabilityFuture": "penstock._core",
        "BlockChannelReader": "penstock._core",
        "BlockChannelWriter": "penstock._core",
        "Buffer": "penstock._core",
        "BufferBuilder": "penstock._core",
        "BufferConsumer": "penstock._core",
        "BufferFileReader": "penstock._core",
        "BufferFileWriter": "penstock._core",
        "ChannelSelector": "penstock._native.keys.channel_selector",
        "ExactType": "penstock._native.keys.keys",
        "FileChannelEnumerator": "penstock._core",
        "FileChannelId": "penstock._core",
        "Input": "penstock._native.operators.operator_loop",
        "InputGate": "penstock._core",
        "IOManager": "penstock._core",
        "KeyConversion": "penstock._native.keys.keys",
        "KeyReader": "penstock._native.keys.keys",
        "LocalBufferPool": "penstock._core",
        "MemorySegment": "penstock._core",
        "MutableRecordReader": "penstock.network.legacy.readers",
        "NetworkBufferPool": "penstock._core",
        "NetworkEnvironment": "penstock._core",
        "PooledSegment": "penstock._core",
        "RecordDeserializer": "penstock._core",
        "RecordReader": "penstock.network.legacy.readers",
        "RecordSerializer": "penstock._core",
        "RecordWriter": "penstock._native.records.record_writer",
        "ResultPartition": "penstock._core",
        "SpanningRecordSerializer": "penstock.network.legacy.spanning",
        "SpillingAdaptiveSpanningRecordDeserializer": "penstock.network.legacy.spanning",
        "StreamInputProcessor": "penstock._native.records.input_processor",
    },
    "pure": _SHARED
    | {
        "AdaptiveSpanningRecordDeserializer": "penstock.network.pure.records",
        "codec_for": "penstock.network.pure.records",
        "identity_of": "penstock.serialization.pure.keys",
        "key_hash": "penstock.serialization.pure.key_hash",
        "key_of": "penstock.serialization.pure.keys",
        "make_selector": "penstock.network.pure.channel_selector",
        "AvailabilityFuture": "penstock.network.pure.memory.availability",
        "BlockChannelReader": "penstock.network.pure.memory.file_channel",
        "BlockChannelWriter": "penstock.network.pure.memory.file_channel",
        "Buffer": "penstock.network.pure.memory.buffer",
        "BufferBuilder": "penstock.network.pure.memory.buffer_builder",
        "BufferConsumer": "penstock.network.pure.memory.buffer_builder",
        "BufferFileReader": "penstock.network.pure.memory.file_channel",
        "BufferFileWriter": "penstock.network.pure.memory.file_channel",
        "ChannelSelector": "penstock.network.pure.channel_selector",
        "ExactType": "penstock.serialization.pure.keys",
        "FileChannelEnumerator": "penstock.network.pure.memory.io_manager",
        "FileChannelId": "penstock.network.pure.memory.io_manager",
        "Input": "penstock.taskexecutor.compiled.operator_loop",
        "InputGate": "penstock.network.pure.gate.input_gate",
        "IOManager": "penstock.network.pure.memory.io_manager",
        "KeyConversion": "penstock.serialization.pure.keys",
        "KeyReader": "penstock.serialization.pure.keys",
        "LocalBufferPool": "penstock.network.pure.memory.local_buffer_pool",
        "MemorySegment": "penstock.network.pure.memory.segment",
        "MutableRecordReader": "penstock.network.pure.records",
        "NetworkBufferPool": "penstock.network.pure.memory.network_buffer_pool",
        "NetworkEnvironment": "penstock.network.pure.environment",
        "PooledSegment": "penstock.network.pure.memory.network_buffer_pool",
        "RecordDeserializer": "penstock.network.pure.framing.deserializer",
        "RecordReader": "penstock.network.pure.records",
        "RecordSerializer": "penstock.network.pure.framing.serializer",
        "RecordWriter": "penstock.network.pure.record_writer",
        "ResultPartition": "penstock.network.pure.partition.result_partition",
        "SpanningRecordSerializer": "penstock.network.pure.records",
        "SpillingAdaptiveSpanningRecordDeserializer": "penstock.network.pure.records",
        "StreamInputProcessor": "penstock.network.pure.input_processor",
    },
}


def runtime() -> Runtime:
    """Return the data plane that ``PENSTOCK_RUNTIME`` selects.

    Raises:
        ConfigurationError: the variable has another value than native and pure.
    """
    value = os.environ.get("PENSTOCK_RUNTIME", "native")
    if value == "native":
        return "native"
    if value == "pure":
        return "pure"
    raise ConfigurationError(f"PENSTOCK_RUNTIME is {value!r}; it can be 'native' or 'pure'")


def load(name: str, kind: Runtime | None = None) -> Any:
    """Return a class or function of a runtime, by default of the selected one.

    Raises:
        AttributeError: the data plane has no such name.
        ConfigurationError: the native runtime is selected and its extension is missing; the pure
            one does not replace it, because it is many times slower.
    """
    kind = kind or runtime()
    try:
        module = _MODULES[kind][name]
    except KeyError:
        raise AttributeError(f"module 'penstock.network' has no attribute {name!r}") from None
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(("penstock._core", "penstock._native")):
            raise
        raise ConfigurationError(
            f"the extension {error.name} of the native data plane is not installed; build it "
            "with 'make develop', or set PENSTOCK_RUNTIME=pure for the slower pure runtime"
        ) from error
