# cython: annotation_typing=False, boundscheck=True, binding=False
# The C types come from pattern_operator.pxd; the annotations below are for readers and mypy.
"""The operator of patterns: records wait for their time, then go to their key's matcher.

One source with two uses; see ``operator_loop``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.exception_deadline import repr_in_time
from penstock.errors import InvalidProgramError

# Relative: when compiled, these are the classes that the .pxd cimports.
from .operator_loop import MIN_TIMESTAMP, FunctionOperator  # noqa: TID252
from .pattern_matching import PatternMatcher  # noqa: TC001, TID252
from .process_operators import emit_results  # noqa: TID252
from .timers import InternalTimerService, TimerTarget  # noqa: TID252
from .untracked import untrack  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.table import CopyOnWriteStateMap


#: The namespace of the timers that check a time to live.
_LIFETIME = "lifetime"


class MatchTimes:
    """The context of match functions: one object for all of them."""

    def __init__(self, clock: Callable[[], int]) -> None:
        """Create the context without a match."""
        self.clock = clock
        self.match_timestamp = MIN_TIMESTAMP

    def timestamp(self) -> int:
        """Return the timestamp of the match, in ms."""
        return self.match_timestamp

    def current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""
        return self.clock()


class PatternTimers(TimerTarget):
    """Notifies a pattern operator of timers that fire."""

    def __init__(self, operator: PatternOperator) -> None:
        """Create the timers of an operator."""
        TimerTarget.__init__(self, None)
        self.operator = operator

    def on_event_time(self, timestamp: int, key: object, namespace: object) -> None:  # noqa: ARG002
        """Process the waiting records of a key up to the watermark."""
        self.operator.reach(key, self.operator.timers.current_watermark)

    def on_processing_time(self, timestamp: int, key: object, namespace: object) -> None:
        """Process the waiting records of a key, and end partial matches."""
        if namespace is not None:
            self.operator.expire(key, timestamp)
            return
        now = self.operator.now()
        # Records of the current millisecond may still arrive.
        self.operator.reach(key, now - 1 if self.operator.is_ordered else now)


class PatternOperator(FunctionOperator):
    """Feeds the records of each key to a matcher, in the order of time.

    In event time, records wait by timestamp until the watermark reaches them; in processing time,
    only if a comparator orders those of one millisecond.
    """

    def __init__(
        self,
        user_function: Any,
        matcher: PatternMatcher,
        keys: KeyReader,
        state: Any,
        entries: CopyOnWriteStateMap,
        waiting: CopyOnWriteStateMap,
        touched: CopyOnWriteStateMap | None,
        now: Callable[[], int],
        tag_class: Any,
        *,
        is_event_time: bool,
        sort_key: object,
        late_tag: str | None,
        late_records_dropped: Any,
        copier: Any,
        ttl_ms: int,
    ) -> None:
        """Create the operator; `use_timers` sets its timers.

        Args:
            user_function: A PatternProcessFunction.
            matcher: Its matcher.
            keys: Returns the keys of records.
            state: The keyed state backend, whose ``current_key`` is set.
            entries: The entry of the matcher, by key.
            waiting: The waiting records by key, in a list for each timestamp.
            touched: With a time to live, the processing time of a key's last record, in ms; each
                key in it has a timer.
            now: Returns the processing time, in ms.
            tag_class: A pair that starts with an instance of it goes to a side output.
            is_event_time: Whether records are ordered by timestamp.
            sort_key: Orders the records of one timestamp; None for the order of arrival.
            late_tag: The id of the side output of late records, or None.
            late_records_dropped: Counts late records without a side output.
            copier: Copies the records of matches; None if they are immutable.
            ttl_ms: The processing time without records after which the partial matches of a key
                are dropped; 0 for never.
        """
        FunctionOperator.__init__(self, user_function, user_function.process_match)
        self.matcher = matcher
        self.keys = keys
        self.state = state
        self.entries = entries
        self.waiting = waiting
        self.touched: Any = touched
        self.now = now
        self.tag_class = tag_class
        self.is_event_time = is_event_time
        self.is_ordered = is_event_time or sort_key is not None
        self.sort_key = sort_key
        self.late_tag = late_tag
        self.late_records_dropped = late_records_dropped
        self.copier = copier
        self.ttl_ms = ttl_ms
        self.process_timed_out: Any = getattr(user_function, "process_timed_out_match", None)
        if self.process_timed_out is not None:
            matcher.timed_out = []
        self.timers: InternalTimerService = None  # type: ignore[assignment]
        self.times = MatchTimes(now)
        #: An entry that belongs to no key.
        self.unused = matcher.new_entry()

    def use_timers(self, timers: InternalTimerService) -> None:
        """Set the timers; called once, before anything else."""
        self.timers = timers

    def process(self, value: object, timestamp: int) -> None:
        """Take one record."""
        done = False
        try:
            key = self.keys.read(value)
            self.state.current_key = key
            if self.is_event_time:
                if timestamp == MIN_TIMESTAMP:
                    msg = (
                        "a pattern in event time got a record without timestamp: call "
                        "assign_timestamps_and_watermarks(…) with a timestamp assigner before it, "
                        "or in_processing_time()"
                    )
                    raise InvalidProgramError(msg)
                if timestamp <= self.timers.current_watermark:
                    self._take_late(value, timestamp)
                else:
                    self._keep(key, value, timestamp)
            elif self.is_ordered:
                self._keep(key, value, self.now())
            else:
                self._process(key, value, self.now())
            done = True
        finally:
            if not done:
                self.note_failure()

    def process_watermark(self, timestamp: int) -> None:
        """Process the waiting records, then forward the watermark."""
        self.timers.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    def _take_late(self, value: object, timestamp: int) -> None:
        if self.late_tag is None:
            self.late_records_dropped.inc()
        else:
            self.output.collect_side(self.late_tag, value, timestamp)

    def _keep(self, key: object, value: object, timestamp: int) -> None:
        """Store a record until its time."""
        waiting = self.waiting.get(key)
        time: Any = timestamp
        values = [value]
        untrack(values)
        if waiting is None:
            waiting = {time: values}
            untrack(waiting)
            # Only now: a store may write the entry at once.
            self.waiting.put(key, waiting)
            self._register(timestamp)
            return
        known = waiting.get(time)
        if known is not None:
            known.append(value)
            return
        waiting[time] = values
        untrack(waiting)
        # The earliest time has a timer, and those after the dictionary's first one need none.
        for earliest in waiting:
            if timestamp <= earliest:
                self._register(timestamp)
            break

    def _register(self, timestamp: int) -> None:
        """Register a timer for a time at which a key must be checked."""
        if self.is_event_time:
            self.timers.register_event_time_timer(None, timestamp)
        else:
            offset = 1 if self.is_ordered else 0
            self.timers.register_processing_time_timer(None, timestamp + offset)

    def _process(self, key: object, value: object, timestamp: int) -> None:
        """Offer a record to the matches of a key immediately."""
        entry = self._entry(key)
        is_kept = entry is not self.unused
        self._advance(entry, timestamp)
        self._offer(entry, value, timestamp)
        if self.ttl_ms > 0:
            self._touch(key, entry)
        self._store(key, entry, is_kept)

    def reach(self, key: object, timestamp: int) -> None:
        """Offer the waiting records of a key up to a time, then end partial matches."""
        waiting = self.waiting.get(key)
        entry = self._entry(key)
        is_kept = entry is not self.unused
        rest: dict[int, list[Any]] | None = None
        if waiting is not None:
            for time in waiting if len(waiting) == 1 else sorted(waiting):
                values = waiting[time]
                now = time
                if now > timestamp:
                    if rest is None:
                        # The first one that stays, and the others wait for it.
                        rest = {}
                        self._register(now)
                    rest[time] = values
                    continue
                self._advance(entry, now)
                if self.sort_key is not None and len(values) > 1:
                    values.sort(key=self.sort_key)
                for value in values:
                    self._offer(entry, value, now)
        self._advance(entry, timestamp)
        # From here on the entry does not change: a store that makes room may write and evict it.
        if waiting is not None:
            if rest is None:
                self.waiting.remove(key)
            elif len(rest) < len(waiting):
                untrack(rest)
                self.waiting.put(key, rest)
            if self.ttl_ms > 0:
                self._touch(key, entry)
        self._store(key, entry, is_kept)

    def _touch(self, key: object, entry: list[object]) -> None:
        """Restart the time to live of a key that has partial matches."""
        if self.matcher.is_unused(entry):
            return
        now = self.now()
        if self.touched.get(key) is None:
            self.timers.register_processing_time_timer(_LIFETIME, now + self.ttl_ms)
        self.touched.put(key, now)

    def expire(self, key: object, timestamp: int) -> None:
        """Drop the partial matches of a key that had no record for the time to live."""
        if self.ttl_ms == 0:
            # The timer is from a snapshot of a program with a time to live.
            return
        touched = self.touched.get(key)
        if touched is None:
            return
        end = touched + self.ttl_ms
        if end > timestamp:
            self.timers.register_processing_time_timer(_LIFETIME, end)
            return
        self.touched.remove(key)
        if self.entries.get(key) is not None:
            self.entries.remove(key)

    def _entry(self, key: object) -> list[Any]:
        """Return the matches of a key, or `unused` if the state has none."""
        entry: list[Any] | None = self.entries.get(key)
        if entry is None:
            return self.unused
        if entry[0] is not self.matcher.names:
            self.matcher.adopt(entry)
        return entry

    def _store(self, key: object, entry: list[object], is_kept: bool) -> None:
        """Store the matches of a key, if there are any."""
        if self.matcher.is_unused(entry):
            if is_kept:
                self.entries.remove(key)
        elif not is_kept:
            self.entries.put(key, entry)
            self.unused = self.matcher.new_entry()

    def _offer(self, entry: list[object], value: object, timestamp: int) -> None:
        matcher = self.matcher
        found = matcher.process(entry, value, timestamp)
        if matcher.has_begun and matcher.window_ms:
            self._register(timestamp + matcher.window_ms)
        if matcher.deadlines:
            for deadline in matcher.deadlines:
                self._register(deadline)
            matcher.deadlines.clear()
        if found:
            self._emit(found, timestamp)

    def _advance(self, entry: list[Any], timestamp: int) -> None:
        matcher = self.matcher
        found = matcher.advance(entry, timestamp)
        if found:
            self._emit(found, min(timestamp, matcher.ended_at))
        if matcher.timed_out:
            timed_out = list(matcher.timed_out)
            matcher.timed_out.clear()
            for match, end in timed_out:
                self._emit_timed_out(match, end)

    def _emit(self, matches: list[dict[str, list[object]]], timestamp: int) -> None:
        self.times.match_timestamp = timestamp
        for match in matches:
            result = self.function(self._own(match), self.times)
            if result is not None:
                emit_results(self.output, result, timestamp, self.tag_class)

    def _emit_timed_out(self, match: dict[str, list[object]], timestamp: int) -> None:
        self.times.match_timestamp = timestamp
        results = self.process_timed_out(self._own(match), self.times)
        for result in () if results is None else results:
            if not (
                isinstance(result, tuple)
                and len(result) == 2
                and isinstance(result[0], self.tag_class)
            ):
                msg = (
                    "process_timed_out_match yields pairs of an OutputTag and a value, for side "
                    f"outputs; it yielded {repr_in_time(result)}"
                )
                raise InvalidProgramError(msg)
            self.output.collect_side(result[0].tag_id, result[1], timestamp)

    def _own(self, match: dict[str, list[object]]) -> dict[str, list[object]]:
        """Return a match that the function may change."""
        copier = self.copier
        if copier is None:
            return match
        return {name: [copier.copied(value) for value in match[name]] for name in match}
