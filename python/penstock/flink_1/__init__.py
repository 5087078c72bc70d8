"""Names of PyFlink 1 that PyFlink 2 removed, built on their replacements.

A name is imported when a program accesses it, and its replacement is logged once.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any, Final

logger = logging.getLogger(__name__)

_SOURCE: Final = "KafkaSource, by KafkaSource.builder()"
_SINK: Final = "KafkaSink, by KafkaSink.builder()"

_NAMES: Final = {
    "AvroRowDeserializationSchema": ("penstock.datastream.formats.avro", ""),
    "AvroRowSerializationSchema": ("penstock.datastream.formats.avro", ""),
    "BatchTableEnvironment": (
        "penstock.flink_1.batch_table_environment",
        "TableEnvironment.create(EnvironmentSettings.in_batch_mode())",
    ),
    "CsvRowDeserializationSchema": ("penstock.datastream.formats.csv", ""),
    "CsvRowSerializationSchema": ("penstock.datastream.formats.csv", ""),
    **dict.fromkeys(
        ("CsvTableSink", "CsvTableSource", "TableSink", "TableSource", "WriteMode"),
        ("penstock.flink_1.table_sources", ""),
    ),
    "ExecutionMode": ("penstock.flink_1.execution_mode", "RuntimeExecutionMode"),
    "ExternalizedCheckpointCleanup": (
        "penstock.flink_1.checkpoints",
        "ExternalizedCheckpointRetention",
    ),
    "FlinkKafkaConsumer": ("penstock.flink_1.kafka", _SOURCE),
    "FlinkKafkaConsumer010": ("penstock.flink_1.kafka", _SOURCE),
    "FlinkKafkaConsumer011": ("penstock.flink_1.kafka", _SOURCE),
    "FlinkKafkaConsumerBase": ("penstock.flink_1.kafka", _SOURCE),
    "FlinkKafkaProducer": ("penstock.flink_1.kafka", _SINK),
    "FlinkKafkaProducer010": ("penstock.flink_1.kafka", _SINK),
    "FlinkKafkaProducer011": ("penstock.flink_1.kafka", _SINK),
    "FlinkKafkaProducerBase": ("penstock.flink_1.kafka", _SINK),
    "FsStateBackend": (
        "penstock.flink_1.state_backends",
        "HashMapStateBackend, and the option execution.checkpointing.dir",
    ),
    "JsonRowDeserializationSchema": ("penstock.datastream.formats.json", ""),
    "JsonRowSerializationSchema": ("penstock.datastream.formats.json", ""),
    "MemoryStateBackend": ("penstock.flink_1.state_backends", "HashMapStateBackend"),
    "RocksDBStateBackend": (
        "penstock.flink_1.state_backends",
        "EmbeddedRocksDBStateBackend, and the option execution.checkpointing.dir",
    ),
    "Semantic": ("penstock.flink_1.kafka", "DeliveryGuarantee"),
    "SimpleStringEncoder": ("penstock.flink_1.files", "Encoder.simple_string_encoder()"),
    "TimeCharacteristic": (
        "penstock.flink_1.time_characteristic",
        "",
    ),
}
"""The module of each name, and its replacement."""

_said: set[str] = set()


def say_once(name: str, instead: str) -> None:
    """Log once that a name is of Flink 1, and its replacement.

    Args:
        name: The name as programs write it.
        instead: The replacement, as a clause.
    """
    if name not in _said:
        _said.add(name)
        logger.warning("%s is of Flink 1 and deprecated: %s", name, instead)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, instead = _NAMES[name]
    if instead:
        say_once(name, f"use {instead}")
    elif not module.startswith(__name__):
        say_once(name, f"import it from {module}")
    return getattr(import_module(module), name)
