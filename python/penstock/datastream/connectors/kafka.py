"""Kafka: source and sink; needs the extra ``penstock-engine[kafka]``."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.connectors.kafka.deserialization import KafkaRecordDeserializationSchema
    from penstock.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
    from penstock.connectors.kafka.partitions import KafkaTopicPartition
    from penstock.connectors.kafka.serialization import (
        KafkaProducerRecord,
        KafkaRecordSerializationSchema,
        KafkaRecordSerializationSchemaBuilder,
        KafkaTopicSelector,
    )
    from penstock.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
    from penstock.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
    from penstock.flink_1.kafka import FlinkKafkaConsumer, FlinkKafkaProducer, Semantic

__all__ = [
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaProducerRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "FlinkKafkaConsumer": "penstock.flink_1",
        "FlinkKafkaProducer": "penstock.flink_1",
        "KafkaOffsetResetStrategy": "penstock.connectors.kafka.offsets",
        "KafkaOffsetsInitializer": "penstock.connectors.kafka.offsets",
        "KafkaProducerRecord": "penstock.connectors.kafka.serialization",
        "KafkaRecordDeserializationSchema": "penstock.connectors.kafka.deserialization",
        "KafkaRecordSerializationSchema": "penstock.connectors.kafka.serialization",
        "KafkaRecordSerializationSchemaBuilder": "penstock.connectors.kafka.serialization",
        "KafkaSink": "penstock.connectors.kafka.sink",
        "KafkaSinkBuilder": "penstock.connectors.kafka.sink",
        "KafkaSource": "penstock.connectors.kafka.source",
        "KafkaSourceBuilder": "penstock.connectors.kafka.source",
        "KafkaTopicPartition": "penstock.connectors.kafka.partitions",
        "KafkaTopicSelector": "penstock.connectors.kafka.serialization",
        "Semantic": "penstock.flink_1",
        "FlinkKafkaConsumerBase": "penstock.flink_1",
        "FlinkKafkaProducerBase": "penstock.flink_1",
        # Where PyFlink's module of that name has them, too.
        "StreamTransformer": "penstock.connectors.base",
        "SupportsPreprocessing": "penstock.connectors.base",
        "typeinfo": "penstock.common",
        "DeliveryGuarantee": "penstock.connectors.base",
        "DeserializationSchema": "penstock.common.serialization",
        "Row": "penstock.common.types",
        "SerializationSchema": "penstock.common.serialization",
        "Sink": "penstock.connectors.base",
        "SinkFunction": "penstock.datastream.functions",
        "Source": "penstock.connectors.base",
        "SourceFunction": "penstock.datastream.functions",
        "TypeInformation": "penstock.common.typeinfo",
        "Types": "penstock.common.typeinfo",
    },
)
