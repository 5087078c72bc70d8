"""Kafka: PyFlink's classes wrap a Java library and are refused here."""

from penstock.datastream.refused import refused_class

__all__ = [
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
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

_INSTEAD = "write a SourceFunction or SinkFunction with the confluent-kafka package"

FlinkKafkaConsumer = refused_class("FlinkKafkaConsumer", _INSTEAD)
FlinkKafkaProducer = refused_class("FlinkKafkaProducer", _INSTEAD)
KafkaOffsetResetStrategy = refused_class("KafkaOffsetResetStrategy", _INSTEAD)
KafkaOffsetsInitializer = refused_class("KafkaOffsetsInitializer", _INSTEAD)
KafkaRecordSerializationSchema = refused_class("KafkaRecordSerializationSchema", _INSTEAD)
KafkaRecordSerializationSchemaBuilder = refused_class(
    "KafkaRecordSerializationSchemaBuilder", _INSTEAD
)
KafkaSink = refused_class("KafkaSink", _INSTEAD)
KafkaSinkBuilder = refused_class("KafkaSinkBuilder", _INSTEAD)
KafkaSource = refused_class("KafkaSource", _INSTEAD)
KafkaSourceBuilder = refused_class("KafkaSourceBuilder", _INSTEAD)
KafkaTopicPartition = refused_class("KafkaTopicPartition", _INSTEAD)
KafkaTopicSelector = refused_class("KafkaTopicSelector", _INSTEAD)
Semantic = refused_class("Semantic", _INSTEAD)
