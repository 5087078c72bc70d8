"""Matches of patterns over keyed streams."""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final

from penstock.datastream.output_tag import OutputTag
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.compiled import (
    LOADED,
    MIN_TIMESTAMP,
    FunctionOperator,
    emit_results,
)

if TYPE_CHECKING or LOADED != "native":
    from penstock.taskexecutor.compiled.pattern_matching import (
        MatchCondition,
        MatchEdge,
        MatchState,
        PatternMatcher,
    )
else:
    from penstock._native.pattern_matching import (
        MatchCondition,
        MatchEdge,
        MatchState,
        PatternMatcher,
    )

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.graph import operators
    from penstock.taskexecutor.compiled import StreamOperator
    from penstock.taskexecutor.task.operator_context import OperatorContext

_ACTIONS: Final = {"take": 0, "ignore": 1, "proceed": 2}
_COMBINATIONS: Final = {"not": 1, "and": 2, "or": 3}
_NEVER: Final = 4
_SKIPS: Final = {"no_skip": 0, "to_next": 1, "past_last_event": 2, "to_first": 3, "to_last": 4}


def create_pattern(context: OperatorContext, descriptor: operators.MatchPattern) -> StreamOperator:
    """Matches of a pattern over the records of each key."""
    return PatternOperator(context, descriptor)


def create_matcher(
    pattern: operators.CompiledPattern,
    evaluated: Callable[[Any], Any],
    clock: Callable[[], int],
) -> PatternMatcher:
    """Return the matcher of a compiled pattern.

    Args:
        pattern: The pattern.
        evaluated: Makes the fastest form of a function of a record.
        clock: Returns the processing time, in ms.
    """
    states = [
        MatchState(index, state.name, state.label, state.kind, state.window_ms)
        for index, state in enumerate(pattern.states)
    ]
    for state, described in zip(states, pattern.states, strict=True):
        for transition in described.transitions:
            state.edges.append(
                MatchEdge(
                    _ACTIONS[transition.action],
                    states[transition.target],
                    _condition(transition.condition),
                )
            )
    for state in states:
        state.may_end = _may_end(state)
    return PatternMatcher(
        states,
        states[pattern.start],
        [
            condition.function if condition.is_iterative else evaluated(condition.function)
            for condition in pattern.conditions
        ],
        [condition.is_iterative for condition in pattern.conditions],
        pattern.window_ms,
        _SKIPS[pattern.skip],
        pattern.skip_to,
        pattern.throws_on_miss,
        clock,
    )


def _condition(tree: Any) -> MatchCondition | None:
    if tree is None:
        return None
    if isinstance(tree, int):
        return MatchCondition(0, tree, None, None)
    parts = [_condition(part) for part in tree[1:]]
    if None in parts:
        return _constant(tree[0], parts)
    return MatchCondition(_COMBINATIONS[tree[0]], 0, parts[0], parts[-1])


def _constant(combination: str, parts: list[MatchCondition | None]) -> MatchCondition | None:
    """Return a combination in which a part is always true."""
    if combination == "not":
        return MatchCondition(_NEVER, 0, None, None)
    if combination == "or":
        return None
    [other] = [part for part in parts if part is not None] or [None]
    return other


def _may_end(state: MatchState) -> bool:
    """Return whether edges lead from a state to the final one without another record."""
    seen: set[int] = set()
    waiting = [state]
    while waiting:
        for edge in waiting.pop().edges:
            if edge.action == _ACTIONS["proceed"] and edge.target.index not in seen:
                if edge.target.is_final:
                    return True
                seen.add(edge.target.index)
                waiting.append(edge.target)
    return False


class MatchTimes:
    """The context of functions of matches: one object for all of them."""

    def __init__(self, clock: Callable[[], int]) -> None:
        """Create the context without a match."""
        self._clock = clock
        self.match_timestamp = MIN_TIMESTAMP

    def timestamp(self) -> int:
        """Return the timestamp of the match, in ms."""
        return self.match_timestamp

    def current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""
        return self._clock()


class PatternOperator(FunctionOperator):
    """Feeds the records of each key to a matcher, in the order of time.

    In event time, records wait by timestamp until the watermark reaches them; in processing time,
    only if a comparator orders those of one millisecond.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.MatchPattern) -> None:
        """Create the operator."""
        function = descriptor.function
        super().__init__(function, function.process_match)
        self.is_event_time = descriptor.is_event_time
        self.is_ordered = descriptor.is_event_time or descriptor.comparator is not None
        self.late_tag = descriptor.late_tag
        compare = descriptor.comparator
        self.sort_key = None if compare is None else cmp_to_key(compare)
        self.keys: Any = context.key_reader()
        if self.keys is None:
            msg = f"{context.name!r} matches a pattern, but its input is not keyed"
            raise InvalidProgramError(msg)
        types = context.config.input_types[:1]
        now = context.processing_time.now
        self.now = now
        self.matcher = create_matcher(
            descriptor.pattern,
            lambda given: context.evaluation.without_call(given, 1, types),
            now,
        )
        self.process_timed_out = getattr(function, "process_timed_out_match", None)
        if self.process_timed_out is not None:
            self.matcher.timed_out = []
        self.state = context.keyed_state
        self.entries = context.keyed_state.table("matches", "value").map(None)
        self.waiting = context.keyed_state.table("waiting", "value").map(None)
        self.timers = context.timer_service(self)
        self.times = MatchTimes(now)
        self.copier = context.isolation.copier("matches", *types)
        self.late_records_dropped = context.metric_group().counter("numLateRecordsDropped")
        #: An entry that no key has.
        self.unused = self.matcher.new_entry()

    def process(self, value: Any, timestamp: int) -> None:
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
        """Process the records that waited, then pass the watermark on."""
        self.timers.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Process the waiting records of a key up to the watermark."""
        del timestamp, namespace
        self._reach(key, self.timers.current_watermark)

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Process the waiting records of a key, and end partial matches."""
        del timestamp, namespace
        # Records of the current millisecond may still come.
        self._reach(key, self.now() - 1 if self.is_ordered else self.now())

    def _take_late(self, value: Any, timestamp: int) -> None:
        if self.late_tag is None:
            self.late_records_dropped.inc()
        else:
            self.output.collect_side(self.late_tag, value, timestamp)

    def _keep(self, key: Any, value: Any, timestamp: int) -> None:
        """Let a record wait for its time."""
        waiting = self.waiting.get(key)
        if waiting is None:
            self.waiting.put(key, {timestamp: [value]})
        elif timestamp in waiting:
            waiting[timestamp].append(value)
            return
        else:
            waiting[timestamp] = [value]
        self._register(timestamp)

    def _register(self, timestamp: int) -> None:
        """Register a timer for a time at which a key is looked at."""
        if self.is_event_time:
            self.timers.register_event_time_timer(None, timestamp)
        else:
            offset = 1 if self.is_ordered else 0
            self.timers.register_processing_time_timer(None, timestamp + offset)

    def _process(self, key: Any, value: Any, timestamp: int) -> None:
        """Offer a record to the matches of a key at once."""
        entry, is_kept = self._entry(key)
        self._advance(entry, timestamp)
        self._offer(entry, value, timestamp)
        self._store(key, entry, is_kept=is_kept)

    def _reach(self, key: Any, timestamp: int) -> None:
        """Offer the waiting records of a key up to a time, then end partial matches."""
        waiting = self.waiting.get(key)
        entry, is_kept = self._entry(key)
        if waiting is not None:
            for due in sorted(time for time in waiting if time <= timestamp):
                values = waiting.pop(due)
                self._advance(entry, due)
                if self.sort_key is not None and len(values) > 1:
                    values.sort(key=self.sort_key)
                for value in values:
                    self._offer(entry, value, due)
            if not waiting:
                self.waiting.remove(key)
        self._advance(entry, timestamp)
        self._store(key, entry, is_kept=is_kept)

    def _entry(self, key: Any) -> tuple[list[Any], bool]:
        """Return the matches of a key, and whether the state has them."""
        entry = self.entries.get(key)
        if entry is None:
            return self.unused, False
        if entry[0] is not self.matcher.names:
            self.matcher.adopt(entry)
        return entry, True

    def _store(self, key: Any, entry: list[Any], *, is_kept: bool) -> None:
        """Keep the matches of a key unless there are none."""
        if self.matcher.is_unused(entry):
            if is_kept:
                self.entries.remove(key)
        elif not is_kept:
            self.entries.put(key, entry)
            self.unused = self.matcher.new_entry()

    def _offer(self, entry: list[Any], value: Any, timestamp: int) -> None:
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

    def _emit(self, matches: Iterable[dict[str, list[Any]]], timestamp: int) -> None:
        self.times.match_timestamp = timestamp
        for match in matches:
            result = self.function(self._own(match), self.times)
            if result is not None:
                emit_results(self.output, result, timestamp, OutputTag)

    def _emit_timed_out(self, match: dict[str, list[Any]], timestamp: int) -> None:
        self.times.match_timestamp = timestamp
        results = self.process_timed_out(self._own(match), self.times)
        for result in () if results is None else results:
            if not (
                isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], OutputTag)
            ):
                msg = (
                    "process_timed_out_match yields pairs of an OutputTag and a value, for side "
                    f"outputs; it yielded {result!r}"
                )
                raise InvalidProgramError(msg)
            self.output.collect_side(result[0].tag_id, result[1], timestamp)

    def _own(self, match: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """Return a match that the function may change."""
        copier = self.copier
        if copier is None:
            return match
        return {name: [copier.copied(value) for value in match[name]] for name in match}
