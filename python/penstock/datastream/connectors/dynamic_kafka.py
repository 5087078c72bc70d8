"""Dynamic Kafka: PyFlink's classes wrap a Java library and are refused here."""

from penstock.datastream.refused import refused_class

__all__ = [
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "KafkaMetadataService",
    "KafkaRecordDeserializationSchema",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
]

_INSTEAD = "write a SourceFunction with the confluent-kafka package"

DynamicKafkaSource = refused_class("DynamicKafkaSource", _INSTEAD)
DynamicKafkaSourceBuilder = refused_class("DynamicKafkaSourceBuilder", _INSTEAD)
KafkaMetadataService = refused_class("KafkaMetadataService", _INSTEAD)
KafkaRecordDeserializationSchema = refused_class("KafkaRecordDeserializationSchema", _INSTEAD)
KafkaStreamSetSubscriber = refused_class("KafkaStreamSetSubscriber", _INSTEAD)
KafkaStreamSubscriber = refused_class("KafkaStreamSubscriber", _INSTEAD)
SingleClusterTopicMetadataService = refused_class("SingleClusterTopicMetadataService", _INSTEAD)
StreamPatternSubscriber = refused_class("StreamPatternSubscriber", _INSTEAD)
