"""PartitionWindowedStream: all records of a partition, once the input has ended."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.typeinfo import (
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    as_type_information,
)
from penstock.common.values.records import record_field
from penstock.datastream.data_stream.keyed import KeyedStream
from penstock.datastream.data_stream.stream import DataStream, TypeArgument, type_argument
from penstock.datastream.functions import (
    AggregateFunction,
    KeySelector,
    MapPartitionFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.datastream.window import GlobalWindows
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.functions import bound_function
from penstock.graph import operators
from penstock.graph.transformations import PARALLELISM_DEFAULT, OneInputTransformation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.datastream.data_stream.windowed import WindowedStream
    from penstock.datastream.functions import RuntimeContext

T = TypeVar("T")


class Order(Enum):
    """Sort order of a partition."""

    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"


class PartitionWindowedStream(MissingMethods, Generic[T]):
    """The records of each subtask, or of each key, as a whole (beyond PyFlink).

    Results are emitted when the input has ended; an endless input has none.
    """

    def __init__(self, stream: DataStream[T]) -> None:
        """Gather a stream's records; use `DataStream.full_window_partition`."""
        self._stream = stream
        self._environment = stream.get_execution_environment()

    def __repr__(self) -> str:
        return f"<PartitionWindowedStream of {self._stream!r}>"

    def map_partition(
        self,
        func: MapPartitionFunction | Callable[[Iterable[T]], Iterable[Any] | None],
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Call a function once with all records of a partition.

        Args:
            func: A MapPartitionFunction, or a function of an iterable of records.
            output_type: The type of the results; any Python value if None.
        """
        check_function(func, MapPartitionFunction, "map_partition", or_callable=True)
        declared = type_argument(output_type, "map_partition")
        return self._mapped(func, declared, "MapPartition")

    def sort_partition(
        self,
        field: int | str | KeySelector | Callable[[T], Any],
        order: Order = Order.ASCENDING,
    ) -> DataStream[T]:
        """Sort the records of each partition; equal ones keep their order.

        Args:
            field: The position or the name of a field, or a key selector.
            order: ASCENDING puts the smallest first, DESCENDING the largest.

        Raises:
            InvalidProgramError: The type has no such field.
        """
        given: Any = order
        if not isinstance(given, Order):
            raise WrongArgumentError(f"sort_partition takes an Order, got {order!r}")
        kind = self._stream._plain().get_type()
        if isinstance(field, int | str):
            selector: Any = _Field(_checked_field(field, kind))
        else:
            check_function(field, KeySelector, "sort_partition", or_callable=True)
            selector = field
        sort = _Sort(selector, descending=order is Order.DESCENDING)
        return self._mapped(sort, self._stream.transformation.output_type, "SortPartition")

    def reduce(self, func: Callable[[T, T], T] | ReduceFunction) -> DataStream[T]:
        """Fold the records of each partition into one."""
        check_function(func, ReduceFunction, "reduce", or_callable=True)
        name = "PartitionReduce"
        if isinstance(self._stream, KeyedStream):
            return self._windows().reduce(func).name(name)
        output_type = self._stream.transformation.output_type
        return self._unkeyed("reduce", func, output_type, self._stream.get_type(), name)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        accumulator_type: TypeArgument = None,
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Aggregate the records of each partition.

        Args:
            aggregate_function: The function, with an accumulator for each partition.
            accumulator_type: The type of the accumulator.
            output_type: The type of the results.
        """
        check_function(aggregate_function, AggregateFunction, "aggregate", or_callable=False)
        name = "PartitionAggregate"
        if isinstance(self._stream, KeyedStream):
            return (
                self._windows()
                .aggregate(
                    aggregate_function, accumulator_type=accumulator_type, output_type=output_type
                )
                .name(name)
            )
        kept: TypeInformation = (
            PickledBytesTypeInfo()
            if accumulator_type is None
            else as_type_information(accumulator_type, "aggregate")
        )
        declared = type_argument(output_type, "aggregate")
        return self._unkeyed("aggregate", aggregate_function, declared, kept, name)

    def _windows(self) -> WindowedStream[T]:
        assert isinstance(self._stream, KeyedStream)
        return self._stream.window(GlobalWindows.create_with_end_of_stream_trigger())

    def _mapped(self, function: Any, output_type: Any, name: str) -> DataStream[Any]:
        if isinstance(self._stream, KeyedStream):
            return self._windows().apply(_OfWindow(function), output_type).name(name)
        kept = self._stream.get_type()
        return self._unkeyed("map_partition", function, output_type, kept, name)

    def _unkeyed(
        self,
        kind: operators.PartitionFunctionKind,
        function: Any,
        output_type: Any,
        kept_type: TypeInformation,
        name: str,
    ) -> DataStream[Any]:
        before = self._stream.transformation
        transformation = OneInputTransformation(
            before,
            name,
            operators.FullWindowPartition(
                shipped(function, kind), function_kind=kind, kept_type=kept_type
            ),
            output_type,
            # The parallelism of the records: its subtasks are the partitions.
            self._environment.get_parallelism()
            if before.parallelism == PARALLELISM_DEFAULT
            else before.parallelism,
        )
        transformation.has_own_parallelism = True
        return self._stream._add(transformation)


class _Field(KeySelector):
    def __init__(self, field: int | str) -> None:
        self._field = field

    def get_key(self, value: Any) -> Any:
        """Return the field."""
        field = self._field
        return record_field(value, field) if isinstance(field, str) else value[field]


class _Sort(MapPartitionFunction):
    def __init__(self, selector: Any, *, descending: bool) -> None:
        self._selector = selector
        self._key = bound_function(selector, "get_key")
        self._descending = descending

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the selector."""
        if hasattr(self._selector, "open"):
            self._selector.open(runtime_context)

    def close(self) -> None:
        """Close the selector."""
        if hasattr(self._selector, "close"):
            self._selector.close()

    def map_partition(self, values: Iterable[Any]) -> Iterable[Any]:
        """Return the sorted records."""
        return sorted(values, key=self._key, reverse=self._descending)


class _OfWindow(WindowFunction[Any, Any, Any, Any]):
    def __init__(self, function: Any) -> None:
        self._function = function
        self._called = bound_function(function, "map_partition")

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function."""
        if hasattr(self._function, "open"):
            self._function.open(runtime_context)

    def close(self) -> None:
        """Close the function."""
        if hasattr(self._function, "close"):
            self._function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:  # noqa: ARG002
        """Return the results for the records of a key."""
        return self._called(inputs) or ()


def _checked_field(field: int | str, kind: TypeInformation) -> int | str:
    if isinstance(kind, RowTypeInfo) and isinstance(field, str):
        if field not in kind.get_field_names():
            raise InvalidProgramError(f"sort_partition: {kind} has no field {field!r}")
    elif isinstance(kind, RowTypeInfo | TupleTypeInfo) and field not in range(
        len(kind.get_field_types())
    ):
        raise InvalidProgramError(f"sort_partition: {kind} has no field {field!r}")
    return field
