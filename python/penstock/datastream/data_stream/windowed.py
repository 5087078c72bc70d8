"""Streams in windows, of each key, of all records or of a partition; joins within intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from penstock.common.calls.former_keywords import former_keywords
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.time import Duration, Time
from penstock.common.typeinfo import PickledBytesTypeInfo, TypeInformation, as_type_information
from penstock.datastream.data_stream.interval_bounds import IntervalBounds
from penstock.datastream.data_stream.joined import (
    ONE,
    OTHER,
    _CoGroupWindow,
    _TwoKeyedStreams,
    _WithWindow,
)
from penstock.datastream.data_stream.keyed import KeyedStream
from penstock.datastream.data_stream.partition_windowed import (
    OfWindow,
    Order,
    partition_operator,
    sort_function,
)
from penstock.datastream.data_stream.stream import DataStream
from penstock.datastream.data_stream.two_inputs import common_key_type, two_inputs
from penstock.datastream.data_stream.type_arguments import TypeArgument, Undeclared, type_argument
from penstock.datastream.data_stream.window_settings import WindowSettings
from penstock.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    CoGroupFunction,
    MapPartitionFunction,
    ProcessAllWindowFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.datastream.window import GlobalWindows
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.graph import operators
from penstock.graph.transformations import TwoInputTransformation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.aggregates import Aggregate
    from penstock.common.types import Row
    from penstock.datastream.data_stream.join_functions import JoinContext
    from penstock.datastream.data_stream.type_arguments import RESULT, Declared
    from penstock.datastream.data_stream.typed_functions import (
        Aggregates,
        AppliesAll,
        AppliesWindow,
        CoGroups,
        JoinsByTime,
        MapsPartition,
        ProcessesAll,
        ProcessesWindow,
    )
    from penstock.datastream.functions import KeySelector
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.window import WindowAssigner
    from penstock.graph.transformations import OneInputTransformation

T = TypeVar("T")
OUT = TypeVar("OUT")
#: The records of the two streams of a coGroup.
LEFT_T = TypeVar("LEFT_T")
RIGHT_T = TypeVar("RIGHT_T")


class _AnyWindowedStream(WindowSettings, Generic[T]):
    """Common part of windows per key and windows over all records."""

    _keyed_stream: KeyedStream[T]

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment of the program."""
        return self._keyed_stream.get_execution_environment()

    def _stream(self, transformation: OneInputTransformation) -> DataStream[Any]:
        """Return the stream of the windows' results."""
        environment = self.get_execution_environment()
        return DataStream(environment, transformation, non_parallel=self._all_windows)

    @overload
    def reduce(
        self, reduce_function: ReduceFunction | Callable[[T, T], T], window_function: None = None
    ) -> DataStream[T]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[T, T], T],
        window_function: ProcessesWindow[T, OUT] | ProcessesAll[T, OUT],
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[T, T], T],
        window_function: Any = None,
        output_type: Declared[RESULT] = None,
    ) -> DataStream[RESULT]: ...

    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: Any = None,
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Fold the records of each window as they arrive.

        Args:
            reduce_function: A function that folds two records into one of the same type.
            window_function: A function that receives the folded record when the window fires.
            output_type: The type of the window function's results.
        """
        return self._stream(self._folded(reduce_function, window_function, output_type))

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T, OUT],
        window_function: None = None,
        accumulator_type: TypeArgument = None,
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: ProcessesWindow[Any, OUT] | ProcessesAll[Any, OUT],
        accumulator_type: TypeArgument = None,
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    @overload
    def aggregate(
        self, aggregate_function: Mapping[str, Aggregate], *, key_names: Sequence[str] | None = None
    ) -> DataStream[Row]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Any = None,
        accumulator_type: TypeArgument = None,
        output_type: Declared[RESULT] = None,
    ) -> DataStream[RESULT]: ...

    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: TypeArgument = None,
        output_type: TypeArgument = None,
        *,
        key_names: Sequence[str] | None = None,
    ) -> DataStream[Any]:
        """Aggregate the records of each window as they arrive.

        Beyond PyFlink, aggregates may be named, as in `KeyedStream.aggregate`.  A window then emits
        a row with the key's fields, ``window_start`` and ``window_end`` in ms if the window has
        bounds, and the results.

        Args:
            aggregate_function: A function with an accumulator per window, or a dictionary from
                names of results to aggregates.
            window_function: A function that receives the result when the window fires; None with
                named aggregates.
            accumulator_type: The type of the accumulator; None with named aggregates.
            output_type: The type of the results; None with named aggregates.
            key_names: With named aggregates, the names of the key's fields; see
                `KeyedStream.aggregate`.
        """
        if isinstance(aggregate_function, Mapping):
            if (window_function, accumulator_type, output_type) != (None, None, None):
                raise WrongArgumentError(
                    "aggregate: a window function and types cannot be combined with named "
                    "aggregates: leave them out"
                )
            return self._stream(self._aggregated(aggregate_function, key_names))
        if key_names is not None:
            raise WrongArgumentError(
                "aggregate: key_names needs named aggregates: pass a dictionary of aggregates, or "
                "leave it out"
            )
        return self._stream(
            self._accumulated(aggregate_function, window_function, accumulator_type, output_type)
        )

    @overload
    def apply(
        self,
        window_function: AppliesWindow[T, object] | AppliesAll[T, object],
        output_type: TypeInformation[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        window_function: AppliesWindow[T, OUT] | AppliesAll[T, OUT],
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    @former_keywords(result_type="output_type")
    def apply(
        self,
        window_function: AppliesWindow[T, Any] | AppliesAll[T, Any],
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Call a function with all records of each window when it fires."""
        check_function(window_function, self._window_function, "apply", or_callable=False)
        return self._stream(self._listed("apply", window_function, output_type))

    @overload
    def process(
        self, process_window_function: Any, output_type: TypeInformation[OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        process_window_function: ProcessesWindow[T, OUT] | ProcessesAll[T, OUT],
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self, process_window_function: Any, output_type: Undeclared = None
    ) -> DataStream[Any]: ...

    @former_keywords(result_type="output_type")
    def process(
        self, process_window_function: Any, output_type: TypeArgument = None
    ) -> DataStream[Any]:
        """Call a function with all records of each window when it fires, with state."""
        check_function(
            process_window_function, self._process_function, "process", or_callable=False
        )
        return self._stream(self._listed("process", process_window_function, output_type))

    def apply_batches(
        self,
        func: Callable[[Any], Any],
        schema: Any = None,
        *,
        frame: str | None = None,
        key_names: Sequence[str] | None = None,
    ) -> DataStream[Row]:
        """Call a function with all records of each window as one batch (beyond PyFlink).

        Behind the columns of the records are those of a key that is not a field of the records, if
        its type is known, and ``window_start`` and ``window_end`` in ms if the window has bounds.
        The function, its schema and its frames are those of `DataStream.map_batches`.

        Args:
            func: The function.
            schema: The type of the returned rows, or None for that of the annotation.
            frame: "arrow", "pandas" or "polars"; by default that of the annotation, or "arrow".
            key_names: The names of the key's fields, as in `aggregate`.

        Raises:
            InvalidProgramError: As `KeyedStream.map_batches`.
            WrongArgumentError: The function is not callable or takes no single batch, or the kind
                of frame is unknown.
            DependencyError: pyarrow is not installed.
        """
        from penstock.aggregates.windows import has_bounds
        from penstock.columns.window_batches import AllWindowBatches, KeyedWindowBatches
        from penstock.datastream.data_stream.tables import batch_fields, batch_function

        where = "apply_batches"
        found = batch_function(func, schema, frame, where)
        fields = batch_fields(
            self._keyed_stream,
            key_names,
            where,
            has_key=not self._all_windows,
            has_bounds=has_bounds(self._assigner),
        )
        batches = AllWindowBatches if self._all_windows else KeyedWindowBatches
        function = batches(shipped(func, where), found.frame, fields, found.result_type)
        return self._stream(self._listed("process", function, found.result_type))

    def top_n(self, n: int, by: Any, descending: bool = True) -> DataStream[T]:
        """Emit the highest records of each window when it fires (beyond PyFlink).

        Of equal records the earlier one comes first; None is the lowest value.

        Args:
            n: The number of records to emit for each window.
            by: The field, expression or function to rank by, or a list of fields.
            descending: True ranks the highest first, False the lowest.

        Raises:
            InvalidProgramError: The records have no such field.
        """
        from penstock.datastream.data_stream import rankings

        plain = self._keyed_stream._plain()
        order = rankings.Order(n, rankings.order_of(plain, by, "top_n"), descending=descending)
        each = rankings.EachOfAll() if self._all_windows else rankings.EachOfWindow()
        declared: Any = self._keyed_stream.transformation.output_type
        stream = self.aggregate(rankings.TopOfWindow(order), each, None, declared).name("TopN")
        if declared is None:
            stream.transformation.annotated_type = self._keyed_stream._kept_annotation()
        return stream

    def deduplicate(self, keep: Literal["first", "last"] = "first") -> DataStream[T]:
        """Emit the first or the last record of each window when it fires (beyond PyFlink).

        Raises:
            WrongArgumentError: The argument is neither "first" nor "last".
        """
        from penstock.datastream.data_stream import rankings

        rankings.check_keep(keep)
        fold = rankings.first_record if keep == "first" else rankings.last_record
        return self.reduce(fold).name("Deduplicate")


class WindowedStream(_AnyWindowedStream[T]):
    """Windows of each key."""

    _window_function = WindowFunction
    _process_function = ProcessWindowFunction
    _all_windows = False

    def __init__(
        self, keyed_stream: KeyedStream[T], window_assigner: WindowAssigner[Any, Any]
    ) -> None:
        """Assign the records of a keyed stream to windows; use `KeyedStream.window`."""
        super().__init__(keyed_stream, window_assigner)


class AllWindowedStream(_AnyWindowedStream[T]):
    """Windows over all records, in one subtask."""

    _window_function = AllWindowFunction
    _process_function = ProcessAllWindowFunction
    _all_windows = True

    def __init__(
        self, data_stream: DataStream[T], window_assigner: WindowAssigner[Any, Any]
    ) -> None:
        """Assign the records of a stream to windows; use `DataStream.window_all`."""
        super().__init__(data_stream._null_keyed(), window_assigner)


class IntervalJoin(MissingMethods):
    """Two keyed streams without an interval; set it with `between`."""

    def __init__(self, left: KeyedStream[Any], right: KeyedStream[Any]) -> None:
        """Use `KeyedStream.interval_join`."""
        self._left = left
        self._right = right

    def between(self, lower_bound: Duration | Time, upper_bound: Duration | Time) -> IntervalJoined:
        """Join right records from left.ts + lower to left.ts + upper, both included.

        Raises:
            InvalidProgramError: The lower bound is above the upper one, or a bound is not a Time.
        """
        bounds: list[Any] = [lower_bound, upper_bound]
        for bound in bounds:
            if not isinstance(bound, Time | Duration):
                raise InvalidProgramError(f"between takes two Times or Durations, got {bound!r}")
        return IntervalJoined(
            self._left, self._right, lower_bound.to_milliseconds(), upper_bound.to_milliseconds()
        )


class IntervalJoined(IntervalBounds):
    """Two keyed streams with an interval of event time."""

    _left: KeyedStream[Any]

    def process(
        self, function: JoinsByTime[OUT], output_type: TypeArgument = None
    ) -> DataStream[OUT]:
        """Call a function with each pair; results have the larger timestamp of the two.

        Raises:
            InvalidProgramError: The lower bound is above the upper one.
        """
        check_function(function, ProcessJoinFunction, "interval join", or_callable=False)
        self._check_bounds()
        left_selector, left_type = self._left._keys()
        right_selector, right_type = self._right._keys()
        left_tag, right_tag = self._left_late_tag, self._right_late_tag
        descriptor = operators.IntervalJoin(
            shipped(function, "interval join"),
            lower_bound_ms=self._lower_ms,
            upper_bound_ms=self._upper_ms,
            left_late_tag=None if left_tag is None else left_tag.tag_id,
            right_late_tag=None if right_tag is None else right_tag.tag_id,
        )
        transformation = two_inputs(
            TwoInputTransformation,
            (self._left, self._right),
            "Interval Join",
            descriptor,
            type_argument(output_type, "interval join"),
            (left_selector, right_selector),
            common_key_type(left_type, right_type),
        )
        return self._left._add(transformation)


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

    @overload
    def map_partition(
        self,
        func: MapsPartition[T, object] | Callable[[Iterable[T]], Iterable[object] | None],
        output_type: TypeInformation[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def map_partition(
        self,
        func: MapsPartition[T, OUT] | Callable[[Iterable[T]], Iterable[OUT] | None],
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    def map_partition(
        self,
        func: MapsPartition[T, Any] | Callable[[Iterable[T]], Iterable[Any] | None],
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
        sort = sort_function(field, self._stream._plain().get_type(), order)
        return self._mapped(sort, self._stream.transformation.output_type, "SortPartition")

    def reduce(self, func: Callable[[T, T], T] | ReduceFunction) -> DataStream[T]:
        """Fold the records of each partition into one."""
        check_function(func, ReduceFunction, "reduce", or_callable=True)
        name = "PartitionReduce"
        if isinstance(self._stream, KeyedStream):
            return self._windows().reduce(func).name(name)
        output_type = self._stream.transformation.output_type
        return self._unkeyed("reduce", func, output_type, self._stream.get_type(), name)

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T, object],
        accumulator_type: TypeArgument = None,
        *,
        output_type: TypeInformation[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T, OUT],
        accumulator_type: TypeArgument = None,
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    def aggregate(
        self,
        aggregate_function: Any,
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
            return self._windows().apply(OfWindow(function), output_type).name(name)
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
        return self._stream._add(
            partition_operator(self._stream, kind, function, output_type, kept_type, name)
        )


class CoGroupedStreams(_TwoKeyedStreams[ONE, OTHER]):
    """Two streams whose records are grouped by key and window."""

    def window(
        self, window_assigner: WindowAssigner[Any, Any]
    ) -> CoGroupedStreams.WithWindow[ONE, OTHER]:
        """Assign the records of both streams to windows."""
        return CoGroupedStreams.WithWindow(self, window_assigner)

    class WithWindow(_WithWindow[LEFT_T, RIGHT_T]):
        """Grouped streams in windows."""

        @overload
        def apply(
            self,
            function: CoGroups[OUT] | Callable[[list[LEFT_T], list[RIGHT_T]], Iterable[OUT]],
            output_type: TypeArgument = None,
        ) -> DataStream[OUT]: ...

        @overload
        def apply(
            self,
            function: Callable[[list[LEFT_T], list[RIGHT_T], JoinContext], Iterable[OUT]],
            output_type: TypeArgument = None,
        ) -> DataStream[OUT]: ...

        @overload
        def apply(
            self, function: CoGroupFunction, output_type: TypeArgument = None
        ) -> DataStream[Any]: ...

        def apply(self, function: Any, output_type: TypeArgument = None) -> DataStream[Any]:
            """Call a function with both lists of each window; one of them may be empty.

            If the function has a third parameter ``ctx``, it also receives a `JoinContext`.
            """
            check_function(function, CoGroupFunction, "co_group apply", or_callable=True)
            results: DataStream[Any] = self._applied(_CoGroupWindow(function), output_type)
            return results.name("CoGroup")
