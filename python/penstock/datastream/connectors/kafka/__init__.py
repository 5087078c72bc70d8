"""Kafka as source and sink; needs the extra ``penstock[kafka]``."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.datastream.connectors.kafka.deserialization import (
        KafkaRecordDeserializationSchema,
    )
    from penstock.datastream.connectors.kafka.offsets import (
        KafkaOffsetResetStrategy,
        KafkaOffsetsInitializer,
    )
    from penstock.datastream.connectors.kafka.partitions import KafkaTopicPartition
    from penstock.datastream.connectors.kafka.serialization import (
        KafkaProducerRecord,
        KafkaRecordSerializationSchema,
        KafkaRecordSerializationSchemaBuilder,
        KafkaTopicSelector,
    )
    from penstock.datastream.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
    from penstock.datastream.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
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
        "KafkaOffsetResetStrategy": "offsets",
        "KafkaOffsetsInitializer": "offsets",
        "KafkaProducerRecord": "serialization",
        "KafkaRecordDeserializationSchema": "deserialization",
        "KafkaRecordSerializationSchema": "serialization",
        "KafkaRecordSerializationSchemaBuilder": "serialization",
        "KafkaSink": "sink",
        "KafkaSinkBuilder": "sink",
        "KafkaSource": "source",
        "KafkaSourceBuilder": "source",
        "KafkaTopicPartition": "partitions",
        "KafkaTopicSelector": "serialization",
        "Semantic": "penstock.flink_1",
        "FlinkKafkaConsumerBase": "penstock.flink_1",
        "FlinkKafkaProducerBase": "penstock.flink_1",
        # Where PyFlink's module of that name has them, too.
        "StreamTransformer": "penstock.datastream.connectors.base",
        "SupportsPreprocessing": "penstock.datastream.connectors.base",
        "typeinfo": "penstock.common",
        "DeliveryGuarantee": "penstock.datastream.connectors.base",
        "DeserializationSchema": "penstock.common.serialization",
        "Row": "penstock.common.types",
        "SerializationSchema": "penstock.common.serialization",
        "Sink": "penstock.datastream.connectors.base",
        "SinkFunction": "penstock.datastream.functions",
        "Source": "penstock.datastream.connectors.base",
        "SourceFunction": "penstock.datastream.functions",
        "TypeInformation": "penstock.common.typeinfo",
        "Types": "penstock.common.typeinfo",
    },
)
