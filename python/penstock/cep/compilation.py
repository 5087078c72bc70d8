"""Compiles patterns to automata.

The states and edges are those of Flink's NFACompiler, so that patterns have its semantics even for
combinations that its documentation leaves open.  A pattern is compiled from its last part to its
first: each part becomes states that lead to the state of the next part, the *sink*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from penstock.cep.conditions import Call, Condition, both, negated
from penstock.cep.errors import MalformedPatternError
from penstock.cep.pattern import DELIMITER, GroupPattern, Pattern
from penstock.cep.quantifier import Contiguity, WithinType
from penstock.graph.operators import (
    CompiledPattern,
    PatternCondition,
    PatternState,
    PatternTransition,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_END = "$endState$"

Action = Literal["take", "ignore", "proceed"]
Kind = Literal["normal", "final", "stop", "pending"]


def compile_pattern(
    pattern: Pattern, function_of: Callable[[Call], PatternCondition]
) -> CompiledPattern:
    """Return the automaton of a pattern.

    Args:
        pattern: The last part of the pattern.
        function_of: Returns the function of a condition; called once for each.

    Raises:
        MalformedPatternError: The parts do not fit together.
    """
    compiler = _Compiler(pattern)
    start = compiler.compile()
    return _Flattening(function_of).pattern(compiler, start, pattern)


@dataclass(eq=False)
class _State:
    name: str
    kind: Kind
    window_ms: int = 0
    edges: list[_Edge] = field(default_factory=list)

    @property
    def label(self) -> str:
        return self.name.split(DELIMITER, 1)[0]

    def add(self, action: Action, target: _State, condition: Condition) -> None:
        self.edges.append(_Edge(action, target, condition))

    def ignore(self, condition: Condition) -> None:
        self.add("ignore", self, condition)


@dataclass(eq=False)
class _Edge:
    action: Action
    target: _State
    condition: Condition


@dataclass(frozen=True)
class _Never:
    """Marks a missing ignore edge, whereas None is a condition that is always true."""


_NEVER = _Never()


class _Compiler:
    """Builds the states of one pattern, from its end to its beginning.

    Attributes:
        states: All states, the final one first.
        window_ms: The smallest window from the first to the last record; None without one.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.states: list[_State] = []
        self.window_ms: int | None = None
        self._names: set[str] = set()
        self._stops: dict[str, _State] = {}
        self._part = pattern
        self._following: Pattern | None = None
        self._group: GroupPattern | None = None
        #: By repeated group, whether its first repetition is compiled.
        self._is_first: dict[GroupPattern, bool] = {}
        #: By sink of a greedy loop with an until condition, the state without the loop's condition.
        self._originals: dict[_State, _State] = {}

    def compile(self) -> _State:
        """Return the initial state of matches."""
        self._check_names()
        end = self._state(_END, "final")
        self.window_ms = self._part.windows_ms.get(WithinType.FIRST_AND_LAST)
        sink = self._middle(end)
        start = self._converted(sink)
        self._check_windows()
        self._check_loops()
        return start

    def _check_names(self) -> None:
        seen: set[str] = {_END}
        for part in _all_parts(self.pattern):
            if part.name in seen:
                raise MalformedPatternError(
                    f"the name {part.name!r} of a part is used twice; names must differ"
                )
            seen.add(part.name)
        skip_to = self.pattern.skip_strategy.name
        if skip_to is not None and skip_to not in (part.name for part in self.pattern.parts()):
            names = ", ".join(repr(part.name) for part in reversed(list(self.pattern.parts())))
            raise MalformedPatternError(
                f"the skip strategy skips to {skip_to!r}, but the parts are {names}"
            )

    def _check_windows(self) -> None:
        if self.window_ms:
            for state in self.states:
                if state.window_ms > self.window_ms:
                    raise MalformedPatternError(
                        f"the window of {state.window_ms} ms between two records of "
                        f"{state.label!r} is longer than that of the pattern, {self.window_ms} ms"
                    )
        last = self.pattern
        if last.quantifier.contiguity is Contiguity.NOT_FOLLOWED and not (
            self.window_ms or last.windows_ms.get(WithinType.PREVIOUS_AND_CURRENT)
        ):
            raise MalformedPatternError(
                f"the pattern ends with not_followed_by({last.name!r}) and needs within(…): "
                "without it, no moment shows that nothing follows"
            )

    def _check_loops(self) -> None:
        """Reject loops that could continue without a record."""
        done: set[_State] = set()
        for state in self.states:
            if _has_empty_loop(state, set(), done):
                raise MalformedPatternError(
                    f"a repeated group has the part {state.label!r} and no part that takes a "
                    "record each time: one of its parts must not be optional"
                )

    def _middle(self, sink: _State) -> _State:
        """Add the states of all parts of the current pattern except the first."""
        while self._part.previous is not None:
            contiguity = self._part.quantifier.contiguity
            if contiguity is Contiguity.NOT_FOLLOWED:
                # Otherwise it becomes edges of the following states.
                if sink.kind == "final" and (
                    WithinType.PREVIOUS_AND_CURRENT in self._part.windows_ms or self.window_ms
                ):
                    sink = self._pending()
            elif contiguity is Contiguity.NOT_NEXT:
                sink = self._not_next(sink)
            else:
                sink = self._converted(sink)
            self._following = self._part
            self._part = self._part.previous
            window_ms = self._part.windows_ms.get(WithinType.FIRST_AND_LAST)
            if window_ms is not None and (self.window_ms is None or window_ms < self.window_ms):
                self.window_ms = window_ms
        return sink

    def _pending(self) -> _State:
        pending = self._part_state("pending", takes=True)
        condition = self._taken(self._part)
        pending.add("proceed", self._stop(condition, self._part.name), condition)
        pending.ignore(negated(condition))
        return pending

    def _not_next(self, sink: _State) -> _State:
        state = self._part_state("normal", takes=True)
        condition = self._taken(self._part)
        stop = self._stop(condition, self._part.name)
        # An ignored record leads to the final state; else the match would end before it.
        state.add("ignore" if sink.kind == "final" else "proceed", sink, negated(condition))
        state.add("proceed", stop, condition)
        return state

    def _converted(self, sink: _State) -> _State:
        """Return the first state of the current part, which leads to a sink."""
        quantifier = self._part.quantifier
        if quantifier.kind == "looping":
            self._note_first(False)
            # Once the loop has begun, negative parts before it no longer hold.
            loop = self._loop(self._without_negatives(sink))
            self._note_first(True)
            state = self._repeated(loop, sink)
        elif quantifier.kind == "times":
            state = self._repeated(sink, sink)
        else:
            state = self._single(
                sink,
                sink,
                self._taken(self._part),
                self._ignored(self._part),
                is_optional=quantifier.is_optional,
            )
        self._add_stops(state)
        return state

    def _repeated(self, sink: _State, proceed: _State) -> _State:
        """Add a state for each repetition; the last of them is the first in time."""
        part, quantifier = self._part, self._part.quantifier
        self._note_first(False)
        until = part.until_condition
        ignored = _until(self._ignored_within(part), until)
        taken = both(_unless(until), self._taken(part))
        if quantifier.is_greedy and quantifier.least != quantifier.most:
            if until is not None:
                self._originals[sink] = self._copy(sink)
            _require_false(sink, taken)
        for _ in range(quantifier.least, quantifier.most):
            sink = self._single(sink, proceed, taken, ignored, is_optional=True)
            self._add_following_stop(sink)
        for _ in range(quantifier.least - 1):
            sink = self._single(sink, None, taken, ignored, is_optional=False)
            self._add_following_stop(sink)
        self._note_first(True)
        return self._single(
            sink, proceed, taken, self._ignored(part), is_optional=quantifier.is_optional
        )

    def _single(
        self,
        sink: _State,
        proceed: _State | None,
        taken: Condition,
        ignored: Condition | _Never,
        *,
        is_optional: bool,
    ) -> _State:
        """Add a state that takes one record.

        An optional state has a twin without the edge to ``proceed``, so that ignoring a record does
        not branch again.
        """
        if isinstance(self._part, GroupPattern):
            return self._group_states(self._part, sink, proceed, is_optional=is_optional)
        state = self._part_state("normal", takes=True)
        sink = self._without_negatives(sink)
        state.add("take", sink, taken)
        if is_optional:
            assert proceed is not None, "an optional repetition can be left out"
            self._add_proceed(state, proceed)
        if not isinstance(ignored, _Never):
            if is_optional or self._is_head_of_optional_group():
                waiting = self._part_state("normal", takes=False)
                waiting.add("take", sink, taken)
                waiting.ignore(ignored)
                self._add_stops(waiting)
            else:
                waiting = state
            state.add("ignore", waiting, ignored)
        return state

    def _add_proceed(self, state: _State, proceed: _State) -> None:
        always, until = self._always(), self._part.until_condition
        if self._part.quantifier.is_greedy and until is not None:
            original = self._originals.get(proceed)
            if original is not None:
                state.add("proceed", original, both(always, until))
            state.add("proceed", proceed, both(always, negated(until)))
        else:
            state.add("proceed", proceed, always)

    def _loop(self, sink: _State) -> _State:
        """Add a state that takes any number of records; its twin waits for the next one."""
        part = self._part
        if isinstance(part, GroupPattern):
            return self._looping_group(part, sink)
        until = part.until_condition
        ignored = _until(self._ignored_within(part), until)
        taken = both(_unless(until), self._taken(part))
        always = self._always()
        state = self._part_state("normal", takes=True)
        if part.quantifier.is_greedy:
            if until is not None:
                original = self._copy(sink)
                state.add("proceed", original, both(always, until))
                self._originals[sink] = original
            state.add("proceed", sink, both(always, _unless(until)))
            _require_false(sink, self._taken(part))
        else:
            state.add("proceed", sink, always)
        state.add("take", state, taken)
        self._add_following_stop(state)
        if not isinstance(ignored, _Never):
            waiting = self._part_state("normal", takes=False)
            waiting.add("take", state, taken)
            waiting.ignore(ignored)
            state.add("ignore", waiting, ignored)
            self._add_following_stop(waiting)
        return state

    def _group_states(
        self, group: GroupPattern, sink: _State, proceed: _State | None, *, is_optional: bool
    ) -> _State:
        outer = self._entered(group)
        # The condition belongs to the enclosing group, so evaluate it first.
        always = outer[0]
        state = self._converted(self._middle(sink))
        if is_optional:
            assert proceed is not None, "an optional repetition can be left out"
            state.add("proceed", proceed, always)
        self._left(outer)
        return state

    def _looping_group(self, group: GroupPattern, sink: _State) -> _State:
        # Close the loop: the group's states lead to it, and it leads to the first of them.
        closing = self._part_state("normal", takes=True)
        outer = self._entered(group)
        always = outer[0]
        state = self._converted(self._middle(closing))
        state.add("proceed", sink, always)
        closing.add("proceed", state, always)
        self._left(outer)
        return state

    def _entered(self, group: GroupPattern) -> tuple[Any, ...]:
        outer = (self._always(), self._part, self._following, self._group)
        self._group, self._part = group, group.group
        return outer

    def _left(self, outer: tuple[Any, ...]) -> None:
        _, self._part, self._following, self._group = outer

    def _note_first(self, is_first: bool) -> None:
        if isinstance(self._part, GroupPattern):
            self._is_first[self._part] = is_first

    def _is_head_of_optional_group(self) -> bool:
        group = self._group
        return (
            group is not None
            and self._part.previous is None
            and self._is_first.get(group, True)
            and group.quantifier.is_optional
        )

    # Negative parts.

    def _negatives(self) -> list[tuple[Condition, str]]:
        """Return the conditions of the negative parts that hold before the current part."""
        found: list[tuple[Condition, str]] = []
        part = self._part.previous
        while part is not None and (
            part.quantifier.is_optional or part.quantifier.contiguity is Contiguity.NOT_FOLLOWED
        ):
            if part.quantifier.contiguity is Contiguity.NOT_FOLLOWED:
                found.append((self._taken(part), part.name))
            part = part.previous
        return found

    def _add_stops(self, state: _State) -> None:
        for condition, name in self._negatives():
            state.add("proceed", self._stop(condition, name), condition)

    def _add_following_stop(self, state: _State) -> None:
        following = self._following
        if following is not None and following.quantifier.contiguity is Contiguity.NOT_FOLLOWED:
            condition = self._taken(following)
            state.add("proceed", self._stop(condition, following.name), condition)

    def _stop(self, condition: Condition, name: str) -> _State:
        """Return the state of a negative part, in which partial matches are discarded."""
        stop = self._stops.get(name)
        if stop is None:
            stop = self._stops[name] = self._state(name, "stop")
            stop.add("take", stop, condition)
        return stop

    def _without_negatives(self, sink: _State) -> _State:
        """Return a copy of a sink without the negative parts before an optional current part.

        A record of the part ends them; if the part is left out, they still hold.
        """
        negatives = self._negatives()
        if not negatives or not self._part.quantifier.is_optional:
            return sink
        names = {name for _, name in negatives}
        copy = self._state(sink.name, sink.kind)
        for edge in sink.edges:
            if edge.action == "proceed":
                if edge.target.kind == "stop":
                    if edge.target.name in names:
                        continue
                    target = edge.target
                else:
                    target = self._without_negatives(edge.target)
            else:
                target = copy if edge.target is sink else edge.target
            copy.add(edge.action, target, edge.condition)
        return copy

    # Conditions.

    def _group_until(self) -> Condition:
        return None if self._group is None else self._group.until_condition

    def _always(self) -> Condition:
        """Return the condition of an edge that needs no record; for a group, until it ends."""
        return _unless(self._group_until())

    def _taken(self, part: Pattern) -> Condition:
        return both(self._always(), part.condition)

    def _ignored(self, part: Pattern) -> Condition | _Never:
        contiguity = part.quantifier.contiguity
        group = self._group
        if group is not None and part.previous is None:
            is_first = self._is_first.get(group, True)
            quantifier = group.quantifier
            contiguity = quantifier.contiguity if is_first else quantifier.inner
        return self._ignored_by(contiguity, part)

    def _ignored_within(self, part: Pattern) -> Condition | _Never:
        contiguity = part.quantifier.inner
        if self._group is not None and part.previous is None:
            contiguity = self._group.quantifier.inner
        return self._ignored_by(contiguity, part)

    def _ignored_by(self, contiguity: Contiguity, part: Pattern) -> Condition | _Never:
        ignored: Condition | _Never = _NEVER
        if contiguity is Contiguity.RELAXED:
            ignored = negated(part.condition)
        elif contiguity is Contiguity.NON_DETERMINISTIC:
            ignored = None
        return _until(ignored, self._group_until())

    # States.

    def _part_state(self, kind: Kind, *, takes: bool) -> _State:
        state = self._state(self._part.name, kind)
        quantifier = self._part.quantifier
        if takes and quantifier.kind == "single":
            state.window_ms = self._part.windows_ms.get(WithinType.PREVIOUS_AND_CURRENT, 0)
        elif takes and DELIMITER in state.name:
            state.window_ms = quantifier.window_ms or 0
        return state

    def _state(self, name: str, kind: Kind) -> _State:
        candidate, number = name, 0
        while candidate in self._names:
            candidate = f"{name}{DELIMITER}{number}"
            number += 1
        self._names.add(candidate)
        state = _State(candidate, kind)
        self.states.append(state)
        return state

    def _copy(self, state: _State) -> _State:
        copy = self._state(state.label, state.kind)
        for edge in state.edges:
            copy.add(edge.action, copy if edge.target is state else edge.target, edge.condition)
        return copy


def _unless(until: Condition) -> Condition:
    """Return the condition that an until condition is false; None, always true, without one."""
    return None if until is None else negated(until)


def _until(condition: Condition | _Never, until: Condition) -> Condition | _Never:
    """Return a condition of an ignore edge that also needs an until condition to be false."""
    return condition if isinstance(condition, _Never) else both(_unless(until), condition)


def _require_false(state: _State, condition: Condition) -> None:
    """Exclude the records that a preceding greedy loop takes from a state's edges."""
    for edge in state.edges:
        edge.condition = both(edge.condition, negated(condition))


def _has_empty_loop(state: _State, path: set[_State], done: set[_State]) -> bool:
    """Return whether edges that need no record lead back to a state of the path."""
    if state in path:
        return True
    if state in done:
        return False
    path.add(state)
    found = any(
        _has_empty_loop(edge.target, path, done) for edge in state.edges if edge.action == "proceed"
    )
    path.discard(state)
    done.add(state)
    return found


def _all_parts(pattern: Pattern) -> Iterator[Pattern]:
    """Yield the parts of a pattern and of its groups."""
    for part in pattern.parts():
        if isinstance(part, GroupPattern):
            yield from _all_parts(part.group)
        else:
            yield part


class _Flattening:
    """Turns states that refer to each other into data."""

    def __init__(self, function_of: Callable[[Call], PatternCondition]) -> None:
        self._function_of = function_of
        self._indexes: dict[Call, int] = {}
        self._functions: list[PatternCondition] = []

    def pattern(self, compiler: _Compiler, start: _State, pattern: Pattern) -> CompiledPattern:
        indexes = {state: index for index, state in enumerate(compiler.states)}
        states = tuple(
            PatternState(
                state.name,
                state.label,
                state.kind,
                tuple(
                    PatternTransition(edge.action, indexes[edge.target], self._tree(edge.condition))
                    for edge in state.edges
                ),
                state.window_ms,
            )
            for state in compiler.states
        )
        strategy = pattern.skip_strategy
        return CompiledPattern(
            states,
            indexes[start],
            tuple(self._functions),
            compiler.window_ms or 0,
            strategy.kind,
            strategy.name,
            strategy.throws,
        )

    def _tree(self, condition: Condition) -> Any:
        if condition is None:
            return None
        if isinstance(condition, Call):
            if condition not in self._indexes:
                self._indexes[condition] = len(self._functions)
                self._functions.append(self._function_of(condition))
            return self._indexes[condition]
        return (condition[0], *(self._tree(part) for part in condition[1:]))
