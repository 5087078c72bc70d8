"""JoinedStreams and CoGroupedStreams: two streams that are joined by key (beyond PyFlink).

In windows, both are built from other operators: the records of both streams are tagged with their
side, united, and assigned to windows by key; each window that fires is divided by side.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.time import Duration, Time
from penstock.datastream.data_stream.join_functions import (
    How,
    JoinContext,
    Joining,
    outer_sides,
    takes_context,
)
from penstock.datastream.data_stream.key_fields import key_selector_of, key_type_apart
from penstock.datastream.data_stream.regular_joins import LEFT, RIGHT, DeadlineJoin, RegularJoin
from penstock.datastream.functions import (
    CoGroupFunction,
    FlatJoinFunction,
    KeySelector,
    MapFunction,
    WindowFunction,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.datastream.state_lifetime import Lifetime, ttl_config
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.checking import never_equal
from penstock.expressions.computed import result_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from penstock.common.types import Row
    from penstock.datastream.data_stream.connected import ConnectedStreams
    from penstock.datastream.data_stream.stream import DataStream, TypeArgument
    from penstock.datastream.data_stream.typed_functions import Joins
    from penstock.datastream.functions import RuntimeContext
    from penstock.datastream.window import Evictor, Trigger, WindowAssigner
    from penstock.expressions import Expression

OUT = TypeVar("OUT")


class _TwoKeyedStreams(MissingMethods):
    """Two streams that need a common key, which ``where`` and ``equal_to`` select."""

    def __init__(self, first: DataStream[Any], second: DataStream[Any]) -> None:
        self._streams = (first, second)
        self._selectors: dict[int, Any] = {}
        self._key_types: dict[int, Any] = {}
        self._key_type: TypeArgument = None

    def where(
        self,
        key_selector: KeySelector | Callable[[Any], Any] | str | Expression,
        key_type: TypeArgument | str | Expression = None,
        *fields: TypeArgument | str | Expression,
    ) -> Self:
        """Select the key of the first stream's records.

        Args:
            key_selector: A KeySelector or a callable, or the first field of the key.
            key_type: The type of both streams' keys, as the last argument.
            fields: More fields, as in `DataStream.key_by`.
        """
        parts, declared = key_type_apart(key_selector, key_type, *fields)
        self._select(LEFT, parts, "where")
        self._key_type = declared
        return self

    def equal_to(
        self,
        key_selector: KeySelector | Callable[[Any], Any] | str | Expression,
        *fields: str | Expression,
    ) -> Self:
        """Select the key of the second stream's records, as `where` does."""
        self._select(RIGHT, (key_selector, *fields), "equal_to")
        return self

    def _require_keys(self, before: str) -> None:
        if len(self._selectors) < 2:
            raise InvalidProgramError(f"name both keys before {before}: where(…).equal_to(…)")

    def _connected(self) -> ConnectedStreams:
        """Return both streams, connected by their keys."""
        self._require_keys("apply")
        left, right = (
            stream.key_by(self._selectors[side], self._key_type)
            for side, stream in enumerate(self._streams)
        )
        return left.connect(right)

    def _select(self, side: int, parts: tuple[Any, ...], where: str) -> None:
        stream = self._streams[side]
        function = stream._function(key_selector_of(parts, stream._record_type(), where), where)
        check_function(function, KeySelector, where, or_callable=True)
        self._selectors[side] = shipped(function, where)
        self._key_types[side] = result_type(function, None)
        one, other = self._key_types.get(LEFT), self._key_types.get(RIGHT)
        if never_equal(one, other):
            raise InvalidProgramError(
                f"{where}: the keys of the two streams are {one} and {other}, which are never equal"
            )

    def _tagged(self) -> DataStream[Any]:
        left, right = (
            _beside(stream, stream.map(_Tag(side))) for side, stream in enumerate(self._streams)
        )
        return left.union(right)


class _WithWindow(MissingMethods):
    """Two streams in common windows, with settings of trigger, evictor and lateness."""

    def __init__(
        self, streams: _TwoKeyedStreams, window_assigner: WindowAssigner[Any, Any]
    ) -> None:
        streams._require_keys("the window")
        self._types = [stream._plain()._record_type() for stream in streams._streams]
        key_selector = _EitherKey(streams._selectors[LEFT], streams._selectors[RIGHT])
        keyed = streams._tagged().key_by(key_selector, streams._key_type)
        self._windowed = keyed.window(window_assigner)

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set the trigger, which decides when windows fire; it receives (side, record) pairs."""
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Set the evictor, which removes records; it receives (side, record) pairs."""
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Set the time in ms for which a window accepts records after its end."""
        self._windowed.allowed_lateness(time_ms)
        return self


class JoinedStreams(_TwoKeyedStreams):
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
        function: Callable[..., OUT] | Joins[OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["inner"] = "inner",
        ttl: Lifetime | tuple[Lifetime, Lifetime] = None,
        deadline: Duration | Time | None = None,
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: Callable[..., OUT] | Joins[OUT],
        output_type: TypeArgument = None,
        *,
        how: How = "inner",
        ttl: Lifetime | tuple[Lifetime, Lifetime] = None,
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
        left, right = self._streams
        joining = Joining(function, [left._record_type(), right._record_type()], where)
        changes = deadline is None and any(outer)
        declared = result_type(joining.function, output_type)
        if deadline is not None:
            joined: Any = DeadlineJoin(joining, outer, _deadline_ms(deadline, ttl))
        else:
            lifetimes: Any = ttl if isinstance(ttl, tuple) else (ttl, ttl)
            if len(lifetimes) != 2:
                raise WrongArgumentError(f"{where}: ttl is one lifetime or a pair, got {ttl!r}")
            one, other = (ttl_config(lifetime, where) for lifetime in lifetimes)
            joined = RegularJoin(joining, outer, (one, other))
        if changes and output_type is not None:
            raise InvalidProgramError(
                f"{where}: the results of an outer join without a deadline are rows that change: "
                "leave out output_type, or give a deadline"
            )
        results = self._connected().process(joined, None if changes else declared)
        if changes or declared is None:
            joining.annotation(as_changes=changes).describe(results.transformation)
        return results.name("Join")

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> JoinedStreams.WithWindow:
        """Assign the records of both streams to windows."""
        return JoinedStreams.WithWindow(self, window_assigner)

    class WithWindow(_WithWindow):
        """Joined streams in windows."""

        @overload
        def apply(
            self,
            function: FlatJoinFunction,
            output_type: TypeArgument = None,
            *,
            how: How = "inner",
        ) -> DataStream[Any]: ...

        @overload
        def apply(
            self,
            function: Callable[..., OUT] | Joins[OUT],
            output_type: TypeArgument = None,
            *,
            how: How = "inner",
        ) -> DataStream[OUT]: ...

        def apply(
            self, function: Any, output_type: TypeArgument = None, *, how: How = "inner"
        ) -> DataStream[Any]:
            """Call a function with each pair of a window.

            Args:
                function: A JoinFunction or callable that returns one record, or a FlatJoinFunction
                    that returns any number.  If it has a third parameter ``ctx``, it also receives
                    a `JoinContext`.
                output_type: The type of the results.
                how: The sides whose records are also joined without a match, with None: "inner" for
                    none, "left", "right" or "full".
            """
            outer = outer_sides(how, "join apply", ("inner", "left", "right", "full"))
            joining = Joining(function, self._types)
            declared = result_type(joining.function, output_type)
            results = self._windowed.apply(_JoinWindow(joining, outer), declared).name("Join")
            if declared is None:
                joining.annotation().describe(results.transformation)
            return results


class CoGroupedStreams(_TwoKeyedStreams):
    """Two streams whose records are grouped by key and window."""

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> CoGroupedStreams.WithWindow:
        """Assign the records of both streams to windows."""
        return CoGroupedStreams.WithWindow(self, window_assigner)

    class WithWindow(_WithWindow):
        """Grouped streams in windows."""

        def apply(
            self,
            function: CoGroupFunction | Callable[[list[Any], list[Any]], Iterable[Any]],
            output_type: TypeArgument = None,
        ) -> DataStream[Any]:
            """Call a function with both lists of each window; one of them may be empty.

            If the function has a third parameter ``ctx``, it also receives a `JoinContext`.
            """
            check_function(function, CoGroupFunction, "co_group apply", or_callable=True)
            return self._windowed.apply(_CoGroupWindow(function), output_type).name("CoGroup")


class _Tag(MapFunction):
    """Pair a record with its side."""

    def __init__(self, side: int) -> None:
        self._side = side

    def map(self, value: Any) -> tuple[int, Any]:
        return self._side, value


class _EitherKey(KeySelector):
    """Return the key of a tagged record by the selector of its side."""

    def __init__(self, left: Any, right: Any) -> None:
        self._selectors = (left, right)
        self._get: tuple[Callable[[Any], Any], ...] = tuple(
            s.get_key if isinstance(s, KeySelector) else s for s in self._selectors
        )

    def open(self, runtime_context: RuntimeContext) -> None:
        for selector in self._selectors:
            if isinstance(selector, KeySelector):
                selector.open(runtime_context)

    def close(self) -> None:
        for selector in self._selectors:
            if isinstance(selector, KeySelector):
                selector.close()

    def get_key(self, value: tuple[int, Any]) -> Any:
        return self._get[value[0]](value[1])


class _SidesWindow(WindowFunction[Any, Any, Any, Any]):
    """Divide the records of a window by side."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        if hasattr(self._function, "open"):
            self._function.open(runtime_context)

    def close(self) -> None:
        if hasattr(self._function, "close"):
            self._function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        sides: tuple[list[Any], list[Any]] = ([], [])
        for side, element in inputs:
            sides[side].append(element)
        return self._results(*sides, key, window)

    def _results(self, left: list[Any], right: list[Any], key: Any, window: Any) -> Iterable[Any]:
        raise NotImplementedError


class _JoinWindow(_SidesWindow):
    def __init__(self, joining: Joining, outer: tuple[bool, bool]) -> None:
        super().__init__(joining)
        self._outer = outer

    def open(self, runtime_context: RuntimeContext) -> None:
        # A record is in many pairs, and each call receives its own copy.
        copier = cast("Any", runtime_context).value_copier("joins")
        self._copied = None if copier is None else copier.copied
        super().open(runtime_context)

    def _results(self, left: list[Any], right: list[Any], key: Any, window: Any) -> Iterable[Any]:
        copied = self._copied
        if not right and self._outer[LEFT]:
            right = [None]
        elif not left and self._outer[RIGHT]:
            left = [None]
        pairs: Iterable[tuple[Any, Any]] = itertools.product(left, right)
        if copied is not None:
            pairs = ((copied(one), copied(other)) for one, other in pairs)
        results = self._function.results
        return [result for pair in pairs for result in results(*pair, key, window)]


class _CoGroupWindow(_SidesWindow):
    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._has_context = takes_context(function, "co_group")

    def _results(self, left: list[Any], right: list[Any], key: Any, window: Any) -> Iterable[Any]:
        function = self._function
        group = function.co_group if isinstance(function, CoGroupFunction) else function
        context = (JoinContext(key, window),) if self._has_context else ()
        results: Iterable[Any] = group(left, right, *context)
        return results


def _deadline_ms(deadline: Any, ttl: object) -> int:
    """Return a deadline in ms.

    Raises:
        WrongArgumentError: The deadline is not a duration.
        InvalidProgramError: The deadline is negative, or combined with a lifetime of state.
    """
    if not isinstance(deadline, Duration | Time):
        raise WrongArgumentError(f"join apply: a deadline is a Duration or Time, got {deadline!r}")
    if ttl is not None:
        raise InvalidProgramError(
            "join apply: a deadline ends the life of records in state: leave out ttl"
        )
    if deadline.to_millis() < 0:
        raise InvalidProgramError(f"join apply: a deadline cannot be negative, got {deadline!r}")
    return deadline.to_millis()


def _beside(stream: DataStream[Any], tagged: DataStream[Any]) -> DataStream[Any]:
    """Set the tagging operator's parallelism to the stream's, so that both form one chain."""
    before = stream.transformation
    parallelism = before.parallelism
    if parallelism <= 0:
        parallelism = stream.get_execution_environment().get_parallelism()
    tagged.set_parallelism(parallelism)
    tagged.transformation.has_own_parallelism = before.has_own_parallelism
    return tagged
