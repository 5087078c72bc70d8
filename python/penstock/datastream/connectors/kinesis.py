"""Kinesis: PyFlink's classes wrap a Java library and are refused here."""

from penstock.common.serialization import DeserializationSchema as DeserializationSchema
from penstock.common.serialization import SerializationSchema as SerializationSchema
from penstock.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper as AssignerWithPeriodicWatermarksWrapper,
)
from penstock.connectors.base import Sink as Sink
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

_INSTEAD = "write a SourceFunction or SinkFunction with the boto3 package"

FlinkKinesisConsumer = refused_class("FlinkKinesisConsumer", _INSTEAD)
KinesisDeserializationSchema = refused_class("KinesisDeserializationSchema", _INSTEAD)
KinesisFirehoseSink = refused_class("KinesisFirehoseSink", _INSTEAD)
KinesisFirehoseSinkBuilder = refused_class("KinesisFirehoseSinkBuilder", _INSTEAD)
KinesisShardAssigner = refused_class("KinesisShardAssigner", _INSTEAD)
KinesisStreamsSink = refused_class("KinesisStreamsSink", _INSTEAD)
KinesisStreamsSinkBuilder = refused_class("KinesisStreamsSinkBuilder", _INSTEAD)
PartitionKeyGenerator = refused_class("PartitionKeyGenerator", _INSTEAD)
WatermarkTracker = refused_class("WatermarkTracker", _INSTEAD)
