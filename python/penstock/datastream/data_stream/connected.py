"""Streams of several streams: connected, broadcast, joined, fed back, and their split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from penstock.common.calls.former_keywords import former_keywords
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.calls.names import checked_name
from penstock.datastream.annotations import NOTHING, Annotation
from penstock.datastream.data_stream.iterative import check_descends
from penstock.datastream.data_stream.join_functions import How, Joining, outer_sides
from penstock.datastream.data_stream.joined import (
    ONE,
    OTHER,
    _JoinWindow,
    _TwoKeyedStreams,
    _WithWindow,
    join_by_key,
    refuse_expiry,
)
from penstock.datastream.data_stream.keyed import KeyedStream
from penstock.datastream.data_stream.stream import DataStream
from penstock.datastream.data_stream.two_inputs import (
    annotation_of_both,
    beside_broadcast,
    common_key_type,
    two_inputs,
)
from penstock.datastream.data_stream.type_arguments import TypeArgument, Undeclared, type_argument
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeySelector,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError
from penstock.expressions.computed import result_type
from penstock.graph import operators
from penstock.graph.transformations import (
    CoFeedbackTransformation,
    FeedbackTransformation,
    SelectTransformation,
    SplitTransformation,
    TwoInputTransformation,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.time import Duration, Time
    from penstock.common.typeinfo import TypeInformation
    from penstock.common.types import Row
    from penstock.datastream.data_stream.join_functions import JoinContext
    from penstock.datastream.data_stream.partitioning import BroadcastStream
    from penstock.datastream.data_stream.type_arguments import RESULT, Declared
    from penstock.datastream.data_stream.typed_functions import (
        CoFlatMaps,
        CoMaps,
        CoProcesses,
        Joins,
        ProcessesBroadcast,
    )
    from penstock.datastream.functions import FlatJoinFunction
    from penstock.datastream.operators import TwoInputStreamOperator
    from penstock.datastream.state import MapStateDescriptor
    from penstock.datastream.state_lifetime import Lifetime
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.window import WindowAssigner

T = TypeVar("T")
OUT = TypeVar("OUT")
#: The records of the two streams of a join in windows.
LEFT_T = TypeVar("LEFT_T")
RIGHT_T = TypeVar("RIGHT_T")


class ConnectedStreams(MissingMethods):
    """Two streams of any types, with or without keys."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.stream1!r} and {self.stream2!r}>"

    def __init__(self, stream1: DataStream[Any], stream2: DataStream[Any]) -> None:
        """Connect two streams; use `DataStream.connect`."""
        self.stream1 = stream1
        self.stream2 = stream2

    @former_keywords(key_type_info="key_type")
    def key_by(
        self,
        key_selector1: Callable[[Any], Any] | KeySelector,
        key_selector2: Callable[[Any], Any] | KeySelector,
        key_type: TypeArgument = None,
    ) -> ConnectedStreams:
        """Partition both streams by key: one subtask receives all records of a key.

        Args:
            key_selector1: A function that returns the key of a record of the first stream.
            key_selector2: A function that returns the key of a record of the second stream.
            key_type: The type of both streams' keys.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type),
            self.stream2.key_by(key_selector2, key_type),
        )

    @overload
    def map(self, func: CoMaps[object], output_type: TypeInformation[OUT]) -> DataStream[OUT]: ...

    @overload
    def map(self, func: CoMaps[OUT], output_type: Undeclared = None) -> DataStream[OUT]: ...

    def map(self, func: CoMaps[Any], output_type: TypeArgument = None) -> DataStream[Any]:
        """Convert each record to one result; None is not emitted."""
        check_function(func, CoMapFunction, "ConnectedStreams.map", or_callable=False)
        return self._two_input(operators.CoMap, "co_map", "Co-Map", func, output_type)

    @overload
    def flat_map(
        self, func: CoFlatMaps[object], output_type: TypeInformation[OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def flat_map(
        self, func: CoFlatMaps[OUT], output_type: Undeclared = None
    ) -> DataStream[OUT]: ...

    def flat_map(self, func: CoFlatMaps[Any], output_type: TypeArgument = None) -> DataStream[Any]:
        """Convert each record to any number of results."""
        check_function(func, CoFlatMapFunction, "ConnectedStreams.flat_map", or_callable=False)
        return self._two_input(operators.CoFlatMap, "co_flat_map", "Co-Flat Map", func, output_type)

    @overload
    def process(
        self, func: CoProcesses[object], output_type: TypeInformation[OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self, func: CoProcesses[OUT], output_type: Undeclared = None
    ) -> DataStream[OUT]: ...

    def process(self, func: CoProcesses[Any], output_type: TypeArgument = None) -> DataStream[Any]:
        """Convert each record to any number of results, with timestamps, and state if keyed.

        A CoProcessFunction works on keyed streams, too; it has no method for timers.
        """
        if self._is_keyed():
            plain = isinstance(func, CoProcessFunction)
            wanted = CoProcessFunction if plain else KeyedCoProcessFunction
            check_function(func, wanted, "process of keyed streams", or_callable=False)
            return self._two_input(
                operators.KeyedCoProcess, "keyed_co_process", "Keyed Co-Process", func, output_type
            )
        check_function(func, CoProcessFunction, "ConnectedStreams.process", or_callable=False)
        return self._two_input(operators.CoProcess, "co_process", "Co-Process", func, output_type)

    def transform(
        self, name: str, output_type: Declared[RESULT], operator: TwoInputStreamOperator
    ) -> DataStream[RESULT]:
        """Add a custom operator with two inputs (beyond PyFlink).

        Args:
            name: The name of the operator.
            output_type: The type of the results; by default any Python value.
            operator: The operator; each subtask runs a copy.  If both streams are keyed it has
                keyed state and timers.

        Raises:
            WrongArgumentError: The operator is not a `TwoInputStreamOperator`.
            InvalidProgramError: The operator cannot be pickled, only one of the streams is keyed,
                or the name cannot be sent.
        """
        from penstock.datastream.operators import TwoInputStreamOperator

        where = "ConnectedStreams.transform"
        check_function(operator, TwoInputStreamOperator, where, or_callable=False)
        return self._connected(
            checked_name("an operator", name),
            operators.Transform(shipped(operator, where)),
            type_argument(output_type, where),
        )

    def _is_keyed(self) -> bool:
        keyed = [isinstance(stream, KeyedStream) for stream in (self.stream1, self.stream2)]
        if keyed[0] != keyed[1]:
            raise InvalidProgramError("connect two keyed streams or two without keys, not one each")
        return keyed[0]

    def _two_input(
        self,
        kind: type[operators.FunctionDescriptor],
        method: str,
        name: str,
        func: Any,
        output_type: TypeArgument,
    ) -> DataStream[Any]:
        operator, declared = kind(shipped(func, method)), type_argument(output_type, method)
        return self._connected(name, operator, declared, annotation_of_both(func, method))

    def _connected(
        self,
        name: str,
        operator: operators.OperatorDescriptor,
        output_type: TypeInformation | None,
        annotation: Annotation = NOTHING,
    ) -> DataStream[Any]:
        self._is_keyed()
        selector1, key_type1 = self.stream1._keys()
        selector2, key_type2 = self.stream2._keys()
        transformation = two_inputs(
            TwoInputTransformation,
            (self.stream1, self.stream2),
            name,
            operator,
            output_type,
            (selector1, selector2),
            common_key_type(key_type1, key_type2),
        )
        return self.stream1._add(transformation, annotation if output_type is None else NOTHING)


class BroadcastConnectedStream(MissingMethods):
    """A stream connected to a broadcast stream."""

    def __init__(
        self,
        non_broadcast_stream: DataStream[Any],
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        """Use `DataStream.connect`."""
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def __repr__(self) -> str:
        parts = f"{self.non_broadcast_stream!r} and {self.broadcast_stream!r}"
        return f"<BroadcastConnectedStream of {parts}>"

    @overload
    def process(
        self, func: ProcessesBroadcast[object], output_type: TypeInformation[OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self, func: ProcessesBroadcast[OUT], output_type: Undeclared = None
    ) -> DataStream[OUT]: ...

    def process(
        self, func: ProcessesBroadcast[Any], output_type: TypeArgument = None
    ) -> DataStream[Any]:
        """Convert each record to any number of results, with broadcast state.

        Args:
            func: A KeyedBroadcastProcessFunction beside a keyed stream, else a
                BroadcastProcessFunction.
            output_type: The type of the results.
        """
        keyed = isinstance(self.non_broadcast_stream, KeyedStream)
        wanted = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
        check_function(func, wanted, "BroadcastConnectedStream.process", or_callable=False)
        streams = self.non_broadcast_stream, self.broadcast_stream.input_stream
        transformation = beside_broadcast(streams, func, output_type, keyed=keyed)
        return self.non_broadcast_stream._add(transformation)


class JoinedStreams(_TwoKeyedStreams[ONE, OTHER]):
    """Two streams whose records with the same key, and window if any, are joined."""

    @overload
    def apply(
        self,
        function: FlatJoinFunction,
        output_type: TypeArgument = None,
        *,
        how: How = "inner",
        ttl: Lifetime | tuple[Lifetime, Lifetime] = None,
        deadline: Duration | Time | None = None,
    ) -> DataStream[Any]: ...

    @overload
    def apply(
        self,
        function: Callable[[ONE, OTHER], OUT] | Joins[OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["inner"] = "inner",
        ttl: Lifetime | tuple[Lifetime, Lifetime] = None,
        deadline: Duration | Time | None = None,
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: Callable[[ONE, OTHER, JoinContext], OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["inner"] = "inner",
        ttl: Lifetime | tuple[Lifetime, Lifetime] = None,
        deadline: Duration | Time | None = None,
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: Callable[[ONE, OTHER | None], OUT] | Joins[OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["left"],
        ttl: None = None,
        deadline: Duration | Time,
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: Callable[[ONE | None, OTHER], OUT] | Joins[OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["right"],
        ttl: None = None,
        deadline: Duration | Time,
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: Callable[[ONE | None, OTHER | None], OUT] | Joins[OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["full"],
        ttl: None = None,
        deadline: Duration | Time,
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: Callable[[Any, Any, JoinContext], OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["left", "right", "full"],
        ttl: None = None,
        deadline: Duration | Time,
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: Callable[..., Any] | Joins[Any],
        output_type: TypeArgument = None,
        *,
        how: Literal["left", "right", "full"],
        ttl: Lifetime | tuple[Lifetime, Lifetime] = None,
        deadline: None = None,
    ) -> DataStream[Row]: ...

    def apply(
        self,
        function: Any,
        output_type: TypeArgument = None,
        *,
        how: How = "inner",
        ttl: Lifetime | tuple[Lifetime, Lifetime] = None,
        deadline: Duration | Time | None = None,
    ) -> DataStream[Any]:
        """Call a function with each pair of records with the same key (beyond PyFlink).

        An inner join emits the results unchanged.  Without a deadline, the results of an outer join
        are change rows: a record without a match is joined with None (+I), and this result is
        retracted (-D) when the first match arrives.  Each side may consist of change rows.

        Args:
            function: A JoinFunction or callable that returns one record, or a FlatJoinFunction that
                returns any number.  If it has a third parameter ``ctx``, it also receives a
                `JoinContext`.  It must return the same results for the same pair.
            output_type: The type of the results of an inner join, or of a join with a deadline.
            how: The sides whose records are also joined without a match: "inner" for none, "left",
                "right" or "full".
            ttl: The lifetime of records in state: one for both sides, or a pair.
            deadline: The largest difference between the times of a pair.  A record without a match
                is joined with None once, when the deadline has passed, and is not retracted.

        Raises:
            InvalidProgramError: The keys are not selected, or the arguments exclude each other.
        """
        where = "join apply"
        outer = outer_sides(how, where, ("inner", "left", "right", "full"))
        joining = Joining(function, [side._record_type() for side in self._streams], where)
        changes = deadline is None and any(outer)
        declared = result_type(joining.function, output_type)
        joined = join_by_key(joining, outer, ttl, deadline)
        if changes and output_type is not None:
            raise InvalidProgramError(
                f"{where}: the results of an outer join without a deadline are rows that change: "
                "leave out output_type, or give a deadline"
            )
        results: DataStream[Any] = self._joined(joined, None if changes else declared)
        if changes or declared is None:
            joining.annotation(as_changes=changes).describe(results.transformation)
        return results.name("Join")

    def window(
        self, window_assigner: WindowAssigner[Any, Any]
    ) -> JoinedStreams.WithWindow[ONE, OTHER]:
        """Assign the records of both streams to windows."""
        return JoinedStreams.WithWindow(self, window_assigner)

    class WithWindow(_WithWindow[LEFT_T, RIGHT_T]):
        """Joined streams in windows."""

        @overload
        def apply(
            self, function: FlatJoinFunction, output_type: TypeArgument = None, *, how: How = ...
        ) -> DataStream[Any]: ...

        @overload
        def apply(
            self,
            function: Callable[[LEFT_T, RIGHT_T], OUT] | Joins[OUT],
            output_type: TypeArgument = None,
            *,
            how: Literal["inner"] = "inner",
        ) -> DataStream[OUT]: ...

        @overload
        def apply(
            self,
            function: Callable[[LEFT_T, RIGHT_T, JoinContext], OUT],
            output_type: TypeArgument = None,
            *,
            how: Literal["inner"] = "inner",
        ) -> DataStream[OUT]: ...

        @overload
        def apply(
            self,
            function: Callable[[LEFT_T, RIGHT_T | None], OUT] | Joins[OUT],
            output_type: TypeArgument = None,
            *,
            how: Literal["left"],
        ) -> DataStream[OUT]: ...

        @overload
        def apply(
            self,
            function: Callable[[LEFT_T | None, RIGHT_T], OUT] | Joins[OUT],
            output_type: TypeArgument = None,
            *,
            how: Literal["right"],
        ) -> DataStream[OUT]: ...

        @overload
        def apply(
            self,
            function: Callable[[LEFT_T | None, RIGHT_T | None], OUT] | Joins[OUT],
            output_type: TypeArgument = None,
            *,
            how: Literal["full"],
        ) -> DataStream[OUT]: ...

        @overload
        def apply(
            self,
            function: Callable[[Any, Any, JoinContext], OUT],
            output_type: TypeArgument = None,
            *,
            how: Literal["left", "right", "full"],
        ) -> DataStream[OUT]: ...

        def apply(
            self,
            function: Any,
            output_type: TypeArgument = None,
            *,
            how: How = "inner",
            ttl: None = None,
            deadline: None = None,
        ) -> DataStream[Any]:
            """Call a function with each pair of a window.

            Args:
                function: A JoinFunction or callable that returns one record, or a FlatJoinFunction
                    that returns any number.  If it has a third parameter ``ctx``, it also receives
                    a `JoinContext`.
                output_type: The type of the results.
                how: The sides whose records are also joined without a match, with None: "inner" for
                    none, "left", "right" or "full".
                ttl: Only for a join without a window.
                deadline: Only for a join without a window.

            Raises:
                InvalidProgramError: The arguments exclude each other.
            """
            refuse_expiry(ttl=ttl, deadline=deadline)
            outer = outer_sides(how, "join apply", ("inner", "left", "right", "full"))
            joining = Joining(function, self._types)
            declared = result_type(joining.function, output_type)
            results: DataStream[Any] = self._applied(_JoinWindow(joining, outer), declared)
            if declared is None:
                joining.annotation().describe(results.transformation)
            return results.name("Join")


class IterativeStream(DataStream[T]):
    """The head of an iteration: the records of the input and those fed back.

    The iteration ends when its input has ended and no record is left in the loop, or when no
    feedback arrives within the wait time of `DataStream.iterate`.  Registered processing-time
    timers do not keep it alive.
    """

    def __init__(
        self, environment: StreamExecutionEnvironment, feedback: FeedbackTransformation
    ) -> None:
        """Use `DataStream.iterate`."""
        super().__init__(environment, feedback)
        self._feedback = feedback

    def close_with(self, feedback_stream: DataStream[T]) -> DataStream[T]:
        """Feed the records of a stream back to the head.

        Args:
            feedback_stream: A stream that is derived from this one.

        Raises:
            InvalidProgramError: The argument is not derived from this stream, or has another type.
        """
        check_descends(feedback_stream.transformation, self._feedback)
        if feedback_stream.get_type() != self.get_type():
            raise InvalidProgramError(
                f"feedback of type {feedback_stream.get_type()} does not fit an iteration over "
                f"{self.get_type()}: use with_feedback_type"
            )
        self._feedback.add_feedback_edge(feedback_stream.transformation)
        return feedback_stream

    def with_feedback_type(self, feedback_type: TypeArgument = None) -> ConnectedIterativeStreams:
        """Return an iteration whose feedback has another type, as a second input."""
        return ConnectedIterativeStreams(
            self._environment,
            DataStream(self._environment, self._feedback.input),
            CoFeedbackTransformation(
                self._feedback.parallelism,
                type_argument(feedback_type, "with_feedback_type"),
                self._feedback.wait_time_ms,
            ),
        )


class ConnectedIterativeStreams(ConnectedStreams):
    """The head of an iteration with two inputs: the stream, and the feedback."""

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        input_stream: DataStream[Any],
        feedback: CoFeedbackTransformation,
    ) -> None:
        """Use `IterativeStream.with_feedback_type`."""
        super().__init__(input_stream, DataStream(environment, feedback))
        self._feedback = feedback

    def close_with(self, feedback_stream: DataStream[OUT]) -> DataStream[OUT]:
        """Feed the records of a stream back to the second input.

        Raises:
            InvalidProgramError: The argument is not derived from this iteration.
        """
        check_descends(feedback_stream.transformation, self._feedback)
        self._feedback.add_feedback_edge(feedback_stream.transformation)
        return feedback_stream


class SplitStream(DataStream[T]):
    """A stream whose records a selector names; without `select` it has all records."""

    def __init__(self, environment: StreamExecutionEnvironment, split: SplitTransformation) -> None:
        """Use `DataStream.split`."""
        super().__init__(environment, split)
        self._split = split

    def select(self, *output_names: str) -> DataStream[T]:
        """Return the stream of the records with one of the names.

        Raises:
            InvalidProgramError: There is no name, or a name is not a string.
        """
        names: tuple[Any, ...] = output_names
        if not names or not all(isinstance(name, str) for name in names):
            raise InvalidProgramError(f"select takes names of outputs, got {names!r}")
        return DataStream(self._environment, SelectTransformation(self._split, output_names))
