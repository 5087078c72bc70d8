"""Matches patterns against events, without a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.cep import Pattern
    from penstock.common.typeinfo import TypeInformation


class PatternResult(NamedTuple):
    """Result of `feed_pattern`.

    Attributes:
        matches: The matches in the order in which they are emitted, by the names of their parts.
        timed_out: The partial matches that ``within`` ended, each with the end of its window in ms.
        num_partial: The number of remaining partial matches.
    """

    matches: list[dict[str, list[Any]]]
    timed_out: list[tuple[dict[str, list[Any]], int]]
    num_partial: int


def feed_pattern(
    pattern: Pattern,
    events: Iterable[tuple[Any, int]],
    *,
    until: int | None = None,
    type_info: TypeInformation | None = None,
) -> PatternResult:
    """Return the matches of a pattern in a sequence of events of one key.

    Args:
        pattern: The pattern.
        events: Pairs of an event and its timestamp in ms, in the order of time.
        until: The event time after the last event, in ms; None for the event's own.
        type_info: The type of the events, against which expressions are checked; by default their
            class, if they are records of one.

    Raises:
        MalformedPatternError: The parts of the pattern do not fit together.
    """
    # Imported here because only programs with patterns need it.
    from penstock.cep.pattern_stream import compiled_for
    from penstock.datastream.annotations import of_records
    from penstock.taskexecutor.operators.pattern import create_matcher

    events = list(events)
    if type_info is None:
        type_info = of_records(type(event) for event, _ in events).type_info
    time = 0
    matcher = create_matcher(compiled_for(pattern, type_info), lambda given: given, lambda: time)
    timed_out: list[tuple[dict[str, list[Any]], int]] = []
    matcher.timed_out = timed_out
    entry = matcher.new_entry()
    matches: list[dict[str, list[Any]]] = []
    for event, time in events:
        matches += matcher.advance(entry, time)
        matches += matcher.process(entry, event, time)
    if until is not None:
        matches += matcher.advance(entry, until)
    return PatternResult(matches, timed_out, len(entry[2]) - 1)
