"""DataStream: a stream of records of one type, and its transformations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from penstock.common.calls.former_keywords import former_keywords
from penstock.common.calls.names import checked_name
from penstock.common.typeinfo import Types
from penstock.datastream.annotations import NOTHING, Annotation, of_results
from penstock.datastream.data_stream.one_input import one_input, projection, timestamps
from penstock.datastream.data_stream.outputs import StreamOutputs
from penstock.datastream.data_stream.partitioning import (
    BroadcastStream,
    broadcast_states,
    custom_partitioner,
)
from penstock.datastream.data_stream.two_inputs import check_same_type
from penstock.datastream.data_stream.type_arguments import TypeArgument, Undeclared, type_argument
from penstock.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    OutputSelector,
    ProcessFunction,
)
from penstock.datastream.functions.function import check_function, warn_of_generator
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.computed import result_type
from penstock.graph import operators
from penstock.graph.partitioners import PartitionerSpec
from penstock.graph.transformations import (
    FeedbackTransformation,
    PartitionTransformation,
    PhysicalTransformation,
    SideOutputTransformation,
    SplitTransformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.common.basic_types import TypeInformation
    from penstock.common.types import Row
    from penstock.common.watermark_strategy import WatermarkStrategy
    from penstock.datastream.data_stream.connected import (
        BroadcastConnectedStream,
        ConnectedStreams,
        IterativeStream,
        JoinedStreams,
        SplitStream,
    )
    from penstock.datastream.data_stream.keyed import (
        CachedDataStream,
        KeyedStream,
        LatestJoinedStreams,
    )
    from penstock.datastream.data_stream.type_arguments import RESULT, Declared
    from penstock.datastream.data_stream.typed_functions import FlatMaps, Maps, Processes
    from penstock.datastream.data_stream.windowed import (
        AllWindowedStream,
        CoGroupedStreams,
        PartitionWindowedStream,
    )
    from penstock.datastream.functions import Partitioner
    from penstock.datastream.operators import OneInputStreamOperator
    from penstock.datastream.state import MapStateDescriptor
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.window import WindowAssigner
    from penstock.expressions import Expression
    from penstock.graph.transformations import Transformation

#: For each call that adds an operator: the function's method, and whether it yields many results.
_RESULTS: Final = {
    "map": ("map", False),
    "flat_map": ("flat_map", True),
    "process": ("process_element", True),
    "keyed_process": ("process_element", True),
}

T = TypeVar("T")
OUT = TypeVar("OUT")


class DataStream(StreamOutputs[T], Generic[T]):
    """A stream of records of one type."""

    _environment: StreamExecutionEnvironment

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        transformation: Transformation,
        *,
        non_parallel: bool = False,
    ) -> None:
        """Wrap a transformation; environments and streams create streams."""
        super().__init__(environment, transformation, non_parallel=non_parallel)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment of the program."""
        return self._environment

    # Record by record -----------------------------------------------------------------------

    @overload
    def map(
        self, func: Callable[[T], object] | Maps[T, object], output_type: TypeInformation[OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def map(
        self, func: Callable[[T], OUT] | Maps[T, OUT], output_type: Undeclared = None
    ) -> DataStream[OUT]: ...

    def map(
        self, func: Callable[[T], Any] | Maps[T, Any], output_type: TypeArgument = None
    ) -> DataStream[Any]:
        """Convert each record to one result.

        Args:
            func: A MapFunction or a callable.
            output_type: The type of the results; by default any Python value.

        Raises:
            InvalidProgramError: An argument has the wrong type, or cannot be pickled.
        """
        function = self._function(func, "map")
        check_function(function, MapFunction, "map", or_callable=True)
        warn_of_generator(function)
        return self._one_input(
            operators.Map, "map", "Map", function, result_type(function, output_type)
        )

    def map_batches(
        self, func: Callable[[Any], Any], schema: Any = None, *, frame: str | None = None
    ) -> DataStream[Row]:
        """Call a function with a few thousand records at a time, as columns (beyond PyFlink).

        The function receives a ``pyarrow.RecordBatch`` and returns one, with any number of rows.
        If its parameter is annotated as a pandas or Polars frame, or ``frame`` says so, it receives
        and returns such frames.  If it returns as many rows as it received, they keep their
        timestamps in order; otherwise all rows get the latest timestamp of the batch.  Records that
        arrive one by one are gathered for at most 50 ms, and never past a watermark or a
        checkpoint.

        Args:
            func: The function; its methods ``open`` and ``close`` are called if it has them.
            schema: The type of the returned rows: a row type, or an Arrow schema; None if the
                result is annotated as ``Annotated[pyarrow.RecordBatch, schema]``, or as such a
                frame.
            frame: "arrow", "pandas" or "polars"; by default that of the annotation, or "arrow".

        Raises:
            InvalidProgramError: The stream has no declared type, the schema is missing or neither
                a row type nor a schema, or the function cannot be pickled.
            WrongArgumentError: The function is not callable or takes no single batch, or the kind
                of frame is unknown.
            DependencyError: pyarrow is not installed.
        """
        from penstock.datastream.data_stream.tables import operator_of_batches

        operator = operator_of_batches(self, func, schema, frame, None)
        return self._typed_one_input(operator, "Map batches", operator.result_type)

    @overload
    def flat_map(
        self,
        func: Callable[[T], Iterable[object]] | FlatMaps[T, object],
        output_type: TypeInformation[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def flat_map(
        self,
        func: Callable[[T], Iterable[OUT]] | FlatMaps[T, OUT],
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    @former_keywords(result_type="output_type")
    def flat_map(
        self,
        func: Callable[[T], Iterable[Any]] | FlatMaps[T, Any],
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Convert each record to any number of results; see `map` for the arguments."""
        function = self._function(func, "flat_map", wanted="list")
        check_function(function, FlatMapFunction, "flat_map", or_callable=True)
        declared = output_type
        if declared is None:
            declared = getattr(result_type(function, None), "element_type", None)
        return self._one_input(operators.FlatMap, "flat_map", "FlatMap", function, declared)

    def filter(self, func: Callable[[T], Any] | FilterFunction) -> DataStream[T]:
        """Keep the records for which the function returns true; the type does not change."""
        function = self._function(func, "filter", wanted="boolean")
        check_function(function, FilterFunction, "filter", or_callable=True)
        return self._typed_one_input(
            operators.Filter(shipped(function, "filter")),
            "Filter",
            self._transformation.output_type,
            Annotation(self._kept_annotation()),
        )

    @overload
    def process(
        self, func: Processes[T, object], output_type: TypeInformation[OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self, func: Processes[T, OUT], output_type: Undeclared = None
    ) -> DataStream[OUT]: ...

    def process(self, func: Processes[T, Any], output_type: TypeArgument = None) -> DataStream[Any]:
        """Convert each record to any number of results, with timestamps and side outputs."""
        check_function(func, ProcessFunction, "process", or_callable=False)
        return self._one_input(operators.Process, "process", "PROCESS", func, output_type)

    def transform(
        self, name: str, output_type: Declared[RESULT], operator: OneInputStreamOperator
    ) -> DataStream[RESULT]:
        """Add a custom operator (beyond PyFlink).

        Args:
            name: The name of the operator.
            output_type: The type of the results; by default any Python value.
            operator: The operator; each subtask runs a copy.  On a keyed stream it has keyed state
                and timers.

        Raises:
            WrongArgumentError: The operator is not a `OneInputStreamOperator`.
            InvalidProgramError: The operator cannot be pickled, or the name cannot be sent.
        """
        from penstock.datastream.operators import OneInputStreamOperator

        check_function(operator, OneInputStreamOperator, "transform", or_callable=False)
        descriptor = operators.Transform(shipped(operator, "transform"))
        return self._typed_one_input(
            descriptor, checked_name("an operator", name), type_argument(output_type, "transform")
        )

    def with_broadcast_set(self, stream: DataStream[Any], name: str) -> DataStream[T]:
        """Give the operator's function all records of another stream (beyond PyFlink).

        For BATCH execution.  Each subtask reads the other stream before its own input, and
        ``runtime_context.get_broadcast_variable(name)`` returns its records as a list, also in
        ``open``.

        Args:
            stream: The other stream; its records must fit into the memory of a subtask.
            name: The name of the set.

        Raises:
            InvalidProgramError: The operator does not have one input and a function, already has
                a set with this name, or the other stream depends on its results.
        """
        from penstock.datastream.data_stream.broadcast_sets import add_broadcast_set

        add_broadcast_set(self, stream, name)
        return self

    def as_records(self, record_class: type[OUT]) -> DataStream[OUT]:
        """Convert rows, dictionaries or tuples to instances of a class (beyond PyFlink).

        Fields are matched by name, or by position for tuples and rows without names.  A missing
        field gets the default of the class, and fields that the class lacks are dropped.

        Args:
            record_class: A dataclass, NamedTuple, TypedDict, pydantic model or attrs class.

        Raises:
            InvalidProgramError: The class has no fields, or requires a field that the type of the
                stream does not have.
        """
        from penstock.datastream.data_stream.record_conversion import converter_of

        function, declared = converter_of(self, record_class)
        return self._unkeyed().map(function, declared).name("As records")

    def project(self, *field_indexes: int) -> DataStream[tuple[Any, ...]]:
        """Keep the given fields of tuples, in the given order.

        Raises:
            InvalidProgramError: The records are not tuples, or a field does not exist.
        """
        operator, declared = projection(self._plain().get_type(), field_indexes)
        return self._unkeyed()._typed_one_input(operator, "Projection", declared)

    def assign_timestamps_and_watermarks(
        self, watermark_strategy: WatermarkStrategy
    ) -> DataStream[T]:
        """Assign timestamps and generate watermarks; they replace those of the input.

        Raises:
            InvalidProgramError: The strategy aligns watermarks, which only sources can do.
        """
        transformation = timestamps(self, watermark_strategy)
        return self._add(transformation, Annotation(self._kept_annotation()))

    # The subtask of each record ---------------------------------------------------------------

    def shuffle(self) -> DataStream[T]:
        """Distribute records at random."""
        return self._partitioned(PartitionerSpec("SHUFFLE"))

    def rebalance(self) -> DataStream[T]:
        """Distribute records in turn over all subtasks."""
        return self._partitioned(PartitionerSpec("REBALANCE"))

    def rescale(self) -> DataStream[T]:
        """Distribute the records of each subtask in turn over a part of the next subtasks."""
        return self._partitioned(PartitionerSpec("RESCALE"))

    def forward(self) -> DataStream[T]:
        """Send records to the subtask with the same number."""
        return self._partitioned(PartitionerSpec("FORWARD"))

    def global_(self) -> DataStream[T]:
        """Send all records to the first subtask (beyond PyFlink)."""
        return self._partitioned(PartitionerSpec("GLOBAL"))

    @overload
    def broadcast(self) -> DataStream[T]: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream | DataStream[T]:
        """Send each record to all subtasks; with descriptors, as broadcast state.

        Raises:
            InvalidProgramError: A descriptor is not a MapStateDescriptor.
        """
        partitioned = self._partitioned(PartitionerSpec("BROADCAST"))
        if broadcast_state_descriptor is None:
            return partitioned
        descriptors = [broadcast_state_descriptor, *other_broadcast_state_descriptors]
        return BroadcastStream(partitioned, broadcast_states(descriptors))

    def partition_custom(
        self,
        partitioner: Partitioner | Callable[[Any, int], int | Sequence[int]],
        key_selector: KeySelector | Callable[[T], Any],
    ) -> DataStream[T]:
        """Distribute records by a function that selects the subtask.

        Args:
            partitioner: A function of a key and the downstream parallelism that returns the number
                of the subtask; beyond PyFlink, it may return several in a list or tuple.
            key_selector: A function that returns the key of a record.
        """
        return self._partitioned(custom_partitioner(self, partitioner, key_selector))

    def _partitioned(self, partitioner: PartitionerSpec) -> DataStream[T]:
        transformation = PartitionTransformation(self._transformation, partitioner)
        return DataStream(self._environment, transformation)

    # Several streams --------------------------------------------------------------------------

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """Return all records of this stream and others of its type.

        The union has no key, but records of a keyed stream reach the subtask of their key.

        Raises:
            InvalidProgramError: A stream has another type.
        """
        for stream in streams:
            check_same_type(self._plain(), _plain_of(stream, "union"))
        if not streams:
            return self._unkeyed()
        members = [stream._transformation for stream in (self, *streams)]
        return DataStream(self._environment, UnionTransformation(members))

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    @overload
    def connect(self, ds: DataStream[Any]) -> ConnectedStreams: ...

    def connect(
        self, ds: DataStream[Any] | BroadcastStream
    ) -> ConnectedStreams | BroadcastConnectedStream:
        """Connect two streams, of any types, for functions that process both."""
        from penstock.datastream.data_stream.connected import (
            BroadcastConnectedStream,
            ConnectedStreams,
        )

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        given: Any = ds
        if not isinstance(given, DataStream):
            raise InvalidProgramError(
                f"connect takes a DataStream or a BroadcastStream, got {given!r}"
            )
        return ConnectedStreams(self, ds)

    def join(self, other: DataStream[OUT]) -> JoinedStreams[T, OUT]:
        """Join records with the same key, in windows or without them (beyond PyFlink)."""
        from penstock.datastream.data_stream.connected import JoinedStreams

        return JoinedStreams(self._plain(), _plain_of(other, "join"))

    def join_latest(
        self, other: DataStream[OUT], *, broadcast: bool = False
    ) -> LatestJoinedStreams[T, OUT]:
        """Join each record with the latest record of its key in another stream (beyond PyFlink).

        ``where(…).equal_to(…)`` select the keys, and ``apply(function)`` computes the results.

        Args:
            other: A stream of which only the latest record of each key counts, such as the rows of
                a table.  A row of the kind -D removes its key.
            broadcast: True sends the other stream, which must be small, to all subtasks; otherwise
                both streams are partitioned by key.
        """
        from penstock.datastream.data_stream.keyed import LatestJoinedStreams

        latest = _plain_of(other, "join_latest")
        return LatestJoinedStreams(self._plain(), latest, broadcast=broadcast)

    def co_group(self, other: DataStream[OUT]) -> CoGroupedStreams[T, OUT]:
        """Group records of two streams by key and window (beyond PyFlink)."""
        from penstock.datastream.data_stream.windowed import CoGroupedStreams

        return CoGroupedStreams(self._plain(), _plain_of(other, "co_group"))

    def split(
        self, output_selector: OutputSelector | Callable[[T], Iterable[str]]
    ) -> SplitStream[T]:
        """Assign names to records, for `SplitStream.select` (beyond PyFlink)."""
        from penstock.datastream.data_stream.connected import SplitStream

        check_function(output_selector, OutputSelector, "split", or_callable=True)
        return SplitStream(
            self._environment,
            SplitTransformation(self._transformation, shipped(output_selector, "split")),
        )

    def iterate(self, max_wait_time_ms: int = 0) -> IterativeStream[T]:
        """Start an iteration: a loop in which records flow back (beyond PyFlink).

        Args:
            max_wait_time_ms: The iteration ends when no record has flowed back for this time, even
                if its input continues; 0 waits until the input has ended and the loop is empty.
        """
        from penstock.datastream.data_stream.connected import IterativeStream

        return IterativeStream(
            self._environment, FeedbackTransformation(self._transformation, max_wait_time_ms)
        )

    def cache(self) -> CachedDataStream[T]:
        """Return a stream that later jobs of the environment may use again."""
        from penstock.datastream.data_stream.keyed import CachedDataStream

        return CachedDataStream(self)

    def get_side_output(self, output_tag: OutputTag[OUT]) -> DataStream[OUT]:
        """Return the stream of the records that the operator emits with a tag.

        Raises:
            InvalidProgramError: The tag was used before with another type.
        """
        given: Any = output_tag
        if not isinstance(given, OutputTag):
            raise WrongArgumentError(f"get_side_output takes an OutputTag, got {given!r}")
        operator = self._operator("get_side_output")
        self._environment.register_side_output(operator, output_tag)
        return DataStream(
            self._environment,
            SideOutputTransformation(operator, output_tag.tag_id, output_tag.type_info),
        )

    # Keys and windows -------------------------------------------------------------------------

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
        """Partition the stream by key: one subtask receives a key's records and holds its state.

        Beyond PyFlink, fields may be named: ``key_by("user")``, ``key_by("user", "day")``,
        ``key_by(field("user"))``.  The key of several fields is a tuple.

        Args:
            key_selector: A KeySelector or a callable, or the first field of the key.
            key_type: The type of the keys, as the last argument; by default any Python value.
            fields: More fields.

        Raises:
            InvalidProgramError: The type of the records is known and has no such field.
        """
        from penstock.datastream.data_stream import key_fields
        from penstock.datastream.data_stream.keyed import KeyedStream

        parts, key_type = key_fields.key_type_apart(key_selector, key_type, *fields)
        given = key_fields.key_selector_of(parts, self._plain()._record_type())
        selector = key_fields.shipped_selector(self._function(given, "key_by"), key_type)
        return KeyedStream(self._environment, self._plain(), *selector)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream[T]:
        """Assign all records to windows, in one subtask."""
        from penstock.datastream.data_stream.windowed import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    def full_window_partition(self) -> PartitionWindowedStream[T]:
        """Collect all records of each subtask, or of each key, until the end (beyond PyFlink)."""
        from penstock.datastream.data_stream.windowed import PartitionWindowedStream

        return PartitionWindowedStream(self)

    def _null_keyed(self) -> KeyedStream[T]:
        return self.key_by(NullByteKeySelector(), Types.INT())

    # For the builders -------------------------------------------------------------------------

    def _plain(self) -> DataStream[T]:
        """Return the stream before its `key_by`."""
        return self

    def _unkeyed(self) -> DataStream[T]:
        """Return the stream without keys; its records still reach the subtask of their key."""
        return self

    def _one_input(
        self,
        kind: type[operators.FunctionDescriptor],
        method: str,
        name: str,
        func: Any,
        output_type: TypeArgument,
    ) -> DataStream[Any]:
        operator = kind(shipped(func, method))
        declared = type_argument(output_type, method)
        called, elements = _RESULTS[method]
        annotation = of_results(func, called, elements=elements) if declared is None else NOTHING
        return self._typed_one_input(operator, name, declared, annotation)

    def _typed_one_input(
        self,
        operator: operators.OperatorDescriptor,
        name: str,
        output_type: Any,
        annotation: Annotation = NOTHING,
    ) -> DataStream[Any]:
        return self._add(one_input(self, operator, name, output_type), annotation)

    def _add(
        self, transformation: PhysicalTransformation, annotation: Annotation = NOTHING
    ) -> DataStream[Any]:
        self._register(transformation, annotation)
        return DataStream(self._environment, transformation)


def _plain_of(given: Any, where: str) -> DataStream[Any]:
    """Return another stream before its `key_by`.

    Raises:
        WrongArgumentError: The argument is no stream.
    """
    if not isinstance(given, DataStream):
        raise WrongArgumentError(f"{where} takes a DataStream, got {given!r}")
    return given._plain()
