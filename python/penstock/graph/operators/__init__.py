"""What operators do, as data: a class for each kind, with its arguments.

The graph never runs an operator.  The API describes one, and the TaskExecutor builds the operator
that belongs to the class when the chain that holds it is deployed.  The classes are called by
their room, ``operators.Map``, since those that run them often have the same names.
"""

from penstock.graph.operators.descriptor import (
    FunctionDescriptor,
    OperatorDescriptor,
    SourceDescriptor,
)
from penstock.graph.operators.iterations import IterationHead, IterationTail
from penstock.graph.operators.one_input import (
    AggregateField,
    AsyncWait,
    ColumnBatches,
    Filter,
    FlatMap,
    KeyedProcess,
    Map,
    Process,
    Project,
    Reduce,
    Watermarks,
    Window,
    WindowFunctionKind,
)
from penstock.graph.operators.several_inputs import (
    BroadcastProcess,
    CoFlatMap,
    CoMap,
    CoProcess,
    IntervalJoin,
    KeyedBroadcastProcess,
    KeyedCoProcess,
    KeyedMultipleInputProcess,
    MultipleInputProcess,
)
from penstock.graph.operators.sinks import (
    CollectSink,
    DiscardingSink,
    FileCommitter,
    FileCompactor,
    FileSink,
    FunctionSink,
    PrintSink,
    SinkCommitter,
    SinkWriter,
)
from penstock.graph.operators.sources import (
    CollectionSource,
    ColumnSource,
    DataGeneratorSource,
    FileSource,
    FunctionSource,
    HybridSource,
    NumberSequenceSource,
    SocketTextSource,
    SplitSource,
)

__all__ = [
    "AggregateField",
    "AsyncWait",
    "BroadcastProcess",
    "CoFlatMap",
    "CoMap",
    "CoProcess",
    "CollectSink",
    "CollectionSource",
    "ColumnBatches",
    "ColumnSource",
    "DataGeneratorSource",
    "DiscardingSink",
    "FileCommitter",
    "FileCompactor",
    "FileSink",
    "FileSource",
    "Filter",
    "FlatMap",
    "FunctionDescriptor",
    "FunctionSink",
    "FunctionSource",
    "HybridSource",
    "IntervalJoin",
    "IterationHead",
    "IterationTail",
    "KeyedBroadcastProcess",
    "KeyedCoProcess",
    "KeyedMultipleInputProcess",
    "KeyedProcess",
    "Map",
    "MultipleInputProcess",
    "NumberSequenceSource",
    "OperatorDescriptor",
    "PrintSink",
    "Process",
    "Project",
    "Reduce",
    "SinkCommitter",
    "SinkWriter",
    "SocketTextSource",
    "SourceDescriptor",
    "SplitSource",
    "Watermarks",
    "Window",
    "WindowFunctionKind",
]
