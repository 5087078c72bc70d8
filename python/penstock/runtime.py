"""The selected runtime: native, or its twin in plain Python; and where the names of each are.

``PENSTOCK_RUNTIME`` selects ``native`` (the default) or ``pure``.  Nothing is imported before its
name is asked for, so that every room may ask; `penstock.network` is the facade of the data plane.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Final, Literal

from penstock.errors import ConfigurationError

Runtime = Literal["native", "pure"]

_SHARED: Final = {
    "BufferReader": "penstock.network.legacy.readers",
    "DeserializationResult": "penstock.network.legacy.spanning",
    "MutableRecordReader": "penstock.network.legacy.readers",
    "RecordReader": "penstock.network.legacy.readers",
    "SerializationResult": "penstock.network.legacy.spanning",
    "SpanningRecordSerializer": "penstock.network.legacy.spanning",
    "SpillingAdaptiveSpanningRecordDeserializer": "penstock.network.legacy.spanning",
    "codec_for": "penstock.serialization.codec",
}
"""Names that both runtimes share: written in Python, on top of theirs."""

_MODULES: Final[dict[Runtime, dict[str, str]]] = {
    "native": _SHARED
    | {
        "IOManager": "penstock._core",
        "InputGate": "penstock._core",
        "LocalBufferPool": "penstock._core",
        "MemorySegment": "penstock._core",
        "NetworkBufferPool": "penstock._core",
        "NetworkEnvironment": "penstock._core",
        "RecordDeserializer": "penstock._core",
        "RecordSerializer": "penstock._core",
        "RecordWriter": "penstock._native.record_writer",
        "ResultPartition": "penstock._core",
        "StreamInputProcessor": "penstock._native.input_processor",
        "ExactType": "penstock._native.keys",
        "KeyConversion": "penstock._native.keys",
        "KeyReader": "penstock._native.keys",
        "identity_of": "penstock._native.keys",
        "key_hash": "penstock._native.key_hash",
        "key_of": "penstock._native.keys",
        "make_selector": "penstock._native.channel_selector",
    },
    "pure": _SHARED
    | {
        "IOManager": "penstock.network.pure.memory.io_manager",
        "InputGate": "penstock.network.pure.gate.input_gate",
        "LocalBufferPool": "penstock.network.pure.memory.local_buffer_pool",
        "MemorySegment": "penstock.network.pure.memory.segment",
        "NetworkBufferPool": "penstock.network.pure.memory.network_buffer_pool",
        "NetworkEnvironment": "penstock.network.pure.environment",
        "RecordDeserializer": "penstock.network.pure.framing.deserializer",
        "RecordSerializer": "penstock.network.pure.framing.serializer",
        "RecordWriter": "penstock.network.pure.record_writer",
        "ResultPartition": "penstock.network.pure.partition.result_partition",
        "StreamInputProcessor": "penstock.network.pure.input_processor",
        "ExactType": "penstock.serialization.pure.keys",
        "KeyConversion": "penstock.serialization.pure.keys",
        "KeyReader": "penstock.serialization.pure.keys",
        "identity_of": "penstock.serialization.pure.keys",
        "key_hash": "penstock.serialization.pure.key_hash",
        "key_of": "penstock.serialization.pure.keys",
        "make_selector": "penstock.network.pure.channel_selector",
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
        ConfigurationError: the native runtime is wanted and its extension is missing; the pure
            one is never taken in its place, because it is many times slower.
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
