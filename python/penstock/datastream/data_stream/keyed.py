"""KeyedStream: a stream that is partitioned by key and has state for each key."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeVar, overload

from penstock.common.calls.former_keywords import former_keywords
from penstock.common.calls.names import nearest_hint
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RecordTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.datastream.annotations import Annotation
from penstock.datastream.data_stream.refused_settings import RefusedSettings
from penstock.datastream.data_stream.stream import DataStream, TypeArgument
from penstock.datastream.functions import (
    KeyedProcessFunction,
    KeySelector,
    Partitioner,
    ReduceFunction,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.computed import computed
from penstock.graph import operators
from penstock.graph.partitioners import PartitionerSpec
from penstock.graph.transformations import PartitionTransformation, ReduceTransformation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.aggregates import Aggregate
    from penstock.datastream.data_stream.cached import CachedDataStream
    from penstock.datastream.data_stream.interval_joined import IntervalJoin
    from penstock.datastream.data_stream.rankings import Results
    from penstock.datastream.data_stream.typed_functions import Processes
    from penstock.datastream.data_stream.windowed import WindowedStream
    from penstock.datastream.state_lifetime import Lifetime
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.window import WindowAssigner
    from penstock.expressions import Expression

T = TypeVar("T")
OUT = TypeVar("OUT")


class KeyedStream(RefusedSettings, DataStream[T], Generic[T]):
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
        if key_type is not None and _has_array(key_type):
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

    def process(self, func: Processes[T, OUT], output_type: TypeArgument = None) -> DataStream[OUT]:
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
    ) -> DataStream[Any]:
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
        from penstock.aggregates.resolution import key_fields, named_aggregates, result_type

        if emit not in ("batch", "running"):
            raise WrongArgumentError(f"aggregate: emit must be 'batch' or 'running', got {emit!r}")
        declared = self._origin._record_type()
        function, fields = named_aggregates(aggregates, declared, "aggregate")
        key = key_fields(self._key_selector, self._key_type, declared, key_names, "aggregate")
        of_rows = result_type([*zip(key.names, key.types, strict=True), *fields], "aggregate")
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
    ) -> DataStream[Any]:
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
        from penstock.datastream.data_stream.tables import batches_mapped

        return batches_mapped(self, func, schema, frame, key_names)

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

        return ranked(self, n, by, descending=descending, results=results, rank=rank, ttl=ttl)

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

        return deduplicated(self, keep, results, ttl)

    def _aggregate(
        self, position: int | str, accumulate_type: KeyedStream.AccumulateType
    ) -> DataStream[T]:
        operation: Any = accumulate_type.name.lower()
        return self._reduction(
            operators.AggregateField(operation, self._field(position, operation))
        )

    def _field(self, position: int | str, operation: str) -> int | str:
        """Check a field and return it; a name that the type has becomes a position.

        A negative position counts from the end, as in Python.
        """
        given: Any = position
        if not isinstance(given, (int, str)):
            raise InvalidProgramError(
                f"{operation} takes the position or the name of a field, got {given!r}"
            )
        row = self._origin._record_type()
        if isinstance(row, RecordTypeInfo):
            return _record_field(row, position, operation)
        if isinstance(row, RowTypeInfo) and isinstance(position, str):
            names = row.get_field_names()
            if position not in names:
                raise InvalidProgramError(
                    f"{operation}: {row} has no field {position!r}{nearest_hint(position, names)}"
                )
            return row.get_field_index(position)
        if isinstance(row, (RowTypeInfo, TupleTypeInfo)) and isinstance(position, int):
            count = len(row.get_field_types())
            if not -count <= position < count:
                raise InvalidProgramError(f"{operation}: {row} has no field {position}")
            return position % count
        if isinstance(row, TupleTypeInfo) and isinstance(position, str):
            raise InvalidProgramError(
                f"{operation}: the fields of {row} have no names, so there is no {position!r}: "
                "give the position, from 0, or declare a Types.ROW_NAMED"
            )
        return position if isinstance(position, str) else int(position)

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
        from penstock.datastream.data_stream.interval_joined import IntervalJoin

        given: Any = other
        if not isinstance(given, KeyedStream):
            raise InvalidProgramError(f"interval_join takes a KeyedStream, got {given!r}")
        return IntervalJoin(self, other)

    # Methods that a keyed stream does not support ---------------------------------------------

    def shuffle(self) -> NoReturn:
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("shuffle")

    def rebalance(self) -> NoReturn:
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("rebalance")

    def rescale(self) -> NoReturn:
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("rescale")

    def forward(self) -> NoReturn:
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("forward")

    def global_(self) -> NoReturn:
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("global_")

    def broadcast(self, *args: Any) -> NoReturn:  # noqa: ARG002
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("broadcast")

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

    def _refuse_partitioning(self, what: str) -> NoReturn:
        raise InvalidProgramError(
            f"{what}() cannot override the partitioning of a KeyedStream: call it on the stream "
            "before key_by"
        )


def _has_array(key_type: TypeInformation) -> bool:
    if isinstance(key_type, (RowTypeInfo, TupleTypeInfo)):
        return any(map(_has_array, key_type.get_field_types()))
    return isinstance(key_type, (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo))


def _record_field(record: RecordTypeInfo, field: int | str, operation: str) -> int | str:
    """Return the field of a record that an aggregation names, as a position for NamedTuples."""
    names = record.get_field_names()
    if isinstance(field, str) and field not in names:
        hint = nearest_hint(field, names)
        raise InvalidProgramError(f"{operation}: {record} has no field {field!r}{hint}")
    if isinstance(field, int) and record.is_tuple and not -len(names) <= field < len(names):
        raise InvalidProgramError(f"{operation}: {record} has no field {field}")
    return int(field) if isinstance(field, int) else field
