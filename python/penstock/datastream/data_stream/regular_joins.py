"""Joins of all records of a key, without windows (beyond PyFlink).

They are functions with ordinary keyed state: checkpoints, rescaling, RocksDB and time to live work
as for any other function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.columns.exchange import has_batches
from penstock.common.row_kind import RowKind
from penstock.common.typeinfo import Types
from penstock.common.values.change_rows import change_row, kind_of_change
from penstock.datastream.functions import KeyedCoProcessFunction
from penstock.datastream.shipping import shipped
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.state_lifetime import expiring
from penstock.errors import InvalidProgramError
from penstock.graph import operators

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.data_stream.join_functions import Joining
    from penstock.datastream.functions import RuntimeContext
    from penstock.datastream.state_ttl_config import StateTtlConfig

LEFT, RIGHT = 0, 1
_NAMES: Final = ("left", "right")
#: The timestamp of records without one.
NO_TIMESTAMP: Final = -(2**63)
_ADDITIONS: Final = (RowKind.INSERT, RowKind.UPDATE_AFTER)


class RegularJoin(KeyedCoProcessFunction):
    """A join that stores both sides and joins each record with those of the other side.

    Each side may change: a row of the kind -D or -U retracts an equal earlier one.

    Attributes:
        joining: The function of a pair.
        sides: By side, the list state of the records of a key, once it is open.
    """

    def __init__(
        self,
        joining: Joining,
        outer: tuple[bool, bool],
        ttl: tuple[StateTtlConfig | None, StateTtlConfig | None],
    ) -> None:
        """Store the arguments of `JoinedStreams.apply`.

        Args:
            joining: The function of a pair.
            outer: For each side, whether its records are joined without a match.
            ttl: For each side, the lifetime of its records.
        """
        self.joining = joining
        self._outer = outer
        self._ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state and the function."""
        self.joining.open(runtime_context)
        any_value = Types.PICKLED_BYTE_ARRAY()
        self.sides = [
            runtime_context.get_list_state(expiring(ListStateDescriptor(name, any_value), ttl))
            for name, ttl in zip(_NAMES, self._ttl, strict=True)
        ]

    @property
    def why_by_rows(self) -> str | None:
        """The reason why columns cannot join the records, to follow a comma; None if they can."""
        if any(self._outer):
            return "as it also emits records without a match"
        if any(ttl is not None for ttl in self._ttl):
            return "as its records have a lifetime"
        if self.joining.is_flat:
            return "as its function returns any number of results"
        if self.joining.has_context:
            return "as its function receives a context"
        return None

    def close(self) -> None:
        """Close the function."""
        self.joining.close()

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        """Process a record of the left side."""
        return self._change(LEFT, value, ctx.get_current_key())

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        """Process a record of the right side."""
        return self._change(RIGHT, value, ctx.get_current_key())

    def _change(self, side: int, value: Any, key: Any) -> Iterator[Any]:
        kind = kind_of_change(value)
        if kind is not RowKind.INSERT:
            value = change_row(RowKind.INSERT, value)
        own, partners = self.sides[side], list(self.sides[1 - side].get() or ())
        if kind in _ADDITIONS:
            if self._outer[1 - side] and partners and next(iter(own.get() or ()), self) is self:
                for partner in partners:
                    yield from self._emit(RowKind.DELETE, 1 - side, partner, None, key)
            own.add(value)
            yield from self._pairs(RowKind.INSERT, side, value, partners, key)
            return
        records = list(own.get() or ())
        if value not in records:
            return  # It has expired, or was never added.
        records.remove(value)
        own.update(records)
        yield from self._pairs(RowKind.DELETE, side, value, partners, key)
        if self._outer[1 - side] and not records:
            for partner in partners:
                yield from self._emit(RowKind.INSERT, 1 - side, partner, None, key)

    def _pairs(
        self, kind: RowKind, side: int, value: Any, partners: list[Any], key: Any
    ) -> Iterator[Any]:
        for partner in partners:
            yield from self._emit(kind, side, value, partner, key)
        if not partners and self._outer[side]:
            yield from self._emit(kind, side, value, None, key)

    def _emit(self, kind: RowKind, side: int, value: Any, partner: Any, key: Any) -> Iterator[Any]:
        pair = (value, partner) if side == LEFT else (partner, value)
        results = self.joining.results(*pair, key)
        if not any(self._outer) and kind is RowKind.INSERT:
            yield from results
            return
        for result in results:
            yield change_row(kind, result)


def regular_join(
    function: RegularJoin,
    selectors: tuple[Any, Any],
    key_type: TypeInformation | None,
    types: Sequence[TypeInformation],
) -> operators.RegularJoin:
    """Return the operator of a join.

    Args:
        function: The join.
        selectors: By side, the selector of the key.
        key_type: The declared type of the keys, or None.
        types: By side, the type of the records.
    """
    from penstock.aggregates.resolution import known_key_fields

    one, other = None, None
    if all(map(has_batches, types)):
        one, other = (
            known_key_fields(selector, key_type, declared, "join apply")
            for selector, declared in zip(selectors, types, strict=True)
        )
    return operators.RegularJoin(
        shipped(function, "join apply"), key_fields=(one, other), why_by_rows=function.why_by_rows
    )


class DeadlineJoin(KeyedCoProcessFunction):
    """A join of records that are no further apart than a deadline; it never retracts results.

    Records without a match are emitted when the deadline has passed.  Time is event time for
    records with a timestamp, else processing time.
    """

    def __init__(self, joining: Joining, outer: tuple[bool, bool], deadline_ms: int) -> None:
        """Store the arguments of `JoinedStreams.apply`.

        Args:
            joining: The function of a pair.
            outer: For each side, whether its records are joined without a match.
            deadline_ms: The largest difference between the times of a pair.
        """
        self._joining = joining
        self._outer = outer
        self._deadline_ms = deadline_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state and the function."""
        self._joining.open(runtime_context)
        number, any_value = Types.LONG(), Types.PICKLED_BYTE_ARRAY()
        #: By number: time, whether it is event time, whether a match was found, and the record.
        self._sides = [
            runtime_context.get_map_state(MapStateDescriptor(name, number, any_value))
            for name in _NAMES
        ]
        self._count = runtime_context.get_state(ValueStateDescriptor("count", number))

    def close(self) -> None:
        """Close the function."""
        self._joining.close()

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        """Process a record of the left side."""
        return self._join(LEFT, value, ctx)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        """Process a record of the right side."""
        return self._join(RIGHT, value, ctx)

    def _join(self, side: int, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        if kind_of_change(value) is not RowKind.INSERT:
            raise InvalidProgramError(
                f"a join with a deadline takes only insertions, and {value!r:.200} is a change: "
                "leave out the deadline"
            )
        timers, key, time = ctx.timer_service(), ctx.get_current_key(), ctx.timestamp()
        is_event_time = time != NO_TIMESTAMP
        if not is_event_time:
            time = timers.current_processing_time()
        is_matched = False
        for number, kept in list(self._sides[1 - side].items()):
            other_time, of_event, had_partner, record = kept
            if of_event is is_event_time and abs(other_time - time) > self._deadline_ms:
                continue
            is_matched = True
            yield from self._emit(side, value, record, key)
            if not had_partner:
                self._sides[1 - side].put(number, (other_time, of_event, True, record))
        end = time + self._deadline_ms
        if is_event_time and end <= timers.current_watermark():
            if not is_matched and self._outer[side]:
                yield from self._emit(side, value, None, key)
            return
        number = self._count.value() or 0
        self._count.update(number + 1)
        self._sides[side].put(number, (time, is_event_time, is_matched, value))
        if is_event_time:
            timers.register_event_time_timer(end)
        else:
            timers.register_processing_time_timer(end)

    def _emit(self, side: int, value: Any, partner: Any, key: Any) -> Iterator[Any]:
        pair = (value, partner) if side == LEFT else (partner, value)
        yield from self._joining.results(*pair, key)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Remove records whose deadline has passed, and emit those without a match."""
        is_event_time = ctx.time_domain().name == "EVENT_TIME"
        for side in (LEFT, RIGHT):
            records = self._sides[side]
            for number, (time, of_event, had_partner, record) in list(records.items()):
                if of_event is not is_event_time or time + self._deadline_ms > timestamp:
                    continue
                records.remove(number)
                if not had_partner and self._outer[side]:
                    yield from self._emit(side, record, None, ctx.get_current_key())
        if self._sides[LEFT].is_empty() and self._sides[RIGHT].is_empty():
            self._count.clear()
