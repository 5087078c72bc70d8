"""KeyedStream: a stream that is partitioned by key, and joins with the latest record of a key."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeVar, overload

from penstock.common.calls.former_keywords import former_keywords
from penstock.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.datastream.annotations import Annotation
from penstock.datastream.data_stream.join_functions import Joining
from penstock.datastream.data_stream.joined import ONE, OTHER, _TwoKeyedStreams
from penstock.datastream.data_stream.key_fields import aggregated_field, has_array
from penstock.datastream.data_stream.latest_joins import (
    WHERE,
    BroadcastJoin,
    broadcast_table,
    function_by_key,
    is_left_join,
)
from penstock.datastream.data_stream.refused_settings import RefusedPartitioning, RefusedSettings
from penstock.datastream.data_stream.stream import DataStream
from penstock.datastream.functions import (
    KeyedProcessFunction,
    KeySelector,
    Partitioner,
    ReduceFunction,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.computed import computed, result_type
from penstock.graph import operators
from penstock.graph.partitioners import PartitionerSpec
from penstock.graph.transformations import (
    PartitionTransformation,
    ReduceTransformation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.aggregates import Aggregate
    from penstock.common.types import Row
    from penstock.datastream.data_stream.join_functions import JoinContext
    from penstock.datastream.data_stream.rankings import Ranking, Results
    from penstock.datastream.data_stream.type_arguments import TypeArgument, Undeclared
    from penstock.datastream.data_stream.typed_functions import Joins, Processes
    from penstock.datastream.data_stream.windowed import IntervalJoin, WindowedStream
    from penstock.datastream.functions import FlatJoinFunction
    from penstock.datastream.output_tag import OutputTag
    from penstock.datastream.state_lifetime import Lifetime
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.window import WindowAssigner
    from penstock.expressions import Expression

T = TypeVar("T")
OUT = TypeVar("OUT")


class KeyedStream(RefusedPartitioning, RefusedSettings, DataStream[T], Generic[T]):
    """A stream partitioned by key."""

    class AccumulateType(Enum):
        """The built-in aggregations."""

        MIN = 1
        MAX = 2
        MIN_BY = 3
        MAX_BY = 4
        SUM = 5

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        origin: DataStream[T],
        key_selector: Any,
        key_type: TypeInformation | None,
    ) -> None:
        """Partition a stream; use `DataStream.key_by`.

        Raises:
            InvalidProgramError: The key type is an array, a tuple or row with arrays, or a row
                without fields.
        """
        if isinstance(key_type, RowTypeInfo) and not key_type.get_field_types():
            raise InvalidProgramError("a row without fields cannot be the type of a key")
        if key_type is not None and has_array(key_type):
            raise InvalidProgramError(
                f"{key_type} cannot be the type of a key, because it is or contains an array: use "
                "a TUPLE or declare no type"
            )
        spec = PartitionerSpec("KEY_GROUP", key_selector=key_selector, key_type=key_type)
        super().__init__(environment, PartitionTransformation(origin.transformation, spec))
        self._origin = origin
        self._key_selector = key_selector
        self._key_type = key_type

    def _plain(self) -> DataStream[T]:
        return self._origin

    def _unkeyed(self) -> DataStream[T]:
        return DataStream(self._environment, self._transformation)

    def _keys(self) -> tuple[Any, TypeInformation | None]:
        return self._key_selector, self._key_type

    @overload
    def key_by(
        self, key_selector: Callable[[T], Any] | KeySelector, key_type: TypeArgument = None
    ) -> KeyedStream[T]: ...

    @overload
    def key_by(
        self,
        key_selector: str | Expression,
        key_type: str | Expression | TypeArgument = None,
        *fields: str | Expression | TypeArgument,
    ) -> KeyedStream[T]: ...

    @former_keywords(key_type_info="key_type")
    def key_by(self, key_selector: Any, key_type: Any = None, *fields: Any) -> KeyedStream[T]:
        """Replace the key; the selector receives the records."""
        return self._origin.key_by(key_selector, key_type, *fields)

    @overload
    def process(
        self, func: Processes[T, object], output_type: TypeInformation[OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self, func: Processes[T, OUT], output_type: Undeclared = None
    ) -> DataStream[OUT]: ...

    def process(self, func: Processes[T, Any], output_type: TypeArgument = None) -> DataStream[Any]:
        """Convert each record to any number of results, with state and timers for each key."""
        check_function(func, KeyedProcessFunction, "KeyedStream.process", or_callable=False)
        return self._one_input(
            operators.KeyedProcess, "keyed_process", "KEYED PROCESS", func, output_type
        )

    def reduce(self, func: Callable[[T, T], T] | ReduceFunction) -> DataStream[T]:
        """Fold the records of each key and emit every intermediate result, of the same type."""
        function = computed(func, "reduce", [self._origin._record_type()] * 2)
        check_function(function, ReduceFunction, "reduce", or_callable=True)
        return self._reduction(operators.Reduce(shipped(function, "reduce")))

    def aggregate(
        self,
        aggregates: Mapping[str, Aggregate],
        *,
        emit: Literal["batch", "running"] = "batch",
        key_names: Sequence[str] | None = None,
    ) -> DataStream[Row]:
        """Compute named aggregates of each key, and emit rows of key and results (beyond PyFlink).

            bids.key_by(field("auction")).aggregate({"bids": count(), "total": sum("price")})

        Records in columns are first grouped by key, so that state is accessed once for each key of
        a batch.  With ``execution.runtime-mode: BATCH`` each key emits one row, at the end.

        Args:
            aggregates: A dictionary from names of results to aggregates of `penstock.aggregates`.
            emit: "batch" emits the last row of each key for each batch of columns, and a row for
                each record that arrives alone.  "running" emits a row for each record.
            key_names: The names of the key's fields; by default those of the fields that the key
                selector reads, otherwise ``key``, or ``key0``, ``key1`` and so on.

        Raises:
            InvalidProgramError: The type of the records or of the key is unknown, an aggregate does
                not accept the type of its argument, or two fields have one name.
            WrongArgumentError: ``emit`` has another value.
        """
        from penstock.aggregates.resolution import key_fields, named_aggregates
        from penstock.aggregates.resolution import result_type as row_type

        if emit not in ("batch", "running"):
            raise WrongArgumentError(f"aggregate: emit must be 'batch' or 'running', got {emit!r}")
        declared = self._origin._record_type()
        function, fields = named_aggregates(aggregates, declared, "aggregate")
        key = key_fields(self._key_selector, self._key_type, declared, key_names, "aggregate")
        of_rows = row_type([*zip(key.names, key.types, strict=True), *fields], "aggregate")
        descriptor = operators.Aggregate(
            shipped(function, "aggregate"),
            key_fields=key,
            result_type=of_rows,
            is_running=emit == "running",
        )
        return self._typed_one_input(descriptor, "Aggregate", of_rows)

    def map_batches(
        self,
        func: Callable[[Any], Any],
        schema: Any = None,
        *,
        frame: str | None = None,
        key_names: Sequence[str] | None = None,
    ) -> DataStream[Row]:
        """Call a function with batches of records of any keys; see `DataStream.map_batches`.

        All records of a key are in batches of one subtask, in their order.  A key that is not a
        field of the records is a column of each batch, behind theirs, if its type is known.

        Args:
            func: The function.
            schema: The type of the returned rows, or None for that of the annotation.
            frame: "arrow", "pandas" or "polars"; by default that of the annotation, or "arrow".
            key_names: The names of the key's fields, as in `aggregate`.

        Raises:
            InvalidProgramError: As `DataStream.map_batches`; or names are given for keys of an
                unknown type, or a field of the records has one of the names.
        """
        from penstock.datastream.data_stream.tables import operator_of_batches

        operator = operator_of_batches(self, func, schema, frame, key_names)
        return self._typed_one_input(operator, "Map batches", operator.result_type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """Emit the running sum of a field, by position or name, or of the records themselves."""
        return self._aggregate(position_to_sum, KeyedStream.AccumulateType.SUM)

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """Emit the running minimum of a field; other fields are those of the first record."""
        return self._aggregate(position_to_min, KeyedStream.AccumulateType.MIN)

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """Emit the running maximum of a field; other fields are those of the first record."""
        return self._aggregate(position_to_max, KeyedStream.AccumulateType.MAX)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """Emit the record with the smallest field so far; of equal ones the first."""
        return self._aggregate(position_to_min_by, KeyedStream.AccumulateType.MIN_BY)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """Emit the record with the largest field so far; of equal ones the first."""
        return self._aggregate(position_to_max_by, KeyedStream.AccumulateType.MAX_BY)

    @overload
    def top_n(
        self,
        n: int,
        by: Any,
        descending: bool = True,
        *,
        results: Literal["final"],
        rank: None = None,
        ttl: Lifetime = None,
    ) -> DataStream[T]: ...

    @overload
    def top_n(
        self,
        n: int,
        by: Any,
        descending: bool = True,
        *,
        results: Literal["changes"] = "changes",
        rank: str | None = None,
        ttl: Lifetime = None,
    ) -> DataStream[Row]: ...

    def top_n(
        self,
        n: int,
        by: Any,
        descending: bool = True,
        *,
        results: Results = "changes",
        rank: str | None = None,
        ttl: Lifetime = None,
    ) -> DataStream[Any]:
        """Emit the highest records of each key (beyond PyFlink).

        Of equal records the earlier one comes first; None is the lowest value.

        Args:
            n: The number of records to keep for each key.
            by: The field, expression or function to rank by, or a list of fields.
            descending: True ranks the highest first, False the lowest.
            results: "changes" emits a change row for each record that enters (+I) or leaves (-D)
                the ranking; "final" emits the ranked records themselves when the input has ended.
            rank: The name of an additional field with the rank, from 1; it is updated by -U and +U.
            ttl: The lifetime of a key's records since one of them was last replaced.

        Raises:
            InvalidProgramError: The records have no such field.
        """
        from penstock.datastream.data_stream.rankings import ranked

        return self._ranked(
            ranked(self, n, by, descending=descending, results=results, rank=rank, ttl=ttl)
        )

    @overload
    def deduplicate(
        self,
        keep: Literal["first"] = "first",
        *,
        results: Results = "changes",
        ttl: Lifetime = None,
    ) -> DataStream[T]: ...

    @overload
    def deduplicate(
        self,
        keep: Literal["last"],
        *,
        results: Literal["final"],
        ttl: Lifetime = None,
    ) -> DataStream[T]: ...

    @overload
    def deduplicate(
        self,
        keep: Literal["last"],
        *,
        results: Literal["changes"] = "changes",
        ttl: Lifetime = None,
    ) -> DataStream[Row]: ...

    def deduplicate(
        self,
        keep: Literal["first", "last"] = "first",
        *,
        results: Results = "changes",
        ttl: Lifetime = None,
    ) -> DataStream[Any]:
        """Emit one record of each key, the first or the last that arrives (beyond PyFlink).

        Args:
            keep: "first" emits the first record itself.  "last" emits change rows: +I, then -U and
                +U for each further record.
            results: "final" emits the last record itself when the input has ended.
            ttl: The lifetime of a key since its last write; with "first", since its first record.

        Raises:
            WrongArgumentError: An argument has another value.
        """
        from penstock.datastream.data_stream.rankings import deduplicated

        return self._ranked(deduplicated(self, keep, results, ttl))

    def _ranked(self, ranking: Ranking) -> DataStream[Any]:
        from penstock.aggregates.resolution import known_key_fields

        fields = known_key_fields(
            self._key_selector, self._key_type, self._origin._record_type(), ranking.name
        )
        why_rows = "as the type of the keys is unknown" if fields is None else ranking.why_rows
        descriptor = operators.KeyedRank(
            shipped(ranking.function, ranking.name),
            key_fields=fields,
            order=ranking.order,
            why_rows=why_rows,
        )
        declared: Any = ranking.result_type if ranking.is_declared else None
        stream = self._typed_one_input(descriptor, ranking.name, declared)
        if not ranking.is_declared:
            stream.transformation.annotated_type = ranking.result_type
        return stream

    def _aggregate(
        self, position: int | str, accumulate_type: KeyedStream.AccumulateType
    ) -> DataStream[T]:
        operation: Any = accumulate_type.name.lower()
        return self._reduction(
            operators.AggregateField(
                operation, aggregated_field(self._origin._record_type(), position, operation)
            )
        )

    def _reduction(self, descriptor: operators.OperatorDescriptor) -> DataStream[T]:
        return self._add(
            ReduceTransformation(
                self._transformation,
                "Reduce",
                descriptor,
                self._transformation.output_type,
                self._environment.get_parallelism(),
                key_selector=self._key_selector,
                key_type=self._key_type,
            ),
            Annotation(self._kept_annotation()),
        )

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream[T]:
        """Assign the records of each key to windows."""
        from penstock.datastream.data_stream.windowed import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T]:
        """Assign the records of each key to windows of a number of records.

        Args:
            size: The number of records in a window.
            slide: The number of records after which a new window starts; 0 for windows that do not
                overlap.
        """
        from penstock.datastream.data_stream.windowed import WindowedStream
        from penstock.datastream.window import (
            CountSlidingWindowAssigner,
            CountTumblingWindowAssigner,
        )

        if slide == 0:
            return WindowedStream(self, CountTumblingWindowAssigner(size))
        return WindowedStream(self, CountSlidingWindowAssigner(size, slide))

    def interval_join(self, other: KeyedStream[Any]) -> IntervalJoin:
        """Join records with the same key whose timestamps differ within bounds (beyond PyFlink)."""
        given: Any = other
        if not isinstance(given, KeyedStream):
            raise InvalidProgramError(f"interval_join takes a KeyedStream, got {given!r}")
        from penstock.datastream.data_stream.windowed import IntervalJoin

        return IntervalJoin(self, other)

    # Methods that a keyed stream does not support ---------------------------------------------

    def partition_custom(
        self,
        partitioner: Partitioner | Callable[[Any, int], int | Sequence[int]],
        key_selector: KeySelector | Callable[[T], Any],
    ) -> DataStream[T]:
        """Reject the call after a check of its arguments: the keys select the subtask."""
        check_function(partitioner, Partitioner, "partition_custom", or_callable=True)
        check_function(key_selector, KeySelector, "partition_custom", or_callable=True)
        self._refuse_partitioning("partition_custom")

    def set_description(self, description: str) -> NoReturn:  # noqa: ARG002
        """Reject the call: a keyed stream is not an operator."""
        self._refuse("set_description")

    def cache(self) -> CachedDataStream[T]:
        """Reject the call: cache the stream before `key_by` or after the next operator."""
        self._refuse("cache")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidProgramError(
            f"{what}() is not supported on a KeyedStream, which is not an operator: call it on the "
            "stream before key_by or on the one after the next transformation"
        )


class CachedDataStream(RefusedSettings, DataStream[T]):
    """A stream marked for use in several jobs.

    Within one job, all consumers share its operator.  A later job computes it again, as Flink does
    if the cached data is gone: only the work is repeated, the results are the same.
    """

    def __init__(self, stream: DataStream[T]) -> None:
        """Mark a stream; use `DataStream.cache`."""
        super().__init__(
            stream.get_execution_environment(),
            stream.transformation,
            non_parallel=stream._non_parallel,
        )

    def invalidate(self) -> None:
        """Do nothing: no data is cached."""

    def cache(self) -> NoReturn:
        """Reject the call: it is cached already."""
        self._refuse("cache")

    def get_side_output(self, output_tag: OutputTag) -> NoReturn:  # noqa: ARG002
        """Reject the call: the stream before cache() has it."""
        self._refuse("get_side_output")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidProgramError(
            f"{what}() is not supported on a CachedDataStream, which only keeps what an operator "
            "made: call it on the stream before cache()"
        )


class LatestJoinedStreams(_TwoKeyedStreams[ONE, OTHER]):
    """A stream that is joined with the latest record of each key of another stream."""

    def __init__(self, first: DataStream[Any], second: DataStream[Any], *, broadcast: bool) -> None:
        """Create a join without keys; use `DataStream.join_latest`."""
        super().__init__(first, second)
        self._broadcast = broadcast

    @overload
    def apply(
        self,
        function: FlatJoinFunction,
        output_type: TypeArgument = None,
        *,
        how: Literal["inner", "left"] = "inner",
        event_time: bool = False,
        ttl: Lifetime = None,
    ) -> DataStream[Any]: ...

    @overload
    def apply(
        self,
        function: Callable[[ONE, OTHER], OUT] | Joins[OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["inner"] = "inner",
        event_time: bool = False,
        ttl: Lifetime = None,
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: Callable[[ONE, OTHER | None], OUT] | Joins[OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["left"],
        event_time: bool = False,
        ttl: Lifetime = None,
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: Callable[[ONE, OTHER, JoinContext], OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["inner"] = "inner",
        event_time: bool = False,
        ttl: Lifetime = None,
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: Callable[[ONE, OTHER | None, JoinContext], OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["left"],
        event_time: bool = False,
        ttl: Lifetime = None,
    ) -> DataStream[OUT]: ...

    def apply(
        self,
        function: Any,
        output_type: TypeArgument = None,
        *,
        how: Literal["inner", "left"] = "inner",
        event_time: bool = False,
        ttl: Lifetime = None,
    ) -> DataStream[Any]:
        """Call a function with each record of the first stream and the latest record of its key.

        Args:
            function: A JoinFunction or callable that returns one record, or a FlatJoinFunction that
                returns any number.  If it has a parameter ``ctx``, it also receives a
                `JoinContext`.
            output_type: The type of the results.
            how: "left" also calls the function without a match, with None.
            event_time: True for a temporal join, which uses the latest record as of the timestamp
                of the first stream's record, whenever it arrives.
            ttl: The lifetime of the latest record of a key; not for broadcast or temporal joins.

        Raises:
            InvalidProgramError: The keys are not selected, or the arguments exclude each other.
        """
        self._require_keys("apply")
        is_left = is_left_join(how, is_broadcast=self._broadcast, event_time=event_time, ttl=ttl)
        left, right = (stream._stream() for stream in self._streams)
        joining = Joining(function, [left._record_type(), right._record_type()], WHERE)
        declared = result_type(joining.function, output_type)
        joined: DataStream[Any]
        if self._broadcast:
            table = broadcast_table()
            joined = left.connect(right.broadcast(table)).process(
                BroadcastJoin(
                    shipped(joining, WHERE), is_left, table, self._selectors[0], self._selectors[1]
                ),
                declared,
            )
        else:
            by_key = function_by_key(joining, is_left=is_left, event_time=event_time, ttl=ttl)
            joined = self._connected().process(by_key, declared)
        if declared is None:
            joining.annotation().describe(joined.transformation)
        return joined.name("Temporal join" if event_time else "Join latest")
