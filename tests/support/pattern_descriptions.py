"""Patterns described as JSON, which the recorder of Flink's results reads as well.

A part is ``{"by": "next", "name": "a", "where": CONDITION, "calls": [["times", 2], …]}``; a group
has ``"group": [PART, …]`` instead of a name.  Events are "a1": a kind and a number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.cep import Pattern, SkipStrategy, WithinType
from penstock.common.time import Duration

if TYPE_CHECKING:
    from collections.abc import Callable


def kind(event: str) -> str:
    """Return the letters of an event."""
    return re.sub("[0-9]", "", event)


def number(event: str) -> int:
    """Return the number of an event, 0 without one."""
    return int(re.sub("[^0-9]", "", event) or 0)


def condition(described: list[Any]) -> Callable[..., bool]:
    """Return the condition of a description."""
    name, argument = described[0], described[1]
    simple: dict[str, Callable[[str], bool]] = {
        "is": lambda event: kind(event) == argument,
        "in": lambda event: kind(event) in argument,
        "above": lambda event: number(event) > argument,
    }
    if name in simple:
        return simple[name]
    if name == "both":
        left, right = condition(argument), condition(described[2])
        return lambda event, context: (
            _called(left, event, context) and _called(right, event, context)
        )
    iterative: dict[str, Callable[[str, Any], bool]] = {
        "rising": lambda event, context: (
            context.last(argument) is None or number(event) > number(context.last(argument))
        ),
        "sum_below": lambda event, context: (
            number(event) + sum(map(number, context.get_events_for_pattern(argument)))
            < described[2]
        ),
        "fewer": lambda event, context: (
            len(context.get_events_for_pattern(argument)) < described[2]
        ),
    }
    return iterative[name]


def _called(function: Callable[..., bool], event: str, context: Any) -> bool:
    count = function.__code__.co_argcount
    return function(event) if count == 1 else function(event, context)


def pattern_of(case: dict[str, Any]) -> Pattern:
    """Return the pattern of a case."""
    return _parts(case["parts"], _skip(case.get("skip")))


def _skip(described: list[Any] | None) -> SkipStrategy:
    if described is None:
        return SkipStrategy.no_skip()
    if described[0] == "to_next":
        return SkipStrategy.skip_to_next()
    if described[0] == "past_last_event":
        return SkipStrategy.skip_past_last_event()
    make = {"to_first": SkipStrategy.skip_to_first, "to_last": SkipStrategy.skip_to_last}
    strategy = make[described[0]](described[1])
    return strategy.throw_exception_on_miss() if len(described) > 2 else strategy


def _parts(parts: list[dict[str, Any]], skip: SkipStrategy) -> Pattern:
    pattern: Any = None
    for part in parts:
        what = _parts(part["group"], SkipStrategy.no_skip()) if "group" in part else part["name"]
        if part["by"] == "begin":
            pattern = Pattern.begin(what, skip)
        else:
            pattern = getattr(pattern, part["by"])(what)
        if "where" in part:
            pattern = pattern.where(condition(part["where"]))
        for call in part.get("calls", ()):
            pattern = _call(pattern, call)
    return pattern


def _call(pattern: Pattern, call: list[Any]) -> Pattern:
    name, arguments = call[0], call[1:]
    if name in ("until", "or_"):
        arguments = [condition(arguments[0])]
    elif name == "within":
        arguments = [Duration.of_millis(arguments[0])]
    elif name == "within_previous":
        name = "within"
        arguments = [Duration.of_millis(arguments[0]), WithinType.PREVIOUS_AND_CURRENT]
    elif name == "one_or_more":
        arguments = [Duration.of_millis(argument) for argument in arguments]
    elif name == "times_within":
        return pattern.times(arguments[0], within=Duration.of_millis(arguments[1]))
    return getattr(pattern, name)(*arguments)
