"""Base classes of user functions, and the contexts that they receive."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.datastream.async_retry_strategies import (
        AsyncRetryPredicate,
        AsyncRetryStrategy,
    )
    from penstock.datastream.functions.asynchronous import AsyncFunction, AsyncFunctionDescriptor
    from penstock.datastream.functions.basic import (
        AggregateFunction,
        CoFlatMapFunction,
        CoMapFunction,
        FilterFunction,
        FlatMapFunction,
        FoldFunction,
        KeySelector,
        MapFunction,
        NullByteKeySelector,
        Partitioner,
        ReduceFunction,
    )
    from penstock.datastream.functions.broadcast import (
        BaseBroadcastProcessFunction,
        BroadcastProcessFunction,
        KeyedBroadcastProcessFunction,
    )
    from penstock.datastream.functions.checkpointed import (
        CheckpointedFunction,
        CheckpointListener,
        FunctionInitializationContext,
        FunctionSnapshotContext,
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.datastream.functions.function import (
        Function,
    )
    from penstock.datastream.functions.join import (
        CoGroupFunction,
        FlatJoinFunction,
        JoinFunction,
        OutputSelector,
        ProcessJoinFunction,
    )
    from penstock.datastream.functions.multiple_input import (
        KeyedMultipleInputProcessFunction,
        MultipleInputProcessFunction,
    )
    from penstock.datastream.functions.partition import (
        MapPartitionFunction,
    )
    from penstock.datastream.functions.process import (
        CoProcessFunction,
        KeyedCoProcessFunction,
        KeyedProcessFunction,
        ProcessFunction,
    )
    from penstock.datastream.functions.runtime_context import (
        KeyedStateStore,
        RuntimeContext,
    )
    from penstock.datastream.functions.source_sink import (
        JavaFunctionWrapper,
        ParallelSourceFunction,
        SinkFunction,
        SourceFunction,
    )
    from penstock.datastream.functions.two_phase_commit import TwoPhaseCommitSinkFunction
    from penstock.datastream.functions.window import (
        AllWindowFunction,
        ProcessAllWindowFunction,
        ProcessWindowFunction,
        WindowFunction,
    )
    from penstock.datastream.functions.write_ahead import (
        CheckpointCommitter,
        GenericWriteAheadSink,
    )
    from penstock.datastream.timerservice import (
        TimerService,
    )

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CheckpointCommitter",
    "CheckpointListener",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "FoldFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "GenericWriteAheadSink",
    "JavaFunctionWrapper",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedMultipleInputProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "MapPartitionFunction",
    "MultipleInputProcessFunction",
    "NullByteKeySelector",
    "OutputSelector",
    "ParallelSourceFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "StateInitializationContext",
    "StateSnapshotContext",
    "TimerService",
    "TwoPhaseCommitSinkFunction",
    "WindowFunction",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CheckpointCommitter": "write_ahead",
        "GenericWriteAheadSink": "write_ahead",
        "TwoPhaseCommitSinkFunction": "two_phase_commit",
        "AsyncFunction": "asynchronous",
        "AsyncFunctionDescriptor": "asynchronous",
        "AsyncRetryPredicate": "penstock.datastream.async_retry_strategies",
        "AsyncRetryStrategy": "penstock.datastream.async_retry_strategies",
        "AggregateFunction": "basic",
        "CoFlatMapFunction": "basic",
        "CoMapFunction": "basic",
        "FilterFunction": "basic",
        "FlatMapFunction": "basic",
        "KeySelector": "basic",
        "MapFunction": "basic",
        "NullByteKeySelector": "basic",
        "Partitioner": "basic",
        "FoldFunction": "basic",
        "ReduceFunction": "basic",
        "BaseBroadcastProcessFunction": "broadcast",
        "BroadcastProcessFunction": "broadcast",
        "KeyedBroadcastProcessFunction": "broadcast",
        "CheckpointListener": "checkpointed",
        "CheckpointedFunction": "checkpointed",
        "FunctionInitializationContext": "checkpointed",
        "MapPartitionFunction": "partition",
        "FunctionSnapshotContext": "checkpointed",
        "StateInitializationContext": "checkpointed",
        "StateSnapshotContext": "checkpointed",
        "Function": "function",
        "CoGroupFunction": "join",
        "FlatJoinFunction": "join",
        "JoinFunction": "join",
        "OutputSelector": "join",
        "ProcessJoinFunction": "join",
        "CoProcessFunction": "process",
        "KeyedCoProcessFunction": "process",
        "KeyedMultipleInputProcessFunction": "multiple_input",
        "MultipleInputProcessFunction": "multiple_input",
        "KeyedProcessFunction": "process",
        "ProcessFunction": "process",
        "KeyedStateStore": "runtime_context",
        "RuntimeContext": "runtime_context",
        "JavaFunctionWrapper": "source_sink",
        "ParallelSourceFunction": "source_sink",
        "SinkFunction": "source_sink",
        "SourceFunction": "source_sink",
        "AllWindowFunction": "window",
        "ProcessAllWindowFunction": "window",
        "ProcessWindowFunction": "window",
        "WindowFunction": "window",
        "TimerService": "penstock.datastream.timerservice",
        # Where PyFlink's module of that name has them, too.
        "IN": "window",
        "IN1": "broadcast",
        "IN2": "broadcast",
        "KEY": "window",
        "OUT": "window",
        "W": "window",
        "W2": "window",
        "MetricGroup": "penstock.metrics.metricbase",
        "AggregatingState": "penstock.datastream.state",
        "AggregatingStateDescriptor": "penstock.datastream.state",
        "BroadcastState": "penstock.datastream.state",
        "FoldingState": "penstock.datastream.state",
        "FoldingStateDescriptor": "penstock.datastream.state",
        "ListState": "penstock.datastream.state",
        "ListStateDescriptor": "penstock.datastream.state",
        "MapState": "penstock.datastream.state",
        "MapStateDescriptor": "penstock.datastream.state",
        "ReadOnlyBroadcastState": "penstock.datastream.state",
        "ReducingState": "penstock.datastream.state",
        "ReducingStateDescriptor": "penstock.datastream.state",
        "TimeDomain": "penstock.datastream",
        "ValueState": "penstock.datastream.state",
        "ValueStateDescriptor": "penstock.datastream.state",
    },
)
