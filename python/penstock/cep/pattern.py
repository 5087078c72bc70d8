"""Patterns: named parts in sequence, each with conditions and a quantifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.cep.conditions import (
    Condition,
    IterativeCondition,
    SimpleCondition,
    SubtypeCondition,
    both,
    condition_of,
    either,
)
from penstock.cep.errors import MalformedPatternError
from penstock.cep.quantifier import Contiguity, Quantifier, WithinType
from penstock.cep.skip_strategy import SkipStrategy
from penstock.common.time import Duration, Time
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from penstock.cep.conditions import ConditionContext
    from penstock.expressions.expression import Expression

    ConditionArgument = (
        Callable[[Any], Any]
        | Callable[[Any, ConditionContext], Any]
        | SimpleCondition
        | IterativeCondition
        | Expression
    )

#: Separates a part's name from a number in the names of states.
DELIMITER = ":"


class Pattern:
    """The last part of a pattern, which knows the parts before it.

    The methods that describe a part change it and return it; ``next``, ``followed_by`` and the
    like return the next part.  A wrong combination raises MalformedPatternError at once.
    """

    def __init__(
        self,
        name: str,
        previous: Pattern | None,
        contiguity: Contiguity,
        skip_strategy: SkipStrategy,
    ) -> None:
        """Use `Pattern.begin`, `next`, `followed_by` and the like."""
        given: Any = name
        if not isinstance(given, str) or not given:
            raise MalformedPatternError(
                f"the name of a part must be a string, not empty, got {name!r}"
            )
        if DELIMITER in name:
            raise MalformedPatternError(
                f"the name of a part must not contain {DELIMITER!r}, got {name!r}"
            )
        self.name = name
        self.previous = previous
        self.quantifier = Quantifier(contiguity)
        self.skip_strategy = skip_strategy
        self.condition: Condition = None
        self.until_condition: Condition = None
        self.windows_ms: dict[WithinType, int] = {}

    @staticmethod
    def begin(first: str | Pattern, skip_strategy: SkipStrategy | None = None) -> Pattern:
        """Begin a pattern.

        Args:
            first: The name of the first part, or a pattern that becomes a group.
            skip_strategy: The matches that a complete match discards; none by default.

        Raises:
            MalformedPatternError: The name is invalid.
        """
        strategy = SkipStrategy.no_skip() if skip_strategy is None else skip_strategy
        if not isinstance(strategy, SkipStrategy):
            raise InvalidProgramError(f"begin takes a SkipStrategy, got {skip_strategy!r}")
        return _part(first, None, Contiguity.STRICT, strategy)

    def next(self, following: str | Pattern) -> Pattern:
        """Append a part, or a group, that must match the very next record."""
        return self._append(following, Contiguity.STRICT)

    def followed_by(self, following: str | Pattern) -> Pattern:
        """Append a part, or a group, that takes the first matching record."""
        return self._append(following, Contiguity.RELAXED)

    def followed_by_any(self, following: str | Pattern) -> Pattern:
        """Append a part, or a group, that may take any of the matching records."""
        return self._append(following, Contiguity.NON_DETERMINISTIC)

    def not_next(self, name: str) -> Pattern:
        """Append a part that the very next record must not match.

        Raises:
            MalformedPatternError: The part before it is optional.
        """
        return self._append_negative(name, Contiguity.NOT_NEXT, "not_next")

    def not_followed_by(self, name: str) -> Pattern:
        """Append a part that no record before the next part's may match.

        As the last part of a pattern it needs `within`; the match is emitted when the window ends.

        Raises:
            MalformedPatternError: The part before it is optional.
        """
        return self._append_negative(name, Contiguity.NOT_FOLLOWED, "not_followed_by")

    def where(self, condition: ConditionArgument) -> Self:
        """Add a condition; the part takes the records for which all conditions are true.

        Args:
            condition: A function of a record, or of a record and a context of the partial match, a
                SimpleCondition or IterativeCondition, or an expression such as
                ``field("price") > 10``.

        Raises:
            InvalidProgramError: The argument is not a condition.
        """
        self.condition = both(self.condition, condition_of(condition, self._place("where")))
        return self

    def or_(self, condition: ConditionArgument) -> Self:
        """Add an alternative to the conditions up to here; without any, it is the condition.

        Raises:
            InvalidProgramError: The argument is not a condition.
        """
        given = condition_of(condition, self._place("or_"))
        self.condition = given if self.condition is None else either(self.condition, given)
        return self

    def subtype(self, subtype: type) -> Self:
        """Accept only instances of a class.

        Raises:
            InvalidProgramError: The argument is not a class.
        """
        if not isinstance(subtype, type):
            raise InvalidProgramError(f"{self._place('subtype')} takes a class, got {subtype!r}")
        return self.where(SubtypeCondition(subtype))

    def until(self, condition: ConditionArgument) -> Self:
        """End a loop before the first record for which a condition is true.

        Raises:
            InvalidProgramError: The argument is not a condition.
            MalformedPatternError: The part is not an endless loop, or has an until condition.
        """
        place = self._place("until")
        if self.until_condition is not None:
            raise MalformedPatternError(f"{place}: the part already has such a condition")
        if self.quantifier.kind != "looping":
            raise MalformedPatternError(
                f"{place}: only an endless loop can have it; first call one_or_more() or "
                "times_or_more()"
            )
        self.until_condition = condition_of(condition, place)
        return self

    def within(
        self,
        duration: Duration | Time,
        within_type: WithinType = WithinType.FIRST_AND_LAST,
    ) -> Self:
        """Limit the time of a match; partial matches that exceed it end.

        Of several limits from the first to the last record, the smallest applies.

        Args:
            duration: The limit; a match of exactly this duration is too late.
            within_type: The two records whose distance is limited.

        Raises:
            InvalidProgramError: The argument is not a duration.
            MalformedPatternError: The duration is below 1 ms.
        """
        self.windows_ms[within_type] = _milliseconds(duration, self._place("within"))
        return self

    def optional(self) -> Self:
        """Make the part optional.

        Raises:
            MalformedPatternError: The part is negative or optional, or follows a greedy one.
        """
        place = self._place("optional")
        if self.previous is not None and self.previous.quantifier.is_greedy:
            raise MalformedPatternError(f"{place}: the part before it is greedy")
        self.quantifier.make_optional(place)
        return self

    def one_or_more(self, within: Duration | Time | None = None) -> Self:
        """Match the part one or more times.

        Args:
            within: The longest time between two of the records; None for any.

        Raises:
            MalformedPatternError: The part is negative or has a number of repetitions.
        """
        place = self._place("one_or_more")
        self.quantifier.repeat("looping", 1, 1, _window_of(within, place), place)
        return self

    def times_or_more(self, times: int, within: Duration | Time | None = None) -> Self:
        """Match the part at least ``times`` times.

        Args:
            times: The smallest number, at least 1.
            within: The longest time between two of the records; None for any.

        Raises:
            MalformedPatternError: The part is negative or has a number of repetitions, or the
                number is too small.
        """
        place = self._place("times_or_more")
        _require_number(times, 1, place)
        self.quantifier.repeat("looping", times, times, _window_of(within, place), place)
        return self

    def times(
        self, least: int, most: int | None = None, within: Duration | Time | None = None
    ) -> Self:
        """Match the part a number of times.

        Args:
            least: The number of times, or the smallest; 0, with ``most``, makes it optional.
            most: The largest number; None for exactly ``least``.
            within: The longest time between two of the records; None for any.

        Raises:
            MalformedPatternError: The part is negative or has a number of repetitions, or a number
                is too small.
        """
        place = self._place("times")
        _require_number(least, 1 if most is None else 0, place)
        if most is not None:
            _require_number(most, max(1, least), place)
        end = least if most is None else most
        self.quantifier.repeat("times", max(1, least), end, _window_of(within, place), place)
        if least == 0:
            self.quantifier.make_optional(place)
        return self

    def greedy(self) -> Self:
        """Take as many records as possible.

        Raises:
            MalformedPatternError: The part is not repeated, is a group, or allows combinations.
        """
        self.quantifier.make_greedy(self._place("greedy"))
        return self

    def consecutive(self) -> Self:
        """Forbid other records between the repetitions.

        Raises:
            MalformedPatternError: The part is not repeated, or allows combinations.
        """
        self.quantifier.set_inner(Contiguity.STRICT, self._place("consecutive"))
        return self

    def allow_combinations(self) -> Self:
        """Allow the repetitions to skip matching records, too.

        Raises:
            MalformedPatternError: The part is not repeated, or is consecutive.
        """
        self.quantifier.set_inner(Contiguity.NON_DETERMINISTIC, self._place("allow_combinations"))
        return self

    def parts(self) -> Iterator[Pattern]:
        """Yield the parts from this one back to the first."""
        part: Pattern | None = self
        while part is not None:
            yield part
            part = part.previous

    def _append(self, following: str | Pattern, contiguity: Contiguity) -> Pattern:
        return _part(following, self, contiguity, self.skip_strategy)

    def _append_negative(self, name: str, contiguity: Contiguity, method: str) -> Pattern:
        if self.quantifier.is_optional:
            raise MalformedPatternError(
                f"{method}({name!r}): the part before it, {self.name!r}, is optional; use two "
                "patterns, one with that part and one without"
            )
        if not isinstance(name, str):
            raise MalformedPatternError(f"{method} takes the name of a part, got {name!r}")
        return Pattern(name, self, contiguity, self.skip_strategy)

    def _place(self, method: str) -> str:
        return f"{method}() of the part {self.name!r}"

    def __repr__(self) -> str:
        return f"Pattern({' '.join(part.name for part in reversed(list(self.parts())))})"


class GroupPattern(Pattern):
    """A pattern as a part of another one.

    Attributes:
        group: The pattern.
    """

    def __init__(
        self,
        group: Pattern,
        previous: Pattern | None,
        contiguity: Contiguity,
        skip_strategy: SkipStrategy,
    ) -> None:
        """Use `Pattern.begin`, `next`, `followed_by` and the like with a pattern."""
        super().__init__("GroupPattern", previous, contiguity, skip_strategy)
        self.group = group

    def where(self, condition: ConditionArgument) -> Self:
        """Raise MalformedPatternError: the parts of a group have conditions."""
        del condition
        raise self._has_none("where")

    def or_(self, condition: ConditionArgument) -> Self:
        """Raise MalformedPatternError: the parts of a group have conditions."""
        del condition
        raise self._has_none("or_")

    def subtype(self, subtype: type) -> Self:
        """Raise MalformedPatternError: the parts of a group have conditions."""
        del subtype
        raise self._has_none("subtype")

    def greedy(self) -> Self:
        """Raise MalformedPatternError: a group is not greedy."""
        raise MalformedPatternError(f"greedy(): the group {self.group!r} cannot be greedy")

    def _has_none(self, method: str) -> MalformedPatternError:
        return MalformedPatternError(
            f"{method}(): the group {self.group!r} has no condition of its own; add it to one of "
            "its parts"
        )


def _part(
    given: str | Pattern,
    previous: Pattern | None,
    contiguity: Contiguity,
    skip_strategy: SkipStrategy,
) -> Pattern:
    if isinstance(given, Pattern):
        return GroupPattern(given, previous, contiguity, skip_strategy)
    return Pattern(given, previous, contiguity, skip_strategy)


def _require_number(number: Any, least: int, place: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise MalformedPatternError(
            f"{place} takes a number of times of at least {least}, got {number!r}"
        )


def _window_of(duration: Any, place: str) -> int | None:
    return None if duration is None else _milliseconds(duration, place)


def _milliseconds(duration: Any, place: str) -> int:
    if not isinstance(duration, Duration | Time):
        raise InvalidProgramError(f"{place} takes a Duration, got {duration!r}")
    if duration.to_milliseconds() < 1:
        raise MalformedPatternError(f"{place} takes a duration of at least 1 ms, got {duration!r}")
    return duration.to_milliseconds()
