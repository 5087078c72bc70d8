"""Files as sources and sinks."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.datastream.connectors.file_system.buckets import (
        BucketAssigner,
        DefaultRollingPolicy,
        OnCheckpointRollingPolicy,
        OutputFileConfig,
        RollingPolicy,
    )
    from penstock.datastream.connectors.file_system.compaction import (
        FileCompactor,
        FileCompactStrategy,
    )
    from penstock.datastream.connectors.file_system.sink import (
        FileSink,
    )
    from penstock.datastream.connectors.file_system.source import (
        FileEnumeratorProvider,
        FileSource,
        FileSourceBuilder,
        FileSplitAssignerProvider,
    )
    from penstock.datastream.connectors.file_system.streaming_sink import StreamingFileSink
    from penstock.datastream.formats.file_format import BulkFormat
    from penstock.datastream.formats.lines import StreamFormat

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
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BucketAssigner": "buckets",
        "DefaultRollingPolicy": "buckets",
        "OnCheckpointRollingPolicy": "buckets",
        "OutputFileConfig": "buckets",
        "RollingPolicy": "buckets",
        "FileCompactor": "compaction",
        "FileCompactStrategy": "compaction",
        "FileSink": "sink",
        "StreamingFileSink": "streaming_sink",
        "BulkFormat": "penstock.datastream.formats.file_format",
        "FileEnumeratorProvider": "source",
        "FileSource": "source",
        "FileSourceBuilder": "source",
        "FileSplitAssignerProvider": "source",
        "StreamFormat": "penstock.datastream.formats.lines",
        # Where PyFlink's module of that name has them, too.
        "StreamTransformer": "penstock.datastream.connectors.base",
        "SupportsPreprocessing": "penstock.datastream.connectors.base",
        "RowDataBulkWriterFactory": "penstock.common.serialization",
        "BulkWriterFactory": "penstock.common.serialization",
        "Duration": "penstock.common.time",
        "Encoder": "penstock.common.serialization",
        "JavaObjectWrapper": "penstock.common.utils",
        "Sink": "penstock.datastream.connectors.base",
        "SinkFunction": "penstock.datastream.functions",
        "Source": "penstock.datastream.connectors.base",
    },
)
