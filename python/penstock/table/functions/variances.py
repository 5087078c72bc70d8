"""Accumulators of variances and standard deviations."""

from __future__ import annotations

import decimal
import fractions
import math
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.functions import type_rules as rules
from penstock.table.functions.accumulators import CONTEXT, Accumulator

if TYPE_CHECKING:
    from penstock.table.types import DataType

_INT: Final = 2**31
_LONG: Final = 2**63


class Variance(Accumulator):
    """Variance and standard deviation, of the population or of a sample."""

    def __init__(self, data_type: DataType, *, is_sample: bool, is_root: bool) -> None:
        """Create the accumulator for a result type."""
        self._type = data_type
        self._is_sample = is_sample
        self._is_root = is_root

    def create(self) -> list[Any]:
        """Return empty sums."""
        return [0, 0, 0]

    def add(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Add a value and its square."""
        value, (count, total, squares) = values[0], accumulator
        if isinstance(value, decimal.Decimal):
            # The default context would round the squares to 28 digits.
            add, square = CONTEXT.add, CONTEXT.multiply(value, value)
            return [count + 1, add(total, value), add(squares, square)]
        return [count + 1, total + value, squares + value * value]

    def retract(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Subtract a value and its square."""
        value, (count, total, squares) = values[0], accumulator
        if isinstance(value, decimal.Decimal):
            subtract, square = CONTEXT.subtract, CONTEXT.multiply(value, value)
            return [count - 1, subtract(total, value), subtract(squares, square)]
        return [count - 1, total - value, squares - value * value]

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        """Return the sums of both."""
        with decimal.localcontext(CONTEXT):
            return [a + b for a, b in zip(accumulator, other, strict=True)]

    def result(self, accumulator: list[Any]) -> Any:
        """Return the result; None if there are too few rows."""
        count, total, squares = accumulator
        divisor = count - 1 if self._is_sample else count
        if divisor <= 0:
            return None
        if isinstance(total, float):
            variance = (squares - total * total / count) / divisor
        else:
            # Exactly: the difference of large sums would lose the digits that matter.
            total = fractions.Fraction(total)
            variance = float((fractions.Fraction(squares) - total * total / count) / divisor)
        variance = max(variance, 0.0)
        value = math.sqrt(variance) if self._is_root else variance
        if rules.is_integer(self._type):
            return _as_integer(value, self._type)
        is_decimal = isinstance(self._type, types.DecimalType)
        return decimal.Decimal(repr(value)) if is_decimal else value


class SteppedVariance(Variance):
    """Variance of integers in OVER, where Flink computes each step in the type of the argument.

    A step that overflows wraps around, and divisions truncate: the sample variance of 1 and 2 is
    ``(5 - 9 / 2) / 1``, which is 1.
    """

    def result(self, accumulator: list[Any]) -> Any:
        """Return the result; None if there are too few rows."""
        count, total, squares = accumulator
        divisor = count - 1 if self._is_sample else count
        if divisor <= 0:
            return None
        mean_square = _quotient(self._wrapped(total * total), count)
        rest = self._wrapped(squares - mean_square)
        variance = _quotient(rest, divisor)
        if not self._is_sample:
            variance = self._wrapped(variance)
        if not self._is_root:
            return self._wrapped(variance)
        return _as_integer(math.sqrt(variance), self._type) if variance > 0 else 0

    def _wrapped(self, value: int) -> int:
        bound = rules.BOUNDS[type(self._type)]  # type: ignore[index]
        return (value + bound) % (2 * bound) - bound


def _quotient(value: int, divisor: int) -> int:
    return abs(value) // divisor * (1 if value >= 0 else -1)


def _as_integer(value: float, data_type: DataType) -> int:
    """Return a number as Java casts it: the nearest INT or BIGINT, of which others keep the end."""
    bound = rules.BOUNDS[type(data_type)]  # type: ignore[index]
    widest = _LONG if bound == _LONG else _INT
    nearest = max(-widest, min(widest - 1, int(value)))
    return (nearest + bound) % (2 * bound) - bound
