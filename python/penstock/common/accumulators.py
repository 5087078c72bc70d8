"""Accumulators: values that the subtasks of a job add up (beyond PyFlink).

A function registers one in ``open`` with `RuntimeContext.add_accumulator`.  Each subtask adds to
its own; the JobMaster merges them by name, and `JobExecutionResult.get_accumulator_result` returns
the result.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "Accumulator",
    "AverageAccumulator",
    "DoubleCounter",
    "DoubleMaximum",
    "DoubleMinimum",
    "Histogram",
    "IntCounter",
    "IntMaximum",
    "IntMinimum",
    "ListAccumulator",
    "LongCounter",
    "LongMaximum",
    "LongMinimum",
    "SimpleAccumulator",
]

V = TypeVar("V")
R = TypeVar("R")


class Accumulator(ABC, Generic[V, R]):
    """Accumulates values of type V into a result of type R.

    It is sent to the JobMaster, so it must be plain data.
    """

    @abstractmethod
    def add(self, value: V) -> None:
        """Add a value."""

    @abstractmethod
    def get_local_value(self) -> R:
        """Return the result of the values added here."""

    @abstractmethod
    def reset_local(self) -> None:
        """Discard the values added here."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Merge the values of another accumulator of the same class."""

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.get_local_value()}"


class SimpleAccumulator(Accumulator[V, V]):
    """An accumulator whose result has the type of its values."""


class _Counter(SimpleAccumulator[V]):
    def __init__(self, value: V | None = None) -> None:
        self._value: Any = self._zero() if value is None else value

    @staticmethod
    def _zero() -> Any:
        return 0

    def add(self, value: V) -> None:
        """Add a number."""
        self._value += value

    def get_local_value(self) -> V:
        """Return the sum."""
        return self._value  # type: ignore[no-any-return]

    def reset_local(self) -> None:
        """Start again at zero."""
        self._value = self._zero()

    def merge(self, other: _Counter[V]) -> None:
        """Add another's sum."""
        self._value += other._value


class IntCounter(_Counter[int]):
    """A sum of ints."""


class LongCounter(_Counter[int]):
    """A sum of ints."""


class DoubleCounter(_Counter[float]):
    """A sum of floats."""

    @staticmethod
    def _zero() -> float:
        return 0.0


class _Extreme(SimpleAccumulator[V]):
    """Keeps the smallest or largest value; None before the first."""

    def __init__(self) -> None:
        self._value: Any = None

    @staticmethod
    def _pick(one: Any, other: Any) -> Any:
        raise NotImplementedError

    def add(self, value: V) -> None:
        """Compare a number with the present one."""
        self._value = value if self._value is None else self._pick(self._value, value)

    def get_local_value(self) -> V:
        """Return the smallest or largest number, None before the first."""
        return self._value  # type: ignore[no-any-return]

    def reset_local(self) -> None:
        """Discard the number."""
        self._value = None

    def merge(self, other: _Extreme[V]) -> None:
        """Compare another's number with the present one."""
        if other._value is not None:
            self.add(other._value)


class _Minimum(_Extreme[V]):
    @staticmethod
    def _pick(one: Any, other: Any) -> Any:
        return min(one, other)


class _Maximum(_Extreme[V]):
    @staticmethod
    def _pick(one: Any, other: Any) -> Any:
        return max(one, other)


class IntMinimum(_Minimum[int]):
    """The smallest of ints."""


class LongMinimum(_Minimum[int]):
    """The smallest of ints."""


class DoubleMinimum(_Minimum[float]):
    """The smallest of floats."""


class IntMaximum(_Maximum[int]):
    """The largest of ints."""


class LongMaximum(_Maximum[int]):
    """The largest of ints."""


class DoubleMaximum(_Maximum[float]):
    """The largest of floats."""


class AverageAccumulator(SimpleAccumulator[float]):
    """The average of numbers; 0.0 before the first."""

    def __init__(self) -> None:
        """Create the average of no numbers."""
        self._count = 0
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Add a number."""
        self._count += 1
        self._sum += value

    def get_local_value(self) -> float:
        """Return the average."""
        return self._sum / self._count if self._count else 0.0

    def reset_local(self) -> None:
        """Discard all numbers."""
        self._count, self._sum = 0, 0.0

    def merge(self, other: AverageAccumulator) -> None:
        """Add another's numbers."""
        self._count += other._count
        self._sum += other._sum


class Histogram(Accumulator[int, dict[int, int]]):
    """Counts of each added int, in ascending order of the ints."""

    def __init__(self) -> None:
        """Create an empty histogram."""
        self._counts: dict[int, int] = {}

    def add(self, value: int) -> None:
        """Count an int."""
        self._counts[value] = self._counts.get(value, 0) + 1

    def get_local_value(self) -> dict[int, int]:
        """Return the counts."""
        return dict(sorted(self._counts.items()))

    def reset_local(self) -> None:
        """Discard all counts."""
        self._counts.clear()

    def merge(self, other: Histogram) -> None:
        """Add another's counts."""
        for value, count in other._counts.items():
            self._counts[value] = self._counts.get(value, 0) + count


class ListAccumulator(Accumulator[V, list[V]]):
    """All values; those of one subtask in their order, subtask by subtask."""

    def __init__(self, values: Iterable[V] = ()) -> None:
        """Create a list of some values."""
        self._values = list(values)

    def add(self, value: V) -> None:
        """Append a copy of the value."""
        self._values.append(copy.deepcopy(value))

    def get_local_value(self) -> list[V]:
        """Return the values."""
        return list(self._values)

    def reset_local(self) -> None:
        """Discard all values."""
        self._values.clear()

    def merge(self, other: ListAccumulator[V]) -> None:
        """Append another's values."""
        self._values.extend(other._values)
