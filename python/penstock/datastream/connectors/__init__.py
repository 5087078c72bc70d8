"""Connectors: sources and sinks."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.datastream.connectors.base import (
        DeliveryGuarantee,
        Sink,
        Source,
    )
    from penstock.datastream.connectors.split_source import (
        Boundedness,
        InputStatus,
        PythonSource,
        ReaderInfo,
        ReaderOutput,
        SourceOutput,
        SourceReader,
        SourceReaderContext,
        SourceSplit,
        SplitEnumerator,
        SplitEnumeratorContext,
    )
    from penstock.datastream.connectors.writer_sink import (
        PythonSink,
        SinkWriter,
        WriterInitContext,
    )

__all__ = [
    "Boundedness",
    "DeliveryGuarantee",
    "InputStatus",
    "PythonSink",
    "PythonSource",
    "ReaderInfo",
    "ReaderOutput",
    "Sink",
    "SinkWriter",
    "Source",
    "SourceOutput",
    "SourceReader",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "WriterInitContext",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Boundedness": "split_source",
        "DeliveryGuarantee": "base",
        "InputStatus": "split_source",
        "PythonSink": "writer_sink",
        "PythonSource": "split_source",
        "ReaderInfo": "split_source",
        "ReaderOutput": "split_source",
        "Sink": "base",
        "SinkWriter": "writer_sink",
        "Source": "base",
        "SourceOutput": "split_source",
        "SourceReader": "split_source",
        "SourceReaderContext": "split_source",
        "SourceSplit": "split_source",
        "SplitEnumerator": "split_source",
        "SplitEnumeratorContext": "split_source",
        "WriterInitContext": "writer_sink",
        # Where programs of older PyFlink import them from.
        "BucketAssigner": "file_system",
        "DynamicKafkaSource": "dynamic_kafka",
        "DynamicKafkaSourceBuilder": "dynamic_kafka",
        "FileEnumeratorProvider": "file_system",
        "FileSink": "file_system",
        "FileSource": "file_system",
        "FileSourceBuilder": "file_system",
        "FileSplitAssignerProvider": "file_system",
        "FlinkKafkaConsumer": "kafka",
        "FlinkKafkaProducer": "kafka",
        "JdbcConnectionOptions": "jdbc",
        "JdbcExecutionOptions": "jdbc",
        "JdbcSink": "jdbc",
        "KafkaMetadataService": "dynamic_kafka",
        "KafkaRecordDeserializationSchema": "dynamic_kafka",
        "KafkaSource": "kafka",
        "KafkaStreamSetSubscriber": "dynamic_kafka",
        "KafkaStreamSubscriber": "dynamic_kafka",
        "NumberSequenceSource": "number_seq",
        "OutputFileConfig": "file_system",
        "PulsarSource": "pulsar",
        "PulsarSourceBuilder": "pulsar",
        "RMQConnectionConfig": "rabbitmq",
        "RMQSink": "rabbitmq",
        "RMQSource": "rabbitmq",
        "RollingPolicy": "file_system",
        "Semantic": "kafka",
        "SingleClusterTopicMetadataService": "dynamic_kafka",
        "StartCursor": "pulsar",
        "StopCursor": "pulsar",
        "StreamFormat": "file_system",
        "StreamPatternSubscriber": "dynamic_kafka",
        "StreamingFileSink": "file_system",
    },
)
