# cython: annotation_typing=False, boundscheck=True, binding=False
# The C types come from pattern_matching.pxd; the annotations below are for readers and mypy.
"""Matches of a pattern over the records of one key: the step of the automaton.

One source with two uses; see ``operator_loop``.

The state of a key is an entry, a list that any codec can write:

====  =================================================================================
0     the names of the automaton's states, joined: says what the indexes below mean
1     the last identifier that was given to a record; they grow
2     the partial matches, a binary heap by first record (``match_heap``)
3     the complete matches that wait for an earlier partial match to end, a heap as well
4     the nodes (``match_nodes``)
5     the records of the nodes (``match_nodes``)
====  =================================================================================

Places 3 to 5 are None until they are needed, since many keys have a single match of one record.

A match is a tuple: the index of its state, its first record, its last node, the timestamps of its
first and of its last record.  A first record of 0 stands for none: each entry has one match that
has not begun.  A match of one record may have the node 0, and then contains what the node would
say: the state and the value of the record follow.

The single record of a match becomes a node when the match takes another record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import IllegalStateError

# Relative: when compiled, these are the classes that the .pxd cimports.
from .match_heap import is_before, pop, push, sift_down  # noqa: TID252
from .match_nodes import (  # noqa: TID252
    add_node,
    add_record,
    flatten,
    has_record,
    refer,
    release,
)
from .pattern_automaton import MatchCondition, MatchState  # noqa: TC001, TID252
from .untracked import untrack  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    #: The state of a key: the table above says what each place contains.
    _Entry: TypeAlias = list[Any]

    #: A match: state, first record, last node, first and last timestamp; without a node, the state
    #: and value of its record.
    _Match: TypeAlias = tuple[Any, ...]

#: Skip strategies.
NO_SKIP = 0
TO_NEXT = 1
PAST_LAST_EVENT = 2
TO_FIRST = 3
TO_LAST = 4


class PartialMatch:
    """The partial match for which a condition is evaluated: the context of iterative conditions.

    One object serves all matches: it is valid during the call.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        """Create the context without a match.

        Args:
            clock: Returns the processing time, in ms.
        """
        self.clock = clock
        self.states: list[MatchState] = []
        self.entry: list[Any] = []
        self.match: tuple[Any, ...] = ()
        self.current_timestamp = 0

    def get_events_for_pattern(self, name: str) -> list[Any]:
        """Return the records that the match has accepted for a part, in their order."""
        found: list[Any] = []
        match = self.match
        if len(match) > 5:
            index = match[5]
            if self.states[index].label == name:
                found.append(match[6])
            return found
        nodes, records, node = self.entry[4], self.entry[5], match[2]
        while node != 0:
            index = nodes[4 * node - 2]
            if self.states[index].label == name:
                slot = nodes[4 * node - 1]
                found.append(records[3 * slot - 1])
            node = nodes[4 * node - 3]
        found.reverse()
        return found

    def first(self, *names: str) -> object:
        """Return the first record of the first of these parts that has one, else None."""
        for name in names:
            place = self._place_of(name, True)
            if place != 0:
                return self.match[6] if place < 0 else self.entry[5][place]
        return None

    def last(self, *names: str) -> object:
        """Return the last record of the first of these parts that has one, else None."""
        for name in names:
            place = self._place_of(name, False)
            if place != 0:
                return self.match[6] if place < 0 else self.entry[5][place]
        return None

    def _place_of(self, name: str, is_first: bool) -> int:
        """Return where the records have the first or last one of a part.

        Returns:
            -1 for the record of a match without a node; 0 if the match has none of the part.
        """
        match = self.match
        if len(match) > 5:
            index = match[5]
            return -1 if self.states[index].label == name else 0
        nodes, node = self.entry[4], match[2]
        found = 0
        while node != 0:
            index = nodes[4 * node - 2]
            if self.states[index].label == name:
                slot = nodes[4 * node - 1]
                found = 3 * slot - 1
                if not is_first:
                    break
            node = nodes[4 * node - 3]
        return found

    def timestamp(self) -> int:
        """Return the timestamp of the record, in ms."""
        return self.current_timestamp

    def current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""
        return self.clock()


class PatternMatcher:
    """Advances the matches of one key by a record or by time.

    Attributes:
        timed_out: Partial matches that ``advance`` ended, each with the end of its window; None if
            they are not requested.
        has_begun: Whether the last record began a match.
        deadlines: Times at which matches end unless another record follows, since they were last
            cleared.
        ended_at: The latest end of a window that ``advance`` found.
    """

    def __init__(
        self,
        states: Sequence[MatchState],
        start: MatchState,
        functions: Sequence[Callable[..., object]],
        is_iterative: Sequence[bool],
        window_ms: int,
        skip: int,
        skip_to: str | None,
        throws_on_miss: bool,
        clock: Callable[[], int],
    ) -> None:
        """Create the matcher.

        Args:
            states: All states.
            start: The state in which matches begin.
            functions: The functions of conditions, by index.
            is_iterative: For each function, whether it takes the context.
            window_ms: The longest time from the first record; 0 for no limit.
            skip: The skip strategy.
            skip_to: The part to skip to.
            throws_on_miss: Whether a match without that part is an error.
            clock: Returns the processing time, in ms.
        """
        self.states = list(states)
        self.start = start
        self.functions = list(functions)
        self.is_iterative = list(is_iterative)
        self.window_ms = window_ms
        self.skip = skip
        self.skip_to = skip_to
        self.throws_on_miss = throws_on_miss
        self.names = "\n".join(state.name for state in states)
        self.not_begun = (start.index, 0, 0, 0, 0)
        untrack(self.not_begun)
        self.has_windows = any(state.window_ms > 0 for state in states)
        self.has_iterative = any(is_iterative)
        self.context = PartialMatch(clock)
        self.context.states = self.states
        # Results of conditions for the current record and match: 0 unknown, 1 false, 2 true.
        self.known = bytearray(len(self.functions))
        self.value: Any = None
        self.timestamp = 0
        # The identifier and the slot of the current record, 0 until they are needed.
        self.record = 0
        self.slot = 0
        self.timed_out: list[tuple[dict[str, list[Any]], int]] | None = None
        self.has_begun = False
        self.deadlines: list[int] = []
        self.ended_at = 0

    def new_entry(self) -> _Entry:
        """Return the state of a key without any record so far."""
        matches = [self.not_begun]
        entry = [self.names, 0, matches, None, None, None]
        untrack(matches)
        untrack(entry)
        return entry

    def is_unused(self, entry: _Entry) -> bool:
        """Return whether an entry equals a new one."""
        return len(entry[2]) == 1 and not entry[3]

    def adopt(self, entry: _Entry) -> None:
        """Adapt an entry that another automaton or a former version may have written.

        Raises:
            IllegalStateError: A partial match is in a state that this automaton does not have.
        """
        if len(entry) > 6:
            flatten(entry)
        if entry[0] != self.names:
            indexes = {state.name: state.index for state in self.states}
            moved: list[int | None] = [indexes.get(name) for name in entry[0].split("\n")]
            for which in (2, 3):
                if entry[which]:
                    entry[which] = [self._moved(match, moved, entry[0]) for match in entry[which]]
            nodes = entry[4] or [0]
            for place in range(4, len(nodes), 4):
                if nodes[place] > 0:
                    nodes[place - 2] = self._moved_index(nodes[place - 2], moved, entry[0])
        entry[0] = self.names
        for which in (2, 3):
            for match in entry[which] or ():
                untrack(match)
        for part in entry[2:]:
            if part is not None:
                untrack(part)
        untrack(entry)

    def _moved(self, match: _Match, moved: list[int | None], names: str) -> _Match:
        if match[1] == 0:
            return self.not_begun
        state = self._moved_index(match[0], moved, names)
        if len(match) > 5:
            return (state, *match[1:5], self._moved_index(match[5], moved, names), match[6])
        return (state, *match[1:])

    def _moved_index(self, index: int, moved: list[int | None], names: str) -> int:
        found = moved[index]
        if found is None:
            name = names.split("\n")[index]
            msg = (
                f"the restored state has a partial match in the state {name!r} of a pattern, which "
                "the pattern of this program does not have: keep the names and quantifiers of its "
                "parts, or give the operator another uid"
            )
            raise IllegalStateError(msg)
        result: int = found
        return result

    def process(self, entry: _Entry, value: object, timestamp: int) -> list[dict[str, list[Any]]]:
        """Offer a record to the matches of a key.

        Args:
            entry: The state of the key, which is changed.
            value: The record.
            timestamp: Its timestamp, in ms, not before that of the previous record.

        Returns:
            The complete matches, each by the names of its parts.
        """
        self.value = value
        self.timestamp = timestamp
        self.record = 0
        self.slot = 0
        self.has_begun = False
        self.context.entry = entry
        self.context.current_timestamp = timestamp
        for index in range(len(self.functions)):
            self.known[index] = 0
        fresh: list[Any] = []
        untrack(fresh)
        complete: list[Any] = []
        matches = entry[2]
        for match in matches:
            self._step(entry, match, fresh, complete)
        entry[2] = fresh
        if not complete and not entry[3]:
            return complete
        self._add_complete(entry, complete)
        return self._completed(entry, fresh)

    def advance(self, entry: _Entry, timestamp: int) -> list[dict[str, list[Any]]]:
        """End the partial matches whose window has ended.

        Args:
            entry: The state of the key, which is changed.
            timestamp: The time reached, in ms.

        Returns:
            The matches that time completes; the others are in ``timed_out``.
        """
        if not self._is_due(entry, timestamp):
            return []
        self.ended_at = 0
        fresh: list[Any] = []
        untrack(fresh)
        complete: list[Any] = []
        matches = entry[2]
        for match in matches:
            ended = self._ended_window(match, timestamp)
            if ended == 0:
                push(fresh, match)
                continue
            state = self.states[match[0]]
            end = match[4] + state.window_ms if ended == 1 else match[3] + self.window_ms
            self.ended_at = end if not self.ended_at else max(end, self.ended_at)
            if state.is_pending:
                push(complete, match)
                continue
            if self.timed_out is not None:
                self.timed_out.append((self._match_of(self._path(entry, match)), end))
            release(entry, match[2])
        entry[2] = fresh
        self._add_complete(entry, complete)
        return self._completed(entry, fresh)

    def _add_complete(self, entry: _Entry, complete: list[_Match]) -> None:
        """Add complete matches to those of an entry."""
        if entry[3] is None:
            entry[3] = []
            untrack(entry[3])
        for match in complete:
            push(entry[3], match)

    def _is_due(self, entry: _Entry, timestamp: int) -> bool:
        """Return whether a window of a partial match may have ended."""
        if self.has_windows:
            return True
        if self.window_ms == 0:
            return False
        first = entry[2][0]
        return bool(first[1] != 0 and first[3] <= timestamp - self.window_ms)

    def _ended_window(self, match: _Match, timestamp: int) -> int:
        """Return 1 if the window since the last record has ended, 2 for that since the first."""
        if match[1] == 0:
            return 0
        state = self.states[match[0]]
        window_ms = state.window_ms
        if window_ms > 0 and match[4] <= timestamp - window_ms:
            return 1
        if self.window_ms > 0 and match[3] <= timestamp - self.window_ms:
            return 2
        return 0

    def _step(
        self,
        entry: _Entry,
        match: _Match,
        fresh: list[_Match],
        complete: list[_Match],
    ) -> None:
        """Offer the record to one match."""
        node = match[2]
        is_new = match[1] == 0
        self.context.match = match
        if self.has_iterative:
            for index in range(len(self.functions)):
                if self.is_iterative[index]:
                    self.known[index] = 0
        # Most matches go on as one or none, from the edges of their own state: no lists for them.
        goes_on: Any = None
        waiting: Any = None
        is_discarded = False
        is_owned = node != 0
        source = match[0]
        state = self.states[source]
        while True:
            for edge in state.edges:
                if edge.condition is not None and not self._holds(edge.condition):
                    continue
                target = edge.target
                following = None
                if edge.action == 2:
                    if waiting is None:
                        waiting = []
                    waiting.append(target)
                elif target.is_stop:
                    is_discarded = True
                elif edge.action == 1:
                    if not is_new:
                        if is_owned:
                            # The match passes its own reference on.
                            is_owned = False
                        elif node != 0:
                            refer(entry, node)
                        following = match
                        if target.index != source:
                            following = (target.index, *match[1:])
                            untrack(following)
                        if target.is_final:
                            push(complete, following)
                            following = None
                else:
                    if node == 0 and not is_new:
                        match = self._with_node(entry, match, goes_on)
                        node = match[2]
                        is_owned = True
                    following = self._take(entry, match, state, target, complete)
                if following is not None:
                    if goes_on is None:
                        goes_on = []
                    goes_on.append(following)
            if not waiting:
                break
            state = waiting.pop()
        if goes_on is not None:
            for following in goes_on:
                if is_discarded:
                    release(entry, following[2])
                else:
                    push(fresh, following)
        if is_new:
            push(fresh, match)
        elif is_owned:
            release(entry, node)

    def _with_node(self, entry: _Entry, match: _Match, goes_on: list[_Match] | None) -> _Match:
        """Return a match of one record with a node, which the matches that go on share."""
        added = add_node(entry, 0, match[5], add_record(entry, match[1], match[6]))
        if goes_on is not None:
            for index, following in enumerate(goes_on):
                refer(entry, added)
                goes_on[index] = following = (*following[:2], added, *following[3:5])
                untrack(following)
        return (match[0], match[1], added, match[3], match[4])

    def _take(
        self,
        entry: _Entry,
        match: _Match,
        state: MatchState,
        target: MatchState,
        complete: list[_Match],
    ) -> _Match | None:
        """Add the record to a match as a part of a state, and go to another state.

        Returns:
            The match; None if it is complete.
        """
        time: Any = self.timestamp
        if self.record == 0:
            self.record = entry[1] = entry[1] + 1
        record: Any = self.record
        if match[1] == 0:
            self.has_begun = True
            following: _Match = (target.index, record, 0, time, time, state.index, self.value)
        else:
            # The match holds the first reference.
            if self.slot == 0 or not has_record(entry, self.slot, record):
                self.slot = add_record(entry, record, self.value)
            before = match[2]
            added = add_node(entry, before, state.index, self.slot)
            refer(entry, before)
            following = (target.index, match[1], added, match[3], time)
        untrack(following)
        if target.is_final:
            push(complete, following)
            return None
        if target.window_ms > 0:
            self.deadlines.append(self.timestamp + target.window_ms)
        if target.may_end:
            end = self._end_after(target)
            if end is not None:
                if following[2] != 0:
                    refer(entry, following[2])
                ended = (end.index, *following[1:])
                untrack(ended)
                push(complete, ended)
        return following

    def _end_after(self, state: MatchState) -> MatchState | None:
        """Return the final state if edges lead there from a state without another record."""
        waiting: list[Any] = [state]
        while waiting:
            state = waiting.pop()
            for edge in state.edges:
                if edge.action == 2 and (edge.condition is None or self._holds(edge.condition)):
                    if edge.target.is_final:
                        return edge.target
                    waiting.append(edge.target)
        return None

    def _holds(self, condition: MatchCondition) -> bool:
        """Return whether a condition is true of the record and the current match."""
        kind = condition.kind
        if kind == 0:
            known = self.known[condition.index]
            if known != 0:
                return known == 2
            function = self.functions[condition.index]
            if self.is_iterative[condition.index]:
                result = bool(function(self.value, self.context))
            else:
                result = bool(function(self.value))
            self.known[condition.index] = 2 if result else 1
            return result
        if kind == 1:
            return not self._holds(condition.left)
        if kind == 2:
            return self._holds(condition.left) and self._holds(condition.right)
        if kind == 3:
            return self._holds(condition.left) or self._holds(condition.right)
        return False

    def _completed(self, entry: _Entry, fresh: list[_Match]) -> list[dict[str, list[Any]]]:
        """Return the complete matches that the skip strategy allows, and discard others."""
        waiting = entry[3]
        found: list[Any] = []
        while waiting:
            if self.skip != 0 and fresh and is_before(fresh[0], waiting[0]):
                break
            match = pop(waiting)
            path = self._path(entry, match)
            if self.skip != 0:
                limit = self._limit(path)
                if limit > 0:
                    self._prune(entry, fresh, limit)
                    self._prune(entry, waiting, limit)
            found.append(self._match_of(path))
            release(entry, match[2])
        return found

    def _limit(self, path: list[tuple[str, int, Any]]) -> int:
        """Return the first record up to which matches are discarded; 0 for none.

        Raises:
            IllegalStateError: The part to skip to is missing or the first record, and that is an
                error.
        """
        first: int = path[0][1]
        if self.skip == 1:
            return first
        if self.skip == 2:
            last: int = path[len(path) - 1][1]
            return last
        limit = 0
        for label, record, _ in path:
            # TO_FIRST uses the first record, TO_LAST the last one.
            if label == self.skip_to and limit * (4 - self.skip) == 0:
                limit = record
        if self.throws_on_miss:
            if limit == 0:
                msg = f"a match has no record of {self.skip_to!r}, which its skip strategy skips to"
                raise IllegalStateError(msg)
            if limit == first:
                msg = (
                    f"the skip strategy skips to {self.skip_to!r}, and a match begins with that "
                    "record: it would match again without end"
                )
                raise IllegalStateError(msg)
        # Matches that began with the record itself stay.
        return limit - 1

    def _prune(self, entry: _Entry, heap: list[_Match], limit: int) -> None:
        """Discard the matches that began up to a record."""
        kept = [match for match in heap if match[1] == 0 or match[1] > limit]
        if len(kept) == len(heap):
            return
        for match in heap:
            if match[1] != 0 and match[1] <= limit:
                release(entry, match[2])
        heap[:] = kept
        for position in range((len(heap) >> 1) - 1, -1, -1):
            sift_down(heap, position, heap[position])

    def _path(self, entry: _Entry, match: _Match) -> list[tuple[str, int, Any]]:
        """Return the label, the record and its value of each node of a match, in their order."""
        if len(match) > 5:
            state = self.states[match[5]]
            return [(state.label, match[1], match[6])]
        nodes, records = entry[4], entry[5]
        node = match[2]
        path = []
        while node != 0:
            state = self.states[nodes[4 * node - 2]]
            slot = nodes[4 * node - 1]
            path.append((state.label, records[3 * slot - 2], records[3 * slot - 1]))
            node = nodes[4 * node - 3]
        path.reverse()
        return path

    def _match_of(self, path: list[tuple[str, int, Any]]) -> dict[str, list[Any]]:
        """Return the records of a match by the names of its parts."""
        match: dict[str, list[Any]] = {}
        for label, _, value in path:
            values = match.get(label)
            if values is None:
                match[label] = [value]
            else:
                values.append(value)
        return match
