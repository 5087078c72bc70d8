"""Connectors: sources and sinks."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.connectors.base import DeliveryGuarantee, Sink, Source
    from penstock.connectors.committer import (
        CommitRequest,
        CommittableSummary,
        CommittableWithLineage,
        Committer,
        CommitterInitContext,
        SupportsCommitter,
        SupportsGlobalCommitter,
        SupportsPreCommitTopology,
    )
    from penstock.connectors.discard import DiscardingSink
    from penstock.connectors.split_source import (
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
    from penstock.connectors.writer_sink import (
        CommittingSinkWriter,
        PythonSink,
        SinkWriter,
        StatefulSinkWriter,
        SupportsWriterState,
        WriterInitContext,
    )
    from penstock.datastream.connectors.data_generator import (
        DataGeneratorSource as DataGeneratorSource,
    )
    from penstock.datastream.connectors.data_generator import (
        GeneratorFunction as GeneratorFunction,
    )
    from penstock.datastream.connectors.data_generator import (
        RateLimiterStrategy as RateLimiterStrategy,
    )
    from penstock.datastream.connectors.dynamic_kafka import (
        DynamicKafkaSource as DynamicKafkaSource,
    )
    from penstock.datastream.connectors.dynamic_kafka import (
        DynamicKafkaSourceBuilder as DynamicKafkaSourceBuilder,
    )
    from penstock.datastream.connectors.dynamic_kafka import (
        KafkaMetadataService as KafkaMetadataService,
    )
    from penstock.datastream.connectors.dynamic_kafka import (
        KafkaRecordDeserializationSchema as KafkaRecordDeserializationSchema,
    )
    from penstock.datastream.connectors.dynamic_kafka import (
        KafkaStreamSetSubscriber as KafkaStreamSetSubscriber,
    )
    from penstock.datastream.connectors.dynamic_kafka import (
        KafkaStreamSubscriber as KafkaStreamSubscriber,
    )
    from penstock.datastream.connectors.dynamic_kafka import (
        SingleClusterTopicMetadataService as SingleClusterTopicMetadataService,
    )
    from penstock.datastream.connectors.dynamic_kafka import (
        StreamPatternSubscriber as StreamPatternSubscriber,
    )
    from penstock.datastream.connectors.file_system import (
        BucketAssigner as BucketAssigner,
    )
    from penstock.datastream.connectors.file_system import (
        DefaultRollingPolicy,
        FileEnumeratorProvider,
        FileSink,
        FileSource,
        FileSourceBuilder,
        FileSplitAssignerProvider,
        OutputFileConfig,
        RollingPolicy,
        StreamFormat,
        StreamingFileSink,
    )
    from penstock.datastream.connectors.jdbc import (
        JdbcConnectionOptions,
        JdbcExecutionOptions,
        JdbcSink,
    )
    from penstock.datastream.connectors.kafka import (
        FlinkKafkaConsumer,
        FlinkKafkaProducer,
    )
    from penstock.datastream.connectors.kafka import (
        KafkaSource as KafkaSource,
    )
    from penstock.datastream.connectors.kafka import (
        Semantic as Semantic,
    )
    from penstock.datastream.connectors.number_seq import (
        NumberSequenceSource,
    )
    from penstock.datastream.connectors.pulsar import (
        PulsarSource,
        PulsarSourceBuilder,
        StartCursor,
        StopCursor,
    )
    from penstock.datastream.connectors.rabbitmq import (
        RMQConnectionConfig,
        RMQSink,
        RMQSource,
    )

__all__ = [
    "Boundedness",
    "CommitRequest",
    "CommittableSummary",
    "CommittableWithLineage",
    "Committer",
    "CommitterInitContext",
    "CommittingSinkWriter",
    "DefaultRollingPolicy",
    "DeliveryGuarantee",
    "DiscardingSink",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "InputStatus",
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "NumberSequenceSource",
    "OutputFileConfig",
    "PulsarSource",
    "PulsarSourceBuilder",
    "PythonSink",
    "PythonSource",
    "RMQConnectionConfig",
    "RMQSink",
    "RMQSource",
    "ReaderInfo",
    "ReaderOutput",
    "RollingPolicy",
    "Sink",
    "SinkWriter",
    "Source",
    "SourceOutput",
    "SourceReader",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "StartCursor",
    "StatefulSinkWriter",
    "StopCursor",
    "StreamFormat",
    "StreamingFileSink",
    "SupportsCommitter",
    "SupportsGlobalCommitter",
    "SupportsPreCommitTopology",
    "SupportsWriterState",
    "WriterInitContext",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Boundedness": "penstock.connectors.split_source",
        "CommitRequest": "penstock.connectors.committer",
        "CommittableSummary": "penstock.connectors.committer",
        "CommittableWithLineage": "penstock.connectors.committer",
        "Committer": "penstock.connectors.committer",
        "CommitterInitContext": "penstock.connectors.committer",
        "CommittingSinkWriter": "penstock.connectors.writer_sink",
        "DeliveryGuarantee": "penstock.connectors.base",
        "DiscardingSink": "penstock.connectors.discard",
        "InputStatus": "penstock.connectors.split_source",
        "PythonSink": "penstock.connectors.writer_sink",
        "PythonSource": "penstock.connectors.split_source",
        "ReaderInfo": "penstock.connectors.split_source",
        "ReaderOutput": "penstock.connectors.split_source",
        "Sink": "penstock.connectors.base",
        "SinkWriter": "penstock.connectors.writer_sink",
        "Source": "penstock.connectors.base",
        "SourceOutput": "penstock.connectors.split_source",
        "SourceReader": "penstock.connectors.split_source",
        "SourceReaderContext": "penstock.connectors.split_source",
        "SourceSplit": "penstock.connectors.split_source",
        "SplitEnumerator": "penstock.connectors.split_source",
        "SplitEnumeratorContext": "penstock.connectors.split_source",
        "StatefulSinkWriter": "penstock.connectors.writer_sink",
        "SupportsCommitter": "penstock.connectors.committer",
        "SupportsGlobalCommitter": "penstock.connectors.committer",
        "SupportsPreCommitTopology": "penstock.connectors.committer",
        "SupportsWriterState": "penstock.connectors.writer_sink",
        "WriterInitContext": "penstock.connectors.writer_sink",
        # Where programs of older PyFlink import them from.
        "BucketAssigner": "file_system",
        "DataGeneratorSource": "data_generator",
        "DynamicKafkaSource": "dynamic_kafka",
        "DynamicKafkaSourceBuilder": "dynamic_kafka",
        "FileEnumeratorProvider": "file_system",
        "FileSink": "file_system",
        "FileSource": "file_system",
        "FileSourceBuilder": "file_system",
        "FileSplitAssignerProvider": "file_system",
        "FlinkKafkaConsumer": "kafka",
        "FlinkKafkaConsumer010": "penstock.flink_1",
        "FlinkKafkaConsumer011": "penstock.flink_1",
        "FlinkKafkaProducer": "kafka",
        "FlinkKafkaProducer010": "penstock.flink_1",
        "FlinkKafkaProducer011": "penstock.flink_1",
        "DefaultRollingPolicy": "file_system",
        "JdbcConnectionOptions": "jdbc",
        "JdbcExecutionOptions": "jdbc",
        "JdbcSink": "jdbc",
        "GeneratorFunction": "data_generator",
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
        "RateLimiterStrategy": "data_generator",
        "RollingPolicy": "file_system",
        "Semantic": "kafka",
        "SingleClusterTopicMetadataService": "dynamic_kafka",
        "StartCursor": "pulsar",
        "StopCursor": "pulsar",
        "StreamFormat": "file_system",
        "StreamPatternSubscriber": "dynamic_kafka",
        "StreamingFileSink": "file_system",
    },
    (
        "base",
        "cassandra",
        "dynamic_kafka",
        "elasticsearch",
        "file_system",
        "hybrid_source",
        "jdbc",
        "kafka",
        "kinesis",
        "number_seq",
        "pulsar",
        "rabbitmq",
    ),
)
