"""Keys, windows and functions of two streams that are joined by key (beyond PyFlink).

In windows, both are built from other operators: the records of both streams are tagged with their
side, united, and assigned to windows by key; each window that fires is divided by side.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.time import Duration, Time
from penstock.datastream.data_stream.join_functions import (
    JoinContext,
    Joining,
    takes_context,
)
from penstock.datastream.data_stream.key_fields import key_selector_of, key_type_apart
from penstock.datastream.data_stream.regular_joins import (
    LEFT,
    RIGHT,
    DeadlineJoin,
    RegularJoin,
    regular_join,
)
from penstock.datastream.data_stream.type_arguments import type_argument
from penstock.datastream.functions import (
    CoGroupFunction,
    KeySelector,
    MapFunction,
    WindowFunction,
)
from penstock.datastream.functions.function import WrappedFunction, check_function
from penstock.datastream.shipping import shipped
from penstock.datastream.state_lifetime import ttl_config
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.checking import never_equal
from penstock.expressions.computed import result_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from penstock.datastream.data_stream.settings import StreamSettings
    from penstock.datastream.data_stream.type_arguments import TypeArgument
    from penstock.datastream.data_stream.window_settings import WindowSettings
    from penstock.datastream.functions import RuntimeContext
    from penstock.datastream.window import Evictor, Trigger, WindowAssigner
    from penstock.expressions import Expression


#: The records of the first and of the second stream.
ONE = TypeVar("ONE")
OTHER = TypeVar("OTHER")


class _TwoKeyedStreams(MissingMethods, Generic[ONE, OTHER]):
    """Two streams that need a common key, which ``where`` and ``equal_to`` select."""

    def __init__(self, first: StreamSettings, second: StreamSettings) -> None:
        self._streams = (first, second)
        self._selectors: dict[int, Any] = {}
        self._key_types: dict[int, Any] = {}
        self._key_type: TypeArgument = None

    def where(
        self,
        key_selector: KeySelector | Callable[[ONE], Any] | str | Expression,
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
        key_selector: KeySelector | Callable[[OTHER], Any] | str | Expression,
        *fields: str | Expression,
    ) -> Self:
        """Select the key of the second stream's records, as `where` does."""
        self._select(RIGHT, (key_selector, *fields), "equal_to")
        return self

    def _require_keys(self, before: str) -> None:
        if len(self._selectors) < 2:
            raise InvalidProgramError(f"name both keys before {before}: where(…).equal_to(…)")

    def _connected(self) -> Any:
        """Return both streams, a `ConnectedStreams` by their keys."""
        self._require_keys("apply")
        left, right = (
            stream._stream().key_by(self._selectors[side], self._key_type)
            for side, stream in enumerate(self._streams)
        )
        return left.connect(right)

    def _joined(self, function: Any, declared: Any) -> Any:
        """Return the stream of the results of a join without a window."""
        connected = self._connected()
        if not isinstance(function, RegularJoin):
            return connected.process(function, declared)
        types = [side._record_type() for side in self._streams]
        (one, key_type), (other, _) = connected.stream1._keys(), connected.stream2._keys()
        operator = regular_join(function, (one, other), key_type, types)
        return connected._connected("Join", operator, type_argument(declared, "join apply"))

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

    def _tagged(self) -> Any:
        """Return the stream of pairs of side and record."""
        left, right = (
            _beside(stream, stream._stream().map(_Tag(side)))
            for side, stream in enumerate(self._streams)
        )
        return left.union(right)


class _WithWindow(MissingMethods, Generic[ONE, OTHER]):
    """Two streams in common windows, with settings of trigger, evictor and lateness."""

    def __init__(
        self, streams: _TwoKeyedStreams[ONE, OTHER], window_assigner: WindowAssigner[Any, Any]
    ) -> None:
        streams._require_keys("the window")
        self._types = [stream._plain()._record_type() for stream in streams._streams]
        key_selector = _EitherKey(streams._selectors[LEFT], streams._selectors[RIGHT])
        keyed = streams._tagged().key_by(key_selector, streams._key_type)
        self._windowed: WindowSettings = keyed.window(window_assigner)

    def _applied(self, function: WindowFunction[Any, Any, Any, Any], output_type: Any) -> Any:
        """Return the stream of a function's results."""
        windowed: Any = self._windowed
        return windowed.apply(function, output_type)

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


class _SidesWindow(WrappedFunction, WindowFunction[Any, Any, Any, Any]):
    """Divide the records of a window by side."""

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


def join_by_key(joining: Joining, outer: tuple[bool, bool], ttl: Any, deadline: Any) -> Any:
    """Return the function of a join without a window.

    Raises:
        WrongArgumentError: The deadline is not a duration, or ttl not one lifetime or a pair.
        InvalidProgramError: The deadline is negative, or combined with a lifetime of state.
    """
    if deadline is not None:
        return DeadlineJoin(joining, outer, deadline_ms(deadline, ttl))
    lifetimes: Any = ttl if isinstance(ttl, tuple) else (ttl, ttl)
    if len(lifetimes) != 2:
        raise WrongArgumentError(f"join apply: ttl is one lifetime or a pair, got {ttl!r}")
    one, other = (ttl_config(lifetime, "join apply") for lifetime in lifetimes)
    return RegularJoin(joining, outer, (one, other))


def refuse_expiry(**settings: object) -> None:
    """Reject settings of joins without a window.

    Raises:
        InvalidProgramError: One of them is set.
    """
    for name, value in settings.items():
        if value is not None:
            raise InvalidProgramError(
                f"join apply: records leave the state when their window ends: leave out {name}, or "
                "join without a window"
            )


def deadline_ms(deadline: Any, ttl: object) -> int:
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


def _beside(stream: StreamSettings, tagged: Any) -> Any:
    """Set the tagging operator's parallelism to the stream's, so that both form one chain."""
    before = stream.transformation
    parallelism = before.parallelism
    if parallelism <= 0:
        parallelism = stream._environment.get_parallelism()
    tagged.set_parallelism(parallelism)
    tagged.transformation.has_own_parallelism = before.has_own_parallelism
    return tagged
