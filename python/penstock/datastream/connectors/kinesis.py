"""Kinesis Data Streams as source and sink, and Firehose as a sink, with PyFlink's names."""

from penstock.common.serialization import DeserializationSchema as DeserializationSchema
from penstock.common.serialization import SerializationSchema as SerializationSchema
from penstock.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper as AssignerWithPeriodicWatermarksWrapper,
)
from penstock.connectors.base import Sink as Sink
from penstock.connectors.kinesis.shards import KinesisShardAssigner
from penstock.connectors.kinesis.sink import (
    KinesisFirehoseSink,
    KinesisFirehoseSinkBuilder,
    KinesisStreamsSink,
    KinesisStreamsSinkBuilder,
    PartitionKeyGenerator,
)
from penstock.connectors.kinesis.source import FlinkKinesisConsumer, KinesisDeserializationSchema
from penstock.datastream.functions.source_sink import SourceFunction as SourceFunction
from penstock.datastream.refused import refused_class

__all__ = [
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "PartitionKeyGenerator",
    "WatermarkTracker",
]

WatermarkTracker = refused_class(
    "WatermarkTracker", "use WatermarkStrategy.with_watermark_alignment"
)
