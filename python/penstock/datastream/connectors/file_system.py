"""Files as sources and sinks."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.connectors.files.buckets import (
        BucketAssigner,
        DefaultRollingPolicy,
        OnCheckpointRollingPolicy,
        OutputFileConfig,
        RollingPolicy,
    )
    from penstock.connectors.files.compaction import FileCompactor, FileCompactStrategy
    from penstock.connectors.files.partition_commit import (
        PartitionCommitContext,
        PartitionCommitPolicy,
        PartitionCommitTrigger,
    )
    from penstock.connectors.files.sink import FileSink
    from penstock.connectors.files.source import (
        FileEnumeratorProvider,
        FileSource,
        FileSourceBuilder,
        FileSplitAssignerProvider,
    )
    from penstock.connectors.files.streaming_sink import StreamingFileSink
    from penstock.formats.file_format import BulkFormat
    from penstock.formats.lines import StreamFormat

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "PartitionCommitContext",
    "PartitionCommitPolicy",
    "PartitionCommitTrigger",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BucketAssigner": "penstock.connectors.files.buckets",
        "DefaultRollingPolicy": "penstock.connectors.files.buckets",
        "OnCheckpointRollingPolicy": "penstock.connectors.files.buckets",
        "OutputFileConfig": "penstock.connectors.files.buckets",
        "RollingPolicy": "penstock.connectors.files.buckets",
        "FileCompactor": "penstock.connectors.files.compaction",
        "FileCompactStrategy": "penstock.connectors.files.compaction",
        "PartitionCommitContext": "penstock.connectors.files.partition_commit",
        "PartitionCommitPolicy": "penstock.connectors.files.partition_commit",
        "PartitionCommitTrigger": "penstock.connectors.files.partition_commit",
        "FileSink": "penstock.connectors.files.sink",
        "StreamingFileSink": "penstock.connectors.files.streaming_sink",
        "BulkFormat": "penstock.formats.file_format",
        "FileEnumeratorProvider": "penstock.connectors.files.source",
        "FileSource": "penstock.connectors.files.source",
        "FileSourceBuilder": "penstock.connectors.files.source",
        "FileSplitAssignerProvider": "penstock.connectors.files.source",
        "StreamFormat": "penstock.formats.lines",
        # Where PyFlink's module of that name has them, too.
        "StreamTransformer": "penstock.connectors.base",
        "SupportsPreprocessing": "penstock.connectors.base",
        "RowDataBulkWriterFactory": "penstock.common.serialization",
        "BulkWriterFactory": "penstock.common.serialization",
        "Duration": "penstock.common.time",
        "Encoder": "penstock.common.serialization",
        "JavaObjectWrapper": "penstock.common.utils",
        "Sink": "penstock.connectors.base",
        "SinkFunction": "penstock.datastream.functions",
        "Source": "penstock.connectors.base",
    },
)
