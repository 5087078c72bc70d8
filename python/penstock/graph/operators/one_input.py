"""Operators with one input that hand records on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from penstock.graph.operators.descriptor import FunctionDescriptor, OperatorDescriptor

if TYPE_CHECKING:
    from penstock.common.watermark_strategy import WatermarkStrategy

WindowFunctionKind: TypeAlias = Literal["reduce", "aggregate", "apply", "process"]
PartitionFunctionKind: TypeAlias = Literal["map_partition", "reduce", "aggregate"]


@dataclass(frozen=True)
class Map(FunctionDescriptor):
    """One record for each."""


@dataclass(frozen=True, kw_only=True)
class MapBatches(FunctionDescriptor):
    """A function of batches of columns.

    Attributes:
        frame: What the function takes: "arrow", "pandas" or "polars".
        declared: The type of the records.
        result_type: The type of those that it returns.
    """

    frame: Any
    declared: Any
    result_type: Any


@dataclass(frozen=True)
class FlatMap(FunctionDescriptor):
    """Any number of records for each."""


@dataclass(frozen=True)
class Filter(FunctionDescriptor):
    """The records for which the function is true."""


@dataclass(frozen=True)
class Process(FunctionDescriptor):
    """A ProcessFunction."""


@dataclass(frozen=True)
class KeyedProcess(FunctionDescriptor):
    """A KeyedProcessFunction."""


@dataclass(frozen=True)
class Project(OperatorDescriptor):
    """A tuple of some fields of each tuple or row.

    Attributes:
        indexes: The fields, from 0.
    """

    indexes: tuple[int, ...]


@dataclass(frozen=True)
class ColumnBatches(OperatorDescriptor):
    """Some thousand records at a time as a record batch, each a stream of Arrow's IPC format.

    Attributes:
        row_type: The type of the rows.
        is_single: Whether the records are no rows, but the values of the one field.
    """

    row_type: Any
    is_single: bool


@dataclass(frozen=True)
class Reduce(FunctionDescriptor):
    """Folds the records of each key."""


@dataclass(frozen=True)
class AggregateField(OperatorDescriptor):
    """Folds a field of the records of each key.

    Attributes:
        operation: What is made of two values.
        position: Index or name of the field; None folds the records themselves.
    """

    operation: Literal["sum", "min", "max", "min_by", "max_by"]
    position: int | str | None = None


@dataclass(frozen=True, kw_only=True)
class Aggregate(FunctionDescriptor):
    """Named aggregates of each key.

    Attributes:
        key_fields: The fields of the key in the rows that are emitted.
        result_type: The type of those rows.
        is_running: Whether each record emits a row, else each key of a batch emits its last one.
    """

    key_fields: Any
    result_type: Any
    is_running: bool


@dataclass(frozen=True)
class Watermarks(OperatorDescriptor):
    """Assigns timestamps and emits watermarks."""

    strategy: WatermarkStrategy


@dataclass(frozen=True, kw_only=True)
class AsyncWait(FunctionDescriptor):
    """Calls an AsyncFunction.

    Attributes:
        timeout_ms: For a call; 0 for none.
        capacity: How many calls may be under way.
        ordered: Whether results keep the order of the records.
        retry_strategy: An AsyncRetryStrategy; None never calls again.
    """

    timeout_ms: int
    capacity: int
    ordered: bool
    retry_strategy: Any = None

    @property
    def is_yielding(self) -> bool:
        """Always: it runs mails until there is room for a call, or a result."""
        return True


@dataclass(frozen=True, kw_only=True)
class Window(FunctionDescriptor):
    """Windows of each key.

    Attributes:
        function_kind: Which method of the windowed stream the function was given to.
        assigner: A WindowAssigner.
        trigger: A Trigger.
        evictor: An Evictor, or None.
        window_function: What is called with the result of a ``reduce`` or ``aggregate``, or None.
        lateness_ms: How long a window takes records after its end.
        late_tag: The id of the side output of late records, or None.
        state_descriptor: Of the state that holds a window's contents.
    """

    function_kind: WindowFunctionKind
    assigner: Any
    trigger: Any
    evictor: Any = None
    window_function: Any = None
    lateness_ms: int = 0
    late_tag: str | None = None
    state_descriptor: Any


@dataclass(frozen=True, kw_only=True)
class FullWindowPartition(FunctionDescriptor):
    """All records of a subtask, when the input has ended.

    Attributes:
        function_kind: Which method of the stream the function was given to.
        kept_type: The type of what is kept: of the records, or of the accumulator.
    """

    function_kind: PartitionFunctionKind
    kept_type: Any
