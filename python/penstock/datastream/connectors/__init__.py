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
    },
)
