"""Settings of windows, and the operators that they build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.time import Duration, Time
from penstock.common.typeinfo import (
    PickledBytesTypeInfo,
    TypeInformation,
    Types,
    as_type_information,
)
from penstock.datastream.annotations import Annotation, of_results
from penstock.datastream.data_stream.type_arguments import TypeArgument, type_argument
from penstock.datastream.functions import AggregateFunction, ReduceFunction
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
from penstock.errors import InvalidProgramError
from penstock.expressions.computed import computed
from penstock.graph import operators
from penstock.graph.transformations import OneInputTransformation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from penstock.aggregates import Aggregate
    from penstock.datastream.data_stream.settings import StreamSettings

WINDOW_STATE_NAME: Final = "window-contents"


class WindowSettings(MissingMethods):
    """Assigner, trigger, evictor, lateness and late records of windows.

    Subclasses define the accepted window functions and the parallelism of the operator.
    """

    _window_function: type
    _process_function: type
    _all_windows: bool

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._keyed_stream.get_type()} in {self._assigner!r}>"

    def __init__(
        self, keyed_stream: StreamSettings, window_assigner: WindowAssigner[Any, Any]
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

    def _folded(
        self, reduce_function: Any, window_function: Any, output_type: TypeArgument
    ) -> OneInputTransformation:
        """Return the operator of windows that fold their records."""
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

    def _accumulated(
        self,
        aggregate_function: Any,
        window_function: Any,
        accumulator_type: TypeArgument,
        output_type: TypeArgument,
    ) -> OneInputTransformation:
        """Return the operator of windows with an accumulator."""
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
    ) -> OneInputTransformation:
        """Return the operator of windows with named aggregates."""
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

    def _listed(
        self, kind: operators.WindowFunctionKind, function: Any, output_type: TypeArgument
    ) -> OneInputTransformation:
        """Return the operator of windows that keep their records."""
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
    ) -> OneInputTransformation:
        if window_function is not None and not isinstance(
            window_function, (self._window_function, self._process_function)
        ):
            raise InvalidProgramError(
                f"{kind} takes a {self._window_function.__name__} or a "
                f"{self._process_function.__name__} as window function, got {window_function!r}"
            )
        environment = self._keyed_stream._environment
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
        return transformation

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
