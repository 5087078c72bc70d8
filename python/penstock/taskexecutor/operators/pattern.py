"""Matches of patterns over keyed streams."""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final

from penstock.datastream.output_tag import OutputTag
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.compiled import LOADED

if TYPE_CHECKING or LOADED != "native":
    from penstock.taskexecutor.compiled import pattern_automaton, pattern_matching
    from penstock.taskexecutor.compiled.pattern_automaton import (
        MatchCondition,
        MatchEdge,
        MatchState,
    )
    from penstock.taskexecutor.compiled.pattern_matching import PatternMatcher
    from penstock.taskexecutor.compiled.pattern_operator import PatternOperator, PatternTimers
else:
    from penstock._native.operators import pattern_automaton, pattern_matching
    from penstock._native.operators.pattern_automaton import MatchCondition, MatchEdge, MatchState
    from penstock._native.operators.pattern_matching import PatternMatcher
    from penstock._native.operators.pattern_operator import PatternOperator, PatternTimers

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.graph import operators
    from penstock.taskexecutor.compiled import StreamOperator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_ACTIONS: Final = {
    "take": pattern_automaton.TAKE,
    "ignore": pattern_automaton.IGNORE,
    "proceed": pattern_automaton.PROCEED,
}
_COMBINATIONS: Final = {
    "not": pattern_automaton.NOT,
    "and": pattern_automaton.AND,
    "or": pattern_automaton.OR,
}
_SKIPS: Final = {
    "no_skip": pattern_matching.NO_SKIP,
    "to_next": pattern_matching.TO_NEXT,
    "past_last_event": pattern_matching.PAST_LAST_EVENT,
    "to_first": pattern_matching.TO_FIRST,
    "to_last": pattern_matching.TO_LAST,
}


def create_pattern(context: OperatorContext, descriptor: operators.MatchPattern) -> StreamOperator:
    """Create the operator that matches a pattern over the records of each key."""
    keys: Any = context.key_reader()
    if keys is None:
        msg = f"{context.name!r} matches a pattern, but its input is not keyed"
        raise InvalidProgramError(msg)
    types = context.config.input_types[:1]
    now = context.processing_time.now
    compare = descriptor.comparator
    is_expiring = descriptor.ttl_ms > 0
    operator = PatternOperator(
        descriptor.function,
        create_matcher(
            descriptor.pattern,
            lambda given: context.evaluation.without_call(given, 1, types),
            now,
        ),
        keys,
        context.keyed_state,
        context.keyed_state.table("matches", "value").map(None),
        context.keyed_state.table("waiting", "value").map(None),
        context.keyed_state.table("touched", "value").map(None) if is_expiring else None,
        now,
        OutputTag,
        is_event_time=descriptor.is_event_time,
        sort_key=None if compare is None else cmp_to_key(compare),
        late_tag=descriptor.late_tag,
        late_records_dropped=context.metric_group().counter("numLateRecordsDropped"),
        copier=context.isolation.copier("matches", *types),
        ttl_ms=descriptor.ttl_ms,
    )
    operator.use_timers(context.timer_service(PatternTimers(operator)))
    return operator


def create_matcher(
    pattern: operators.CompiledPattern,
    evaluated: Callable[[Any], Any],
    clock: Callable[[], int],
) -> PatternMatcher:
    """Return the matcher of a compiled pattern.

    Args:
        pattern: The pattern.
        evaluated: Returns the fastest form of a function of a record.
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
        return MatchCondition(pattern_automaton.CALL, tree, None, None)
    parts = [_condition(part) for part in tree[1:]]
    if None in parts:
        return _constant(tree[0], parts)
    return MatchCondition(_COMBINATIONS[tree[0]], 0, parts[0], parts[-1])


def _constant(combination: str, parts: list[MatchCondition | None]) -> MatchCondition | None:
    """Simplify a combination of which a part is always true."""
    if combination == "not":
        return MatchCondition(pattern_automaton.NEVER, 0, None, None)
    if combination == "or":
        return None
    return next((part for part in parts if part is not None), None)


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
