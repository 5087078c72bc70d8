"""The DataStream API, with PyFlink's names.

The names are resolved on first use: a TaskExecutor imports the functions below this package
without the builders of programs.
"""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.datastream.async_data_stream import (
        AsyncDataStream,
    )
    from penstock.datastream.checkpoint_config import (
        CheckpointConfig,
    )
    from penstock.datastream.checkpoint_storage import (
        CheckpointStorage,
        CustomCheckpointStorage,
        FileSystemCheckpointStorage,
        JobManagerCheckpointStorage,
    )
    from penstock.datastream.checkpointing_mode import (
        CheckpointingMode,
    )
    from penstock.datastream.data_stream import (
        BroadcastConnectedStream,
        BroadcastStream,
        ConnectedStreams,
        DataStream,
        DataStreamSink,
        KeyedStream,
        MultipleConnectedStreams,
        WindowedStream,
    )
    from penstock.datastream.execution_mode import (
        RuntimeExecutionMode,
    )
    from penstock.datastream.externalized_checkpoint_retention import (
        ExternalizedCheckpointRetention,
    )
    from penstock.datastream.functions import (
        AggregateFunction,
        AsyncFunction,
        AsyncRetryPredicate,
        AsyncRetryStrategy,
        BroadcastProcessFunction,
        CoFlatMapFunction,
        CoMapFunction,
        CoProcessFunction,
        FilterFunction,
        FlatMapFunction,
        KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction,
        KeyedMultipleInputProcessFunction,
        KeyedProcessFunction,
        KeySelector,
        MapFunction,
        MultipleInputProcessFunction,
        Partitioner,
        ProcessFunction,
        ProcessWindowFunction,
        ReduceFunction,
        RuntimeContext,
        SinkFunction,
        SourceFunction,
        WindowFunction,
    )
    from penstock.datastream.output_tag import (
        OutputTag,
    )
    from penstock.datastream.slot_sharing_group import (
        MemorySize,
        SlotSharingGroup,
    )
    from penstock.datastream.state_backend import (
        CustomStateBackend,
        EmbeddedRocksDBStateBackend,
        HashMapStateBackend,
        PredefinedOptions,
        StateBackend,
    )
    from penstock.datastream.stream_execution_environment import (
        StreamExecutionEnvironment,
    )
    from penstock.datastream.time_domain import (
        TimeDomain,
    )
    from penstock.datastream.timerservice import (
        TimerService,
    )
    from penstock.datastream.window import (
        CountWindow,
        GlobalWindow,
        MergingWindowAssigner,
        TimeWindow,
        Trigger,
        TriggerResult,
        Window,
        WindowAssigner,
    )

__all__ = [
    "AggregateFunction",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatMapFunction",
    "GlobalWindow",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedMultipleInputProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MemorySize",
    "MergingWindowAssigner",
    "MultipleConnectedStreams",
    "MultipleInputProcessFunction",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RemoteStreamEnvironment",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AsyncDataStream": "async_data_stream",
        "CheckpointConfig": "checkpoint_config",
        "CheckpointStorage": "checkpoint_storage",
        "CustomCheckpointStorage": "checkpoint_storage",
        "FileSystemCheckpointStorage": "checkpoint_storage",
        "JobManagerCheckpointStorage": "checkpoint_storage",
        "CheckpointingMode": "checkpointing_mode",
        "BroadcastConnectedStream": "data_stream",
        "BroadcastStream": "data_stream",
        "ConnectedStreams": "data_stream",
        "MultipleConnectedStreams": "data_stream",
        "DataStream": "data_stream",
        "DataStreamSink": "data_stream",
        "KeyedStream": "data_stream",
        "WindowedStream": "data_stream",
        "RuntimeExecutionMode": "execution_mode",
        "ExternalizedCheckpointRetention": "externalized_checkpoint_retention",
        "AggregateFunction": "functions",
        "AsyncFunction": "functions",
        "AsyncRetryPredicate": "functions",
        "AsyncRetryStrategy": "functions",
        "BroadcastProcessFunction": "functions",
        "CoFlatMapFunction": "functions",
        "CoMapFunction": "functions",
        "CoProcessFunction": "functions",
        "FilterFunction": "functions",
        "FlatMapFunction": "functions",
        "KeySelector": "functions",
        "KeyedBroadcastProcessFunction": "functions",
        "KeyedCoProcessFunction": "functions",
        "KeyedMultipleInputProcessFunction": "functions",
        "MultipleInputProcessFunction": "functions",
        "KeyedProcessFunction": "functions",
        "MapFunction": "functions",
        "Partitioner": "functions",
        "ProcessFunction": "functions",
        "ProcessWindowFunction": "functions",
        "ReduceFunction": "functions",
        "RuntimeContext": "functions",
        "SinkFunction": "functions",
        "SourceFunction": "functions",
        "WindowFunction": "functions",
        "OutputTag": "output_tag",
        "MemorySize": "slot_sharing_group",
        "RemoteStreamEnvironment": "remote_stream_environment",
        "SlotSharingGroup": "slot_sharing_group",
        "CustomStateBackend": "state_backend",
        "EmbeddedRocksDBStateBackend": "state_backend",
        "HashMapStateBackend": "state_backend",
        "PredefinedOptions": "state_backend",
        "StateBackend": "state_backend",
        "StreamExecutionEnvironment": "stream_execution_environment",
        "TimeDomain": "time_domain",
        "TimerService": "timerservice",
        "CountWindow": "window",
        "GlobalWindow": "window",
        "MergingWindowAssigner": "window",
        "TimeWindow": "window",
        "Trigger": "window",
        "TriggerResult": "window",
        "Window": "window",
        "WindowAssigner": "window",
    },
)
