"""Streams that several Kafka clusters have parts of; needs the extra ``penstock[kafka]``."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.datastream.connectors.dynamic_kafka.metadata import (
        ClusterMetadata,
        KafkaMetadataService,
        KafkaStream,
        KafkaStreamSetSubscriber,
        KafkaStreamSubscriber,
        SingleClusterTopicMetadataService,
        StreamPatternSubscriber,
    )
    from penstock.datastream.connectors.dynamic_kafka.source import (
        DynamicKafkaSource,
        DynamicKafkaSourceBuilder,
    )
    from penstock.datastream.connectors.kafka.deserialization import (
        KafkaRecordDeserializationSchema,
    )

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
        "ClusterMetadata": "metadata",
        "DynamicKafkaSource": "source",
        "DynamicKafkaSourceBuilder": "source",
        "KafkaMetadataService": "metadata",
        "KafkaRecordDeserializationSchema": "penstock.datastream.connectors.kafka.deserialization",
        "KafkaStream": "metadata",
        "KafkaStreamSetSubscriber": "metadata",
        "KafkaStreamSubscriber": "metadata",
        "SingleClusterTopicMetadataService": "metadata",
        "StreamPatternSubscriber": "metadata",
        # Where PyFlink's module of that name has them, too.
        "DeserializationSchema": "penstock.common.serialization",
        "KafkaOffsetsInitializer": "penstock.datastream.connectors.kafka",
        "Source": "penstock.datastream.connectors.base",
    },
)
