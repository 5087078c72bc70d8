"""Operators with one input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from penstock.graph.operators.descriptor import FunctionDescriptor, OperatorDescriptor

if TYPE_CHECKING:
    from penstock.common.watermark_strategy import WatermarkStrategy

WindowFunctionKind: TypeAlias = Literal["reduce", "aggregate", "apply", "process"]
PartitionFunctionKind: TypeAlias = Literal["map_partition", "reduce", "aggregate"]


class Map(FunctionDescriptor):
    """Emits one record for each."""


@dataclass(frozen=True, kw_only=True)
class MapBatches(FunctionDescriptor):
    """Calls a function with batches of columns.

    Attributes:
        frame: The type of the function's argument: "arrow", "pandas" or "polars".
        fields: The columns of its argument: a `penstock.columns.batch_fields.BatchFields`.
        result_type: The type of the returned records.
    """

    frame: Any
    fields: Any
    result_type: Any


class FlatMap(FunctionDescriptor):
    """Emits any number of records for each."""


class Filter(FunctionDescriptor):
    """Keeps the records for which the function is true."""


class Process(FunctionDescriptor):
    """Runs a ProcessFunction."""


class KeyedProcess(FunctionDescriptor):
    """Runs a KeyedProcessFunction."""


@dataclass(frozen=True, kw_only=True)
class KeyedRank(KeyedProcess):
    """Runs the function of `top_n` or `deduplicate`, also on batches of columns.

    Attributes:
        key_fields: The fields of the key, a `penstock.aggregates.named.KeyFields`; None if their
            type is unknown.
        order: Computes the values by which records are ordered; None if they have no order.
        why_rows: Why the records are processed one by one, worded to follow "one by one,"; None if
            batches are processed.
    """

    key_fields: Any
    order: Any
    why_rows: str | None


@dataclass(frozen=True)
class Project(OperatorDescriptor):
    """Emits a tuple of some fields of each tuple or row.

    Attributes:
        indexes: The fields, from 0.
    """

    indexes: tuple[int, ...]


@dataclass(frozen=True)
class ColumnBatches(OperatorDescriptor):
    """Emits some thousand records at a time as a record batch, a stream of Arrow's IPC format.

    Attributes:
        row_type: The type of the rows.
        is_single: Whether the records are the values of the one field instead of rows.
    """

    row_type: Any
    is_single: bool


class Reduce(FunctionDescriptor):
    """Folds the records of each key."""


@dataclass(frozen=True)
class AggregateField(OperatorDescriptor):
    """Folds a field of the records of each key.

    Attributes:
        operation: The operation that combines two values.
        position: Index or name of the field; None folds the records themselves.
    """

    operation: Literal["sum", "min", "max", "min_by", "max_by"]
    position: int | str | None = None


@dataclass(frozen=True, kw_only=True)
class Aggregate(FunctionDescriptor):
    """Named aggregates of each key.

    Attributes:
        key_fields: The fields of the key in the emitted rows.
        result_type: The type of those rows.
        is_running: Whether each record emits a row, or only the last one of a key and batch.
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
        timeout_ms: Timeout of a call; 0 for none.
        capacity: Maximum number of calls in progress.
        ordered: Whether results keep the order of the records.
        retry_strategy: An AsyncRetryStrategy; None for no retries.
    """

    timeout_ms: int
    capacity: int
    ordered: bool
    retry_strategy: Any = None

    @property
    def is_yielding(self) -> bool:
        """Return True: it runs mails until there is room for a call, or a result."""
        return True


@dataclass(frozen=True, kw_only=True)
class Window(FunctionDescriptor):
    """Windows of each key.

    Attributes:
        function_kind: The method of the windowed stream that received the function.
        assigner: A WindowAssigner.
        trigger: A Trigger.
        evictor: An Evictor, or None.
        window_function: Called with the result of a ``reduce`` or ``aggregate``; None for none.
        lateness_ms: Time after its end for which a window accepts records.
        late_tag: The id of the side output of late records, or None.
        state_descriptor: Descriptor of the state of a window's contents.
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
        function_kind: The method of the stream that received the function.
        kept_type: The type of the stored records or accumulator.
    """

    function_kind: PartitionFunctionKind
    kept_type: Any
