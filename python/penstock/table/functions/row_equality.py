"""Equality of rows in which NaN equals NaN, as in Java."""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def equal_to(row: Sequence[Any]) -> Callable[[Sequence[Any]], bool]:
    """Return a function that returns whether a row equals this one."""
    if all(value == value for value in row):
        return partial(operator.eq, row)
    return lambda other: all(
        one == two or (one != one and two != two) for one, two in zip(row, other, strict=True)
    )
