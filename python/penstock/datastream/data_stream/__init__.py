"""Streams: the objects from which a program is built."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.datastream.data_stream.collect import (
        CloseableIterator,
    )
    from penstock.datastream.data_stream.connected import (
        BroadcastConnectedStream,
        ConnectedStreams,
    )
    from penstock.datastream.data_stream.join_functions import (
        JoinContext,
    )
    from penstock.datastream.data_stream.keyed import (
        CachedDataStream,
        KeyedStream,
    )
    from penstock.datastream.data_stream.multiple_connected import (
        MultipleConnectedStreams,
    )
    from penstock.datastream.data_stream.partition_windowed import (
        Order,
    )
    from penstock.datastream.data_stream.partitioning import BroadcastStream
    from penstock.datastream.data_stream.sink import (
        DataStreamSink,
    )
    from penstock.datastream.data_stream.stream import (
        DataStream,
    )
    from penstock.datastream.data_stream.window_settings import (
        WINDOW_STATE_NAME,
    )
    from penstock.datastream.data_stream.windowed import (
        AllWindowedStream,
        PartitionWindowedStream,
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
    "JoinContext",
    "KeyedStream",
    "MultipleConnectedStreams",
    "Order",
    "PartitionWindowedStream",
    "WindowedStream",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BroadcastConnectedStream": "connected",
        "BroadcastStream": "partitioning",
        "CachedDataStream": "keyed",
        "CloseableIterator": "collect",
        "ConnectedStreams": "connected",
        "JoinContext": "join_functions",
        "KeyedStream": "keyed",
        "MultipleConnectedStreams": "multiple_connected",
        "Order": "partition_windowed",
        "PartitionWindowedStream": "windowed",
        "DataStreamSink": "sink",
        "DataStream": "stream",
        "WINDOW_STATE_NAME": "window_settings",
        "AllWindowedStream": "windowed",
        "WindowedStream": "windowed",
        # Where PyFlink's module of that name has them, too.
        "typeinfo": "penstock.common",
        "AggregateFunction": "penstock.datastream.functions",
        "AggregatingStateDescriptor": "penstock.datastream.state",
        "AllWindowFunction": "penstock.datastream.functions",
        "AsyncFunctionDescriptor": "penstock.datastream.functions",
        "BroadcastProcessFunction": "penstock.datastream.functions",
        "CoFlatMapFunction": "penstock.datastream.functions",
        "CoMapFunction": "penstock.datastream.functions",
        "CoProcessFunction": "penstock.datastream.functions",
        "CountSlidingWindowAssigner": "penstock.datastream.window",
        "CountTumblingWindowAssigner": "penstock.datastream.window",
        "CountWindowSerializer": "penstock.datastream.window",
        "ExecutionConfig": "penstock.common.execution_config",
        "FilterFunction": "penstock.datastream.functions",
        "FlatMapFunction": "penstock.datastream.functions",
        "Function": "penstock.datastream.functions",
        "GlobalWindowSerializer": "penstock.datastream.window",
        "KeySelector": "penstock.datastream.functions",
        "KeyedBroadcastProcessFunction": "penstock.datastream.functions",
        "KeyedCoProcessFunction": "penstock.datastream.functions",
        "KeyedProcessFunction": "penstock.datastream.functions",
        "ListStateDescriptor": "penstock.datastream.state",
        "MapFunction": "penstock.datastream.functions",
        "MapStateDescriptor": "penstock.datastream.state",
        "MergingWindowAssigner": "penstock.datastream.window",
        "NullByteKeySelector": "penstock.datastream.functions",
        "OutputTag": "penstock.datastream.output_tag",
        "Partitioner": "penstock.datastream.functions",
        "ProcessAllWindowFunction": "penstock.datastream.functions",
        "ProcessFunction": "penstock.datastream.functions",
        "ProcessWindowFunction": "penstock.datastream.functions",
        "ReduceFunction": "penstock.datastream.functions",
        "ReducingState": "penstock.datastream.state",
        "ReducingStateDescriptor": "penstock.datastream.state",
        "Row": "penstock.common.types",
        "RowTypeInfo": "penstock.common.typeinfo",
        "RuntimeContext": "penstock.datastream.functions",
        "Sink": "penstock.connectors.base",
        "SinkFunction": "penstock.datastream.functions",
        "SlotSharingGroup": "penstock.datastream.slot_sharing_group",
        "StateDescriptor": "penstock.datastream.state",
        "TimeWindowSerializer": "penstock.datastream.window",
        "TimestampAssigner": "penstock.common.watermark_strategy",
        "Trigger": "penstock.datastream.window",
        "TypeInformation": "penstock.common.typeinfo",
        "Types": "penstock.common.typeinfo",
        "WatermarkStrategy": "penstock.common.watermark_strategy",
        "WindowAssigner": "penstock.datastream.window",
        "WindowFunction": "penstock.datastream.functions",
        "WindowOperationDescriptor": "penstock.datastream.window",
        "convert_to_python_obj": "penstock.datastream.utils",
    },
)
