"""Streams in several Kafka clusters; needs the extra ``penstock-engine[kafka]``."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.connectors.dynamic_kafka.metadata import (
        ClusterMetadata,
        KafkaMetadataService,
        KafkaStream,
        KafkaStreamSetSubscriber,
        KafkaStreamSubscriber,
        SingleClusterTopicMetadataService,
        StreamPatternSubscriber,
    )
    from penstock.connectors.dynamic_kafka.source import (
        DynamicKafkaSource,
        DynamicKafkaSourceBuilder,
    )
    from penstock.connectors.kafka.deserialization import KafkaRecordDeserializationSchema

__all__ = [
    "ClusterMetadata",
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "KafkaMetadataService",
    "KafkaRecordDeserializationSchema",
    "KafkaStream",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ClusterMetadata": "penstock.connectors.dynamic_kafka.metadata",
        "DynamicKafkaSource": "penstock.connectors.dynamic_kafka.source",
        "DynamicKafkaSourceBuilder": "penstock.connectors.dynamic_kafka.source",
        "KafkaMetadataService": "penstock.connectors.dynamic_kafka.metadata",
        "KafkaRecordDeserializationSchema": "penstock.connectors.kafka.deserialization",
        "KafkaStream": "penstock.connectors.dynamic_kafka.metadata",
        "KafkaStreamSetSubscriber": "penstock.connectors.dynamic_kafka.metadata",
        "KafkaStreamSubscriber": "penstock.connectors.dynamic_kafka.metadata",
        "SingleClusterTopicMetadataService": "penstock.connectors.dynamic_kafka.metadata",
        "StreamPatternSubscriber": "penstock.connectors.dynamic_kafka.metadata",
        # Where PyFlink's module of that name has them, too.
        "DeserializationSchema": "penstock.common.serialization",
        "KafkaOffsetsInitializer": "penstock.datastream.connectors.kafka",
        "Source": "penstock.connectors.base",
    },
)
