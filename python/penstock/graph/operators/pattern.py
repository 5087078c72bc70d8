"""Patterns over the records of a key, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from penstock.graph.operators.descriptor import FunctionDescriptor

#: None is true; an integer is a condition's index; ("not", c), ("and", c, d) and ("or", c, d)
#: combine conditions.
ConditionTree: TypeAlias = Any


@dataclass(frozen=True)
class PatternTransition:
    """An edge of the automaton.

    Attributes:
        action: "take" adds the record to the match, "ignore" leaves it out, "proceed" offers the
            record to the next state.
        target: The index of the next state.
        condition: A condition of the record and the partial match.
    """

    action: Literal["take", "ignore", "proceed"]
    target: int
    condition: ConditionTree


@dataclass(frozen=True)
class PatternState:
    """A state of the automaton.

    Attributes:
        name: Unique, and the same whenever the same pattern is compiled.
        label: The name of the part of the pattern, under which matches list its records.
        kind: "final" completes a match, "stop" discards the partial match, "pending" completes it
            when its window ends.
        transitions: The transitions, in the order in which they are tried.
        window_ms: Maximum time since the previous record; 0 for any.
    """

    name: str
    label: str
    kind: Literal["normal", "final", "stop", "pending"]
    transitions: tuple[PatternTransition, ...]
    window_ms: int = 0


@dataclass(frozen=True)
class PatternCondition:
    """A function of a record.

    Attributes:
        function: A function of the record, and of the context if ``is_iterative``.
        is_iterative: Whether the function receives the context of the partial match.
    """

    function: Any
    is_iterative: bool


@dataclass(frozen=True)
class CompiledPattern:
    """A pattern as an automaton.

    Attributes:
        states: All states.
        start: The index of the initial state of every match.
        conditions: The conditions that transitions refer to by index.
        window_ms: Time after its first record at which a partial match ends; 0 for never.
        skip: "no_skip", "to_next", "past_last_event", "to_first" or "to_last".
        skip_to: The part that ``to_first`` and ``to_last`` name.
        throws_on_miss: Whether a match without that part fails the job.
    """

    states: tuple[PatternState, ...]
    start: int
    conditions: tuple[PatternCondition, ...]
    window_ms: int = 0
    skip: str = "no_skip"
    skip_to: str | None = None
    throws_on_miss: bool = False


@dataclass(frozen=True, kw_only=True)
class MatchPattern(FunctionDescriptor):
    """Matches of a pattern over the records of each key, for a PatternProcessFunction.

    Attributes:
        pattern: The automaton.
        is_event_time: Whether records are ordered by timestamp, instead of by arrival.
        comparator: Orders records of one timestamp; negative, 0 or positive as in ``cmp_to_key``.
            None keeps the order of arrival.
        late_tag: The id of the side output of late records, or None.
        ttl_ms: The processing time without records after which the partial matches of a key are
            dropped; 0 for never.
    """

    pattern: CompiledPattern
    is_event_time: bool = True
    comparator: Any = None
    late_tag: str | None = None
    ttl_ms: int = 0
