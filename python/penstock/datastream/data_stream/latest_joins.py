"""Joins with the last record of a key: `DataStream.join_latest` (beyond PyFlink)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.row_kind import RowKind
from penstock.common.typeinfo import Types
from penstock.common.values.change_rows import kind_of_change
from penstock.datastream.data_stream.join_functions import outer_sides
from penstock.datastream.data_stream.regular_joins import NO_TIMESTAMP
from penstock.datastream.functions import BroadcastProcessFunction, KeyedCoProcessFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.state_lifetime import Lifetime, expiring, ttl_config
from penstock.errors import InvalidProgramError
from penstock.expressions.functions import bound_function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.datastream.data_stream.join_functions import How, Joining
    from penstock.datastream.functions import RuntimeContext
    from penstock.datastream.state_ttl_config import StateTtlConfig

#: The name of the calls in messages.
WHERE = "join_latest"


def is_left_join(how: How, *, is_broadcast: bool, event_time: bool, ttl: Lifetime) -> bool:
    """Check the arguments of `LatestJoinedStreams.apply`; return whether it is a left join.

    Raises:
        InvalidProgramError: The arguments exclude each other.
    """
    is_left, _ = outer_sides(how, WHERE, ("inner", "left"))
    if is_broadcast and event_time:
        raise InvalidProgramError(
            f"{WHERE}: a broadcast join uses the table as it is when a record arrives: leave "
            "out event_time, or broadcast"
        )
    if ttl is not None and (event_time or is_broadcast):
        raise InvalidProgramError(
            f"{WHERE}: ttl does not apply to broadcast joins or with event_time: leave it out"
        )
    return is_left


def function_by_key(
    joining: Joining, *, is_left: bool, event_time: bool, ttl: Lifetime
) -> KeyedCoProcessFunction:
    """Return the function of a join of streams that are partitioned by key."""
    if event_time:
        return TemporalJoin(joining, is_left)
    return LatestJoin(joining, is_left, ttl_config(ttl, WHERE))


def broadcast_table() -> MapStateDescriptor:
    """Return the broadcast state that holds the latest records."""
    return MapStateDescriptor("table", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())


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
