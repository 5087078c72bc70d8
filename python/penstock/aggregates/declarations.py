"""The aggregates that programs name: functions that return their declarations.

An argument is the name of a field, its position, or an expression.  Values that are None are
skipped, and so are records for which ``where`` is not true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.functions import AggregateFunction
    from penstock.expressions import Expression

    Argument: TypeAlias = str | int | Expression


#: The name of aggregates that call an `AggregateFunction`.
USER_DEFINED: Final = "user_defined"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of some records.

    Attributes:
        function: The name of the aggregate in `penstock.aggregates.folds.FOLDS`, or `USER_DEFINED`.
        arguments: Fields or expressions.
        where: A condition that records must meet; None if all count.
        user_function: The function of a user-defined aggregate, or None.
        output_type: The type of its result, or None.
    """

    function: str
    arguments: tuple[Argument, ...] = ()
    where: Expression | None = None
    user_function: AggregateFunction | None = None
    output_type: TypeInformation | None = None


def count(value: Argument | None = None, *, where: Expression | None = None) -> Aggregate:
    """Count records, or those in which a value is not None."""
    return Aggregate("count", () if value is None else (value,), where)


def sum(value: Argument, *, where: Expression | None = None) -> Aggregate:  # noqa: A001
    """Add up a number; None without any."""
    return Aggregate("sum", (value,), where)


def min(value: Argument, *, where: Expression | None = None) -> Aggregate:  # noqa: A001
    """Return the smallest value; None without any."""
    return Aggregate("min", (value,), where)


def max(value: Argument, *, where: Expression | None = None) -> Aggregate:  # noqa: A001
    """Return the largest value; None without any."""
    return Aggregate("max", (value,), where)


def mean(value: Argument, *, where: Expression | None = None) -> Aggregate:
    """Return the arithmetic mean of a number as a float; None without any."""
    return Aggregate("mean", (value,), where)


def first(value: Argument, *, where: Expression | None = None) -> Aggregate:
    """Return the first value in the order of arrival; None without any."""
    return Aggregate("first", (value,), where)


def last(value: Argument, *, where: Expression | None = None) -> Aggregate:
    """Return the last value in the order of arrival; None without any."""
    return Aggregate("last", (value,), where)


def min_by(value: Argument, by: Argument, *, where: Expression | None = None) -> Aggregate:
    """Return a value of the first record whose ``by`` is the smallest; None without any."""
    return Aggregate("min_by", (value, by), where)


def max_by(value: Argument, by: Argument, *, where: Expression | None = None) -> Aggregate:
    """Return a value of the first record whose ``by`` is the largest; None without any."""
    return Aggregate("max_by", (value, by), where)


def count_distinct(
    value: Argument, *, approximate: bool = False, where: Expression | None = None
) -> Aggregate:
    """Count the different values.

    Args:
        value: The value; of numbers, strings and booleans only if the count is approximate.
        approximate: False for the exact number: keyed state holds all values.  True for an estimate
            with a standard error of 1.6 %: keyed state holds a HyperLogLog sketch of at most 4 KiB,
            which needs ``penstock-engine[sketches]``.
        where: A condition that records must meet; None if all count.
    """
    return Aggregate("approximate_distinct" if approximate else "count_distinct", (value,), where)


def collect(value: Argument, *, where: Expression | None = None) -> Aggregate:
    """Return the values as a list, in the order of arrival."""
    return Aggregate("collect", (value,), where)


def user_defined(
    function: AggregateFunction,
    value: Argument,
    *more: Argument,
    output_type: TypeInformation,
    where: Expression | None = None,
) -> Aggregate:
    """Call an `AggregateFunction` with each value, or with a tuple of several values.

    Keyed state holds the accumulator, which ``add`` may change in place.  Values that are None are
    skipped, so ``get_result`` may receive a new accumulator.

    Args:
        function: The function; ``open`` and ``close`` are called as for other functions.
        value: The argument of ``add``.
        more: Further values; ``add`` then receives a tuple.
        output_type: The type of the results.
        where: A condition that records must meet; None if all count.
    """
    return Aggregate(USER_DEFINED, (value, *more), where, function, output_type)
