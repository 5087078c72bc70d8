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
        BulkFormat,
        FileEnumeratorProvider,
        FileSource,
        FileSourceBuilder,
        FileSplitAssignerProvider,
        StreamFormat,
    )
    from penstock.datastream.connectors.file_system.streaming_sink import StreamingFileSink

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
        "BulkFormat": "source",
        "FileEnumeratorProvider": "source",
        "FileSource": "source",
        "FileSourceBuilder": "source",
        "FileSplitAssignerProvider": "source",
        "StreamFormat": "source",
    },
)
