"""WindowedStream and AllWindowedStream: streams whose records are in windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from penstock.common.calls.former_keywords import former_keywords
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.time import Duration, Time
from penstock.common.typeinfo import (
    PickledBytesTypeInfo,
    TypeInformation,
    Types,
    as_type_information,
)
from penstock.datastream.annotations import Annotation, of_results
from penstock.datastream.data_stream.stream import DataStream, TypeArgument, type_argument
from penstock.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.shipping import shipped
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.datastream.window import Evictor, MergingWindowAssigner, Trigger, WindowAssigner
from penstock.datastream.window.assigners import whole_millis
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.computed import computed
from penstock.graph import operators
from penstock.graph.transformations import OneInputTransformation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from penstock.aggregates import Aggregate
    from penstock.datastream.data_stream.keyed import KeyedStream
    from penstock.datastream.data_stream.typed_functions import (
        Aggregates,
        ProcessesAll,
        ProcessesWindow,
    )
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

T = TypeVar("T")
OUT = TypeVar("OUT")

WINDOW_STATE_NAME = "window-contents"


class _AnyWindowedStream(MissingMethods, Generic[T]):
    """Common part of windows per key and windows over all records.

    Subclasses define the accepted window functions and the parallelism of the operator.
    """

    _window_function: type
    _process_function: type
    _all_windows: bool

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._keyed_stream.get_type()} in {self._assigner!r}>"

    def __init__(
        self, keyed_stream: KeyedStream[T], window_assigner: WindowAssigner[Any, Any]
    ) -> None:
        given: Any = window_assigner
        if not isinstance(given, WindowAssigner):
            raise InvalidProgramError(f"window takes a WindowAssigner, got {given!r}")
        self._keyed_stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor | None = None
        self._lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment of the program."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Return the type of the records in the windows."""
        return self._keyed_stream._plain().get_type()

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set the trigger, which decides when windows fire.

        Raises:
            InvalidProgramError: The argument is not a Trigger, or windows of ``window_all`` merge
                and the trigger cannot.
        """
        given: Any = trigger
        if not isinstance(given, Trigger):
            raise InvalidProgramError(f"trigger takes a Trigger, got {given!r}")
        # PyFlink lets windows of keyed streams pass: they fail when the first two merge.
        merges = self._all_windows and isinstance(self._assigner, MergingWindowAssigner)
        if merges and not trigger.can_merge():
            raise InvalidProgramError(
                f"{type(self._assigner).__name__} merges windows, which {type(trigger).__name__} "
                "does not support: its can_merge() must return True, and its on_merge() merge the "
                "trigger's state"
            )
        self._trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int | Duration | Time) -> Self:
        """Set the time for which a window accepts records after its end: ms, or a Duration.

        Raises:
            InvalidProgramError: The time is negative, not a number, or exceeds 64 bits.
        """
        if isinstance(time_ms, (Duration, Time)):
            time_ms = time_ms.to_millis()
        lateness_ms = whole_millis(time_ms, "allowed_lateness")
        if lateness_ms < 0:
            raise InvalidProgramError(f"a lateness cannot be negative, got {lateness_ms} ms")
        self._lateness_ms = lateness_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send late records to a side output."""
        given: Any = output_tag
        if not isinstance(given, OutputTag):
            raise InvalidProgramError(f"side_output_late_data takes an OutputTag, got {given!r}")
        self._late_tag = output_tag
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Set the evictor, which removes records when a window fires (beyond PyFlink)."""
        given: Any = evictor
        if not isinstance(given, Evictor):
            raise InvalidProgramError(f"evictor takes an Evictor, got {given!r}")
        self._evictor = evictor
        return self

    @overload
    def reduce(
        self, reduce_function: ReduceFunction | Callable[[T, T], T], window_function: None = None
    ) -> DataStream[T]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[T, T], T],
        window_function: ProcessesWindow[T, OUT] | ProcessesAll[T, OUT],
        output_type: TypeArgument = None,
    ) -> DataStream[OUT]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[T, T], T],
        window_function: Any = None,
        output_type: TypeArgument = None,
    ) -> DataStream[Any]: ...

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
        element = self._keyed_stream._plain().get_type()
        known = self._keyed_stream._plain()._record_type()
        fold = computed(reduce_function, "reduce", [known, known])
        check_function(fold, ReduceFunction, "reduce", or_callable=True)
        function = shipped(fold, "reduce")
        declared = self._keyed_stream.transformation.output_type
        if window_function is None and output_type is None:
            result: Any = declared
        else:
            result = type_argument(output_type, "reduce")
        descriptor = ReducingStateDescriptor(WINDOW_STATE_NAME, function, element)
        return self._window("reduce", function, window_function, descriptor, result)

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T, OUT],
        window_function: None = None,
        accumulator_type: TypeArgument = None,
        output_type: TypeArgument = None,
    ) -> DataStream[OUT]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: ProcessesWindow[Any, OUT] | ProcessesAll[Any, OUT],
        accumulator_type: TypeArgument = None,
        output_type: TypeArgument = None,
    ) -> DataStream[OUT]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction | Mapping[str, Aggregate],
        window_function: Any = None,
        accumulator_type: TypeArgument = None,
        output_type: TypeArgument = None,
    ) -> DataStream[Any]: ...

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
            given = (window_function, accumulator_type, output_type)
            if any(each is not None for each in given):
                raise WrongArgumentError(
                    "aggregate: a window function and types cannot be combined with named "
                    "aggregates: leave them out"
                )
            return self._aggregated(aggregate_function, key_names)
        if key_names is not None:
            raise WrongArgumentError(
                "aggregate: key_names needs named aggregates: pass a dictionary of aggregates, or "
                "leave it out"
            )
        check_function(aggregate_function, AggregateFunction, "aggregate", or_callable=False)
        function = shipped(aggregate_function, "aggregate")
        accumulator = (
            PickledBytesTypeInfo()
            if accumulator_type is None
            else as_type_information(accumulator_type, "aggregate")
        )
        descriptor = AggregatingStateDescriptor(WINDOW_STATE_NAME, function, accumulator)
        return self._window(
            "aggregate",
            function,
            window_function,
            descriptor,
            type_argument(output_type, "aggregate"),
        )

    def _aggregated(
        self, aggregates: Mapping[str, Aggregate], key_names: Sequence[str] | None
    ) -> DataStream[Any]:
        """Return the stream of the rows of named aggregates."""
        from penstock.aggregates.named import KeyFields
        from penstock.aggregates.resolution import key_fields, named_aggregates, result_type
        from penstock.aggregates.windows import AllWindowRows, KeyedWindowRows, has_bounds

        declared = self._keyed_stream._plain()._record_type()
        function, fields = named_aggregates(aggregates, declared, "aggregate")
        selector, key_type = self._keyed_stream._keys()
        keys = KeyFields((), (), is_tuple=True)
        if not self._all_windows:
            keys = key_fields(selector, key_type, declared, key_names, "aggregate")
        is_bounded = has_bounds(self._assigner)
        bounds = [(name, Types.LONG()) for name in ("window_start", "window_end")]
        of_rows = result_type(
            [
                *zip(keys.names, keys.types, strict=True),
                *(bounds if is_bounded else ()),
                *fields,
            ],
            "aggregate",
        )
        rows = AllWindowRows if self._all_windows else KeyedWindowRows
        shipped_function = shipped(function, "aggregate")
        return self._window(
            "aggregate",
            shipped_function,
            rows(keys, of_rows, has_bounds=is_bounded),
            AggregatingStateDescriptor(WINDOW_STATE_NAME, shipped_function, PickledBytesTypeInfo()),
            of_rows,
        )

    @former_keywords(result_type="output_type")
    def apply(self, window_function: Any, output_type: TypeArgument = None) -> DataStream[Any]:
        """Call a function with all records of each window when it fires."""
        check_function(window_function, self._window_function, "apply", or_callable=False)
        return self._listed("apply", window_function, output_type)

    @overload
    def process(
        self,
        process_window_function: ProcessesWindow[T, OUT] | ProcessesAll[T, OUT],
        output_type: TypeArgument = None,
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self, process_window_function: Any, output_type: TypeArgument = None
    ) -> DataStream[Any]: ...

    @former_keywords(result_type="output_type")
    def process(
        self, process_window_function: Any, output_type: TypeArgument = None
    ) -> DataStream[Any]:
        """Call a function with all records of each window when it fires, with state."""
        check_function(
            process_window_function, self._process_function, "process", or_callable=False
        )
        return self._listed("process", process_window_function, output_type)

    def apply_batches(
        self,
        func: Callable[[Any], Any],
        schema: Any = None,
        *,
        frame: str | None = None,
        key_names: Sequence[str] | None = None,
    ) -> DataStream[Any]:
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
        return self._listed("process", function, found.result_type)

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

    def _listed(
        self, kind: operators.WindowFunctionKind, function: Any, output_type: TypeArgument
    ) -> DataStream[Any]:
        descriptor = ListStateDescriptor(WINDOW_STATE_NAME, self._keyed_stream._plain().get_type())
        return self._window(
            kind, shipped(function, kind), None, descriptor, type_argument(output_type, kind)
        )

    def _window(
        self,
        kind: operators.WindowFunctionKind,
        function: Any,
        window_function: Any,
        state_descriptor: StateDescriptor,
        output_type: Any,
    ) -> DataStream[Any]:
        if window_function is not None and not isinstance(
            window_function, (self._window_function, self._process_function)
        ):
            raise InvalidProgramError(
                f"{kind} takes a {self._window_function.__name__} or a "
                f"{self._process_function.__name__} as window function, got {window_function!r}"
            )
        environment = self.get_execution_environment()
        trigger = self._trigger or self._assigner.get_default_trigger(environment)
        if self._evictor is not None:
            # An evictor receives the records themselves, so they are stored even if the function
            # could fold them.
            state_descriptor = ListStateDescriptor(
                WINDOW_STATE_NAME, self._keyed_stream._plain().get_type()
            )
        descriptor = operators.Window(
            function,
            function_kind=kind,
            assigner=shipped(self._assigner, "window"),
            trigger=shipped(trigger, "trigger"),
            evictor=shipped(self._evictor, "evictor"),
            window_function=shipped(window_function, kind),
            lateness_ms=self._lateness_ms,
            late_tag=None if self._late_tag is None else self._late_tag.tag_id,
            state_descriptor=state_descriptor,
        )
        key_selector, key_type = self._keyed_stream._keys()
        transformation = OneInputTransformation(
            self._keyed_stream.transformation,
            type(self._assigner).__name__,
            descriptor,
            output_type,
            1 if self._all_windows else environment.get_parallelism(),
            key_selector=key_selector,
            key_type=key_type,
        )
        if self._all_windows:
            transformation.set_max_parallelism(1)
        if output_type is None:
            self._annotation(kind, function, window_function).describe(transformation)
        environment.add_operator(transformation)
        return DataStream(environment, transformation, non_parallel=self._all_windows)

    def _annotation(
        self, kind: operators.WindowFunctionKind, function: Any, window_function: Any
    ) -> Annotation:
        """Return the type of the results from the annotation of the function that emits them."""
        if kind == "reduce" and window_function is None:
            return Annotation(self._keyed_stream._kept_annotation())
        if kind == "aggregate" and window_function is None:
            return of_results(function, "get_result")
        last = function if window_function is None else window_function
        method = "process" if isinstance(last, self._process_function) else "apply"
        return of_results(last, method, elements=True)


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
