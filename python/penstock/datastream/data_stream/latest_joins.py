"""Joins with the last record of a key: `DataStream.join_latest` (beyond PyFlink)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from penstock.common.row_kind import RowKind
from penstock.common.typeinfo import Types
from penstock.common.values.change_rows import kind_of_change
from penstock.datastream.data_stream.join_functions import Joining, outer_sides
from penstock.datastream.data_stream.joined import _TwoKeyedStreams
from penstock.datastream.data_stream.regular_joins import NO_TIMESTAMP
from penstock.datastream.functions import BroadcastProcessFunction, KeyedCoProcessFunction
from penstock.datastream.shipping import shipped
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.state_lifetime import Lifetime, expiring, ttl_config
from penstock.errors import InvalidProgramError
from penstock.expressions.computed import result_type
from penstock.expressions.functions import bound_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.datastream.data_stream.stream import DataStream, TypeArgument
    from penstock.datastream.data_stream.typed_functions import Joins
    from penstock.datastream.functions import FlatJoinFunction, RuntimeContext
    from penstock.datastream.state_ttl_config import StateTtlConfig

OUT = TypeVar("OUT")


class LatestJoinedStreams(_TwoKeyedStreams):
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
        function: Callable[..., OUT] | Joins[OUT],
        output_type: TypeArgument = None,
        *,
        how: Literal["inner", "left"] = "inner",
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
        where = "join_latest"
        is_left, _ = outer_sides(how, where, ("inner", "left"))
        if self._broadcast and event_time:
            raise InvalidProgramError(
                f"{where}: a broadcast join uses the table as it is when a record arrives: leave "
                "out event_time, or broadcast"
            )
        if ttl is not None and (event_time or self._broadcast):
            raise InvalidProgramError(
                f"{where}: ttl does not apply to broadcast joins or with event_time: leave it out"
            )
        left, right = self._streams
        joining = Joining(function, [left._record_type(), right._record_type()], where)
        declared = result_type(joining.function, output_type)
        if self._broadcast:
            table = MapStateDescriptor(
                "table", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY()
            )
            joined = left.connect(right.broadcast(table)).process(
                BroadcastJoin(
                    shipped(joining, where), is_left, table, self._selectors[0], self._selectors[1]
                ),
                declared,
            )
        else:
            function = (
                TemporalJoin(joining, is_left)
                if event_time
                else LatestJoin(joining, is_left, ttl_config(ttl, where))
            )
            joined = self._connected().process(function, declared)
        if declared is None:
            joining.annotation().describe(joined.transformation)
        return joined.name("Temporal join" if event_time else "Join latest")


class LatestJoin(KeyedCoProcessFunction):
    """A join with the last record that has arrived."""

    def __init__(self, joining: Joining, is_left: bool, ttl: StateTtlConfig | None) -> None:
        """Store the arguments of `LatestJoinedStreams.apply`."""
        self._joining = joining
        self._is_left = is_left
        self._ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state and the function."""
        self._joining.open(runtime_context)
        descriptor = ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY())
        self._last = runtime_context.get_state(expiring(descriptor, self._ttl))

    def close(self) -> None:
        """Close the function."""
        self._joining.close()

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        """Join a record."""
        found = self._last.value()
        if found is not None:
            yield from self._joining.results(value, found[0], ctx.get_current_key())
        elif self._is_left:
            yield from self._joining.results(value, None, ctx.get_current_key())

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:  # noqa: ARG002
        """Store the last record, or delete it."""
        kind = kind_of_change(value)
        if kind is RowKind.DELETE:
            self._last.clear()
        elif kind is not RowKind.UPDATE_BEFORE:
            # In a tuple, so that a record that is None differs from no record.
            self._last.update((value,))


class TemporalJoin(KeyedCoProcessFunction):
    """A join with the last record as of a timestamp, once the watermark has passed it."""

    def __init__(self, joining: Joining, is_left: bool) -> None:
        """Store the arguments of `LatestJoinedStreams.apply`."""
        self._joining = joining
        self._is_left = is_left

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state and the function."""
        self._joining.open(runtime_context)
        time, any_value = Types.LONG(), Types.PICKLED_BYTE_ARRAY()
        #: Records that wait for the watermark, by timestamp.
        self._waiting = runtime_context.get_map_state(
            MapStateDescriptor("waiting", time, any_value)
        )
        #: Versions by timestamp: a tuple of the record, empty if it was deleted.
        self._versions = runtime_context.get_map_state(
            MapStateDescriptor("versions", time, any_value)
        )

    def close(self) -> None:
        """Close the function."""
        self._joining.close()

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        """Join a late record now, and store others until the watermark passes them."""
        time = _timestamp(ctx, value)
        if time <= ctx.timer_service().current_watermark():
            yield from self._joined(value, self._version(time), ctx.get_current_key())
            return
        self._waiting.put(time, [*(self._waiting.get(time) or ()), value])
        ctx.timer_service().register_event_time_timer(time)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        """Store a version."""
        time, kind = _timestamp(ctx, value), kind_of_change(value)
        if kind is RowKind.UPDATE_BEFORE:
            return
        self._versions.put(time, () if kind is RowKind.DELETE else (value,))
        # Once the watermark passes this version, earlier ones are no longer needed.
        ctx.timer_service().register_event_time_timer(time)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Join the records of a timestamp that has passed, and remove earlier versions."""
        waiting = self._waiting.get(timestamp)
        if waiting:
            self._waiting.remove(timestamp)
            version = self._version(timestamp)
            for value in waiting:
                yield from self._joined(value, version, ctx.get_current_key())
        passed = sorted(time for time in self._versions if time <= timestamp)
        for time in passed[:-1]:
            self._versions.remove(time)
        if passed and not self._versions.get(passed[-1]):
            self._versions.remove(passed[-1])

    def _version(self, timestamp: int) -> tuple[Any, ...]:
        times = [time for time in self._versions if time <= timestamp]
        found: Any = self._versions.get(max(times)) if times else ()
        return tuple(found)

    def _joined(self, value: Any, version: tuple[Any, ...], key: Any) -> Iterator[Any]:
        if version:
            yield from self._joining.results(value, version[0], key)
        elif self._is_left:
            yield from self._joining.results(value, None, key)


class BroadcastJoin(BroadcastProcessFunction[Any, Any, Any]):
    """A join with a table of which each subtask has a copy."""

    def __init__(
        self,
        joining: Joining,
        is_left: bool,
        table: MapStateDescriptor,
        key_of_record: Any,
        key_of_row: Any,
    ) -> None:
        """Store the arguments of `LatestJoinedStreams.apply`."""
        self._joining = joining
        self._is_left = is_left
        self._table = table
        self._selectors = (key_of_record, key_of_row)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function."""
        self._joining.open(runtime_context)
        self._key_of_record, self._key_of_row = (
            bound_function(selector, "get_key") for selector in self._selectors
        )

    def close(self) -> None:
        """Close the function."""
        self._joining.close()

    def process_element(
        self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[Any]:
        """Join a record."""
        key = self._key_of_record(value)
        table = ctx.get_broadcast_state(self._table)
        if table.contains(key):
            yield from self._joining.results(value, table.get(key), key)
        elif self._is_left:
            yield from self._joining.results(value, None, key)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        """Update the table."""
        key, kind = self._key_of_row(value), kind_of_change(value)
        table = ctx.get_broadcast_state(self._table)
        if kind is RowKind.DELETE:
            table.remove(key)
        elif kind is not RowKind.UPDATE_BEFORE:
            table.put(key, value)


def _timestamp(ctx: KeyedCoProcessFunction.Context, value: Any) -> int:
    timestamp = ctx.timestamp()
    if timestamp == NO_TIMESTAMP:
        raise InvalidProgramError(
            f"join_latest(event_time=True): {value!r:.200} has no timestamp; call "
            "assign_timestamps_and_watermarks on both streams"
        )
    return timestamp
