"""Streams: what a program is built of."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.datastream.data_stream.broadcast import (
        BroadcastConnectedStream,
        BroadcastStream,
    )
    from penstock.datastream.data_stream.cached import (
        CachedDataStream,
    )
    from penstock.datastream.data_stream.collect import (
        CloseableIterator,
    )
    from penstock.datastream.data_stream.connected import (
        ConnectedStreams,
    )
    from penstock.datastream.data_stream.keyed import (
        KeyedStream,
    )
    from penstock.datastream.data_stream.multiple_connected import (
        MultipleConnectedStreams,
    )
    from penstock.datastream.data_stream.sink import (
        DataStreamSink,
    )
    from penstock.datastream.data_stream.stream import (
        DataStream,
    )
    from penstock.datastream.data_stream.windowed import (
        WINDOW_STATE_NAME,
        AllWindowedStream,
        WindowedStream,
    )

__all__ = [
    "WINDOW_STATE_NAME",
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "MultipleConnectedStreams",
    "WindowedStream",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BroadcastConnectedStream": "broadcast",
        "BroadcastStream": "broadcast",
        "CachedDataStream": "cached",
        "CloseableIterator": "collect",
        "ConnectedStreams": "connected",
        "KeyedStream": "keyed",
        "MultipleConnectedStreams": "multiple_connected",
        "DataStreamSink": "sink",
        "DataStream": "stream",
        "WINDOW_STATE_NAME": "windowed",
        "AllWindowedStream": "windowed",
        "WindowedStream": "windowed",
    },
)
