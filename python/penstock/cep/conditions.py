"""Conditions of patterns."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from penstock.common.calls.argument_kinds import accepts
from penstock.errors import InvalidProgramError
from penstock.expressions.expression import Expression

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConditionContext(Protocol):
    """The partial match that a condition is evaluated for; it never holds the record itself."""

    def get_events_for_pattern(self, name: str) -> Sequence[Any]:
        """Return the records that the partial match has accepted for a part, in order."""

    def first(self, *names: str) -> Any:
        """Return the first record of the first of these parts that has one, else None."""

    def last(self, *names: str) -> Any:
        """Return the last record of the first of these parts that has one, else None."""

    def timestamp(self) -> int:
        """Return the timestamp of the record, in ms."""

    def current_processing_time(self) -> int:
        """Return the processing time, in ms."""


class IterativeCondition(ABC):
    """A condition that also sees the partial match."""

    @abstractmethod
    def filter(self, value: Any, ctx: ConditionContext) -> bool:
        """Return whether the part takes a record."""


class SimpleCondition(ABC):
    """A condition of the record alone."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether the part takes a record."""


class SubtypeCondition(SimpleCondition):
    """True for the instances of a class."""

    def __init__(self, subtype: type) -> None:
        """Create the condition.

        Args:
            subtype: The class.
        """
        self.subtype = subtype

    def filter(self, value: Any) -> bool:
        """Return whether the record is an instance of the class."""
        return isinstance(value, self.subtype)


@dataclass(frozen=True, eq=False)
class Call:
    """One condition as the program defined it; equal only to itself.

    Attributes:
        kind: "simple" for a condition of the record, "iterative" for one that also takes the
            context, "expression" for an expression.
        given: The function, the condition's ``filter`` or the expression.
        place: The call that defined it, for messages.
    """

    kind: Literal["simple", "iterative", "expression"]
    given: Any
    place: str


#: None is true; ("not", c), ("and", c, d) and ("or", c, d) combine conditions.
Condition: TypeAlias = "Call | tuple[Any, ...] | None"


def condition_of(given: Any, place: str) -> Call:
    """Return the condition of an argument of ``where``, ``or_`` or ``until``.

    Raises:
        InvalidProgramError: The argument is not a condition.
    """
    if isinstance(given, Expression):
        return Call("expression", given, place)
    if isinstance(given, IterativeCondition):
        return Call("iterative", given.filter, place)
    if isinstance(given, SimpleCondition):
        return Call("simple", given.filter, place)
    if not callable(given) or isinstance(given, type):
        raise InvalidProgramError(
            f"{place} takes a function of a record, or of a record and a context, a condition or "
            f"an expression, got {given!r}"
        )
    return Call("iterative" if _takes_context(given, place) else "simple", given, place)


def both(left: Condition, right: Condition) -> Condition:
    """Return the conjunction of two conditions."""
    if left is None or right is None:
        return right if left is None else left
    return ("and", left, right)


def either(left: Condition, right: Condition) -> Condition:
    """Return the disjunction of two conditions."""
    return None if left is None or right is None else ("or", left, right)


def negated(condition: Condition) -> Condition:
    """Return the negation of a condition."""
    if isinstance(condition, tuple) and condition[0] == "not":
        inner: Condition = condition[1]
        return inner
    return ("not", condition)


def _takes_context(function: Any, place: str) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # A builtin without a signature takes the record.
        return False
    if accepts(signature, 1):
        return False
    if not accepts(signature, 2):
        raise InvalidProgramError(
            f"{place} takes a function of a record, or of a record and a context; {function!r} "
            f"takes {signature}"
        )
    return True
