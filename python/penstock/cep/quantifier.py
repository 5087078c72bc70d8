"""Quantifiers: the number and kind of repetitions of a part."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.cep.errors import MalformedPatternError


class Contiguity(Enum):
    """The records that may stand between two records of a match."""

    STRICT = "strict"
    RELAXED = "relaxed"
    NON_DETERMINISTIC = "non-deterministic"
    NOT_NEXT = "not next"
    NOT_FOLLOWED = "not followed"

    @property
    def is_negative(self) -> bool:
        """Return whether a part of this contiguity must not match."""
        return self in (Contiguity.NOT_NEXT, Contiguity.NOT_FOLLOWED)


class WithinType(Enum):
    """The two records of a match between which a window measures time."""

    PREVIOUS_AND_CURRENT = 0
    FIRST_AND_LAST = 1


@dataclass
class Quantifier:
    """Properties of one part of a pattern; the pattern changes them while it is described.

    Attributes:
        contiguity: The records that may stand before the part.
        inner: The records that may stand between the repetitions of the part.
        kind: "single", "times" or "looping".
        is_optional: Whether the part may be left out.
        is_greedy: Whether the part takes as many records as possible.
        least: The smallest number of repetitions, at least 1.
        most: The largest number; for a loop, the same as ``least``.
        window_ms: The longest time between two repetitions; None for any.
    """

    contiguity: Contiguity
    inner: Contiguity = Contiguity.RELAXED
    kind: str = "single"
    is_optional: bool = False
    is_greedy: bool = False
    least: int = 1
    most: int = 1
    window_ms: int | None = None

    def repeat(self, kind: str, least: int, most: int, window_ms: int | None, place: str) -> None:
        """Set the number of repetitions.

        Raises:
            MalformedPatternError: A number was set already, or the part is negative.
        """
        self._require_positive(place)
        if self.kind != "single":
            raise MalformedPatternError(f"{place}: the part already has a number of repetitions")
        self.kind, self.least, self.most, self.window_ms = kind, least, most, window_ms

    def make_optional(self, place: str) -> None:
        """Allow the part to be left out.

        Raises:
            MalformedPatternError: It is optional already, or negative.
        """
        if self.contiguity.is_negative:
            raise MalformedPatternError(f"{place}: a negative part cannot be optional")
        if self.is_optional:
            raise MalformedPatternError(f"{place}: the part is optional already")
        self.is_optional = True

    def make_greedy(self, place: str) -> None:
        """Take as many records as possible.

        Raises:
            MalformedPatternError: The part is negative, single, or allows combinations.
        """
        self._require_positive(place)
        if self.inner is Contiguity.NON_DETERMINISTIC:
            raise MalformedPatternError(f"{place}: a part that allows combinations is not greedy")
        if self.kind == "single":
            raise MalformedPatternError(
                f"{place}: only a repeated part can be greedy; call one_or_more() or times() first"
            )
        self.is_greedy = True

    def set_inner(self, inner: Contiguity, place: str) -> None:
        """Set the contiguity of the repetitions.

        Raises:
            MalformedPatternError: The part is not repeated, or another contiguity was set.
        """
        if self.kind == "single":
            raise MalformedPatternError(
                f"{place}: only a repeated part has repetitions to describe; call one_or_more() "
                "or times() first"
            )
        if self.inner is not Contiguity.RELAXED:
            raise MalformedPatternError(
                f"{place}: the repetitions are {self.inner.value} already; call consecutive() or "
                "allow_combinations(), once"
            )
        self.inner = inner

    def _require_positive(self, place: str) -> None:
        if self.contiguity.is_negative:
            raise MalformedPatternError(f"{place}: a negative part cannot be repeated or greedy")
