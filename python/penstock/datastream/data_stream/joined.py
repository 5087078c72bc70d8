"""JoinedStreams and CoGroupedStreams: two streams that meet in windows (beyond PyFlink).

Both are made of what is there already: the records of both streams are tagged with their side,
united, put into windows per key, and each window that fires is divided again.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, cast

from penstock.common.missing_methods import MissingMethods
from penstock.datastream.annotations import of_results
from penstock.datastream.functions import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    KeySelector,
    MapFunction,
    WindowFunction,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError
from penstock.expressions.computed import computed, result_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from penstock.datastream.data_stream.stream import DataStream, TypeArgument
    from penstock.datastream.functions import RuntimeContext
    from penstock.datastream.window import Evictor, Trigger, WindowAssigner

LEFT, RIGHT = 0, 1


class _TwoKeyedStreams(MissingMethods):
    """Two streams on the way to a common key: ``where`` and ``equal_to`` name it."""

    def __init__(self, first: DataStream[Any], second: DataStream[Any]) -> None:
        self._streams = (first, second)
        self._selectors: dict[int, Any] = {}
        self._key_type: TypeArgument = None

    def where(
        self, key_selector: KeySelector | Callable[[Any], Any], key_type: TypeArgument = None
    ) -> Self:
        """Names the key of a record of the first stream.

        Args:
            key_selector: A KeySelector or a callable.
            key_type: The type of both streams' keys.
        """
        self._select(LEFT, key_selector, "where")
        self._key_type = key_type
        return self

    def equal_to(self, key_selector: KeySelector | Callable[[Any], Any]) -> Self:
        """Names the key of a record of the second stream."""
        self._select(RIGHT, key_selector, "equal_to")
        return self

    def _select(self, side: int, key_selector: Any, where: str) -> None:
        function = self._streams[side]._function(key_selector, where)
        check_function(function, KeySelector, where, or_callable=True)
        self._selectors[side] = shipped(function, where)

    def _tagged(self) -> DataStream[Any]:
        if len(self._selectors) < 2:
            raise InvalidProgramError("name both keys before the window: where(…).equal_to(…)")
        left, right = (
            _beside(stream, stream.map(_Tag(side))) for side, stream in enumerate(self._streams)
        )
        return left.union(right)


class _WithWindow(MissingMethods):
    """Two streams in common windows: triggers, evictors and lateness may be set."""

    def __init__(
        self, streams: _TwoKeyedStreams, window_assigner: WindowAssigner[Any, Any]
    ) -> None:
        self._types = [stream._plain()._record_type() for stream in streams._streams]
        key_selector = _EitherKey(streams._selectors[LEFT], streams._selectors[RIGHT])
        keyed = streams._tagged().key_by(key_selector, streams._key_type)
        self._windowed = keyed.window(window_assigner)

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Sets when windows are evaluated; the trigger sees (side, record) pairs."""
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Sets which records leave a window; the evictor sees (side, record) pairs."""
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Sets how long after its end a window still takes records, in ms."""
        self._windowed.allowed_lateness(time_ms)
        return self


class JoinedStreams(_TwoKeyedStreams):
    """Two streams whose pairs of one key and window are joined."""

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> JoinedStreams.WithWindow:
        """Puts the records of both streams into windows."""
        if len(self._selectors) < 2:
            raise InvalidProgramError("name both keys before the window: where(…).equal_to(…)")
        return JoinedStreams.WithWindow(self, window_assigner)

    class WithWindow(_WithWindow):
        """Joined streams in windows."""

        def apply(
            self,
            function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any],
            output_type: TypeArgument = None,
        ) -> DataStream[Any]:
            """Calls a function with each pair of a window; without a partner it is not called.

            Args:
                function: A JoinFunction or callable gives one record, a FlatJoinFunction any
                    number.
                output_type: The type of the results.
            """
            joined = computed(function, "join apply", self._types)
            if not isinstance(joined, FlatJoinFunction):
                check_function(joined, JoinFunction, "join apply", or_callable=True)
            declared = result_type(joined, output_type)
            results = self._windowed.apply(_JoinWindow(joined), declared).name("Join")
            if declared is None:
                flat = isinstance(joined, FlatJoinFunction)
                found = of_results(joined, "join", elements=flat)
                results.transformation.annotated_type = found.type_info
                results.transformation.annotation_problem = found.problem
            return results


class CoGroupedStreams(_TwoKeyedStreams):
    """Two streams whose records of one key and window are seen together."""

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> CoGroupedStreams.WithWindow:
        """Puts the records of both streams into windows."""
        if len(self._selectors) < 2:
            raise InvalidProgramError("name both keys before the window: where(…).equal_to(…)")
        return CoGroupedStreams.WithWindow(self, window_assigner)

    class WithWindow(_WithWindow):
        """Grouped streams in windows."""

        def apply(
            self,
            function: CoGroupFunction | Callable[[list[Any], list[Any]], Iterable[Any]],
            output_type: TypeArgument = None,
        ) -> DataStream[Any]:
            """Calls a function with both lists of each window; one of them may be empty."""
            check_function(function, CoGroupFunction, "co_group apply", or_callable=True)
            return self._windowed.apply(_CoGroupWindow(function), output_type).name("CoGroup")


class _Tag(MapFunction):
    """Pairs a record with its side."""

    def __init__(self, side: int) -> None:
        self._side = side

    def map(self, value: Any) -> tuple[int, Any]:
        return self._side, value


class _EitherKey(KeySelector):
    """The key of a tagged record, by the selector of its side."""

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
    """Divides the records of a window by side."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        if hasattr(self._function, "open"):
            self._function.open(runtime_context)

    def close(self) -> None:
        if hasattr(self._function, "close"):
            self._function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:  # noqa: ARG002
        sides: tuple[list[Any], list[Any]] = ([], [])
        for side, element in inputs:
            sides[side].append(element)
        return self._results(*sides)

    def _results(self, left: list[Any], right: list[Any]) -> Iterable[Any]:
        raise NotImplementedError


class _JoinWindow(_SidesWindow):
    def open(self, runtime_context: RuntimeContext) -> None:
        # A record is in many pairs, and each call gets its own.
        copier = cast("Any", runtime_context).value_copier("joins")
        self._copied = None if copier is None else copier.copied
        super().open(runtime_context)

    def _results(self, left: list[Any], right: list[Any]) -> Iterable[Any]:
        function, copied = self._function, self._copied
        pairs: Iterable[tuple[Any, Any]] = itertools.product(left, right)
        if copied is not None:
            pairs = ((copied(one), copied(other)) for one, other in pairs)
        if isinstance(function, FlatJoinFunction):
            return [result for pair in pairs for result in function.join(*pair)]
        join = function.join if isinstance(function, JoinFunction) else function
        return [join(*pair) for pair in pairs]


class _CoGroupWindow(_SidesWindow):
    def _results(self, left: list[Any], right: list[Any]) -> Iterable[Any]:
        function = self._function
        group = function.co_group if isinstance(function, CoGroupFunction) else function
        results: Iterable[Any] = group(left, right)
        return results


def _beside(stream: DataStream[Any], tagged: DataStream[Any]) -> DataStream[Any]:
    """Tags with the parallelism of the stream, so that it is chained to what comes before."""
    before = stream.transformation
    parallelism = before.parallelism
    if parallelism <= 0:
        parallelism = stream.get_execution_environment().get_parallelism()
    tagged.set_parallelism(parallelism)
    tagged.transformation.has_own_parallelism = before.has_own_parallelism
    return tagged
