"""The accumulators of aggregates: Python values that keyed state holds.

``add`` and ``merge`` return the accumulator.  ``add`` changes that of `CountDistinct` and `Collect`
in place; ``merge`` does not change its arguments.  None is the accumulator of no values unless
there is a better one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.packages.optional_library import optional_library

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.datastream.functions import AggregateFunction

#: The logarithm of the registers of a sketch, which determine its standard error.
_LOG_REGISTERS: Final = 12

#: Integers from here on do not fit into 64 bits.
_BOUND: Final = 2**63


class Fold:
    """One aggregate over values that are not None.

    Attributes:
        is_changed_in_place: Whether ``add`` changes the accumulator instead of returning a new one.
    """

    is_changed_in_place = False

    def create(self) -> Any:
        """Return the accumulator of no values."""
        return None

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Return the accumulator with a record's values."""
        raise NotImplementedError

    def merge(self, accumulator: Any, other: Any) -> Any:
        """Return the accumulator of the values of both; those of ``other`` are later."""
        if accumulator is None or other is None:
            return other if accumulator is None else accumulator
        return self.merged(accumulator, other)

    def merged(self, accumulator: Any, other: Any) -> Any:
        """Return the accumulator of the values of both, neither of which is None."""
        return self.add(accumulator, other)

    def result(self, accumulator: Any) -> Any:
        """Return the value of the aggregate."""
        return accumulator

    def results(self, accumulators: Sequence[Any]) -> list[Any]:
        """Return the values of the aggregate for many accumulators."""
        if type(self).result is Fold.result:
            return list(accumulators)
        return list(map(self.result, accumulators))


class Count(Fold):
    """The number of records."""

    def create(self) -> int:
        """Return 0."""
        return 0

    def add(self, accumulator: int, *values: Any) -> int:
        """Count a record."""
        del values
        return accumulator + 1

    def merged(self, accumulator: int, other: int) -> int:
        """Return the sum."""
        return accumulator + other


class MergedCount(Count):
    """The number of records whose counts are added."""

    def add(self, accumulator: int, *values: Any) -> int:
        """Add a count."""
        found: int = accumulator + values[0]
        return found


class Sum(Fold):
    """The sum of numbers, in the order of arrival."""

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Add a number."""
        return values[0] if accumulator is None else accumulator + values[0]


class Mean(Fold):
    """The mean of numbers; its accumulator is their sum and their number."""

    def create(self) -> tuple[Any, int]:
        """Return the sum and number of nothing."""
        return 0, 0

    def add(self, accumulator: tuple[Any, int], *values: Any) -> tuple[Any, int]:
        """Add a number."""
        return accumulator[0] + values[0], accumulator[1] + 1

    def merged(self, accumulator: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        """Return the sum of both."""
        return accumulator[0] + other[0], accumulator[1] + other[1]

    def result(self, accumulator: tuple[Any, int]) -> float | None:
        """Return the mean."""
        total, count = accumulator
        return float(total / count) if count else None


class MergedMean(Mean):
    """The mean of numbers whose sums and counts are added."""

    def add(self, accumulator: tuple[Any, int], *values: Any) -> tuple[Any, int]:
        """Add a sum and the number of its summands."""
        return accumulator[0] + values[0], accumulator[1] + values[1]


class Min(Fold):
    """The smallest value, the first of several."""

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Compare a value."""
        value = values[0]
        return value if accumulator is None or value < accumulator else accumulator


class Max(Fold):
    """The largest value, the first of several."""

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Compare a value."""
        value = values[0]
        return value if accumulator is None or value > accumulator else accumulator


class First(Fold):
    """The first value."""

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Keep the value if it is the first one."""
        return values[0] if accumulator is None else accumulator


class Last(Fold):
    """The last value."""

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Keep the value."""
        del accumulator
        return values[0]


class MinBy(Fold):
    """A value of the record whose other value is smallest; its accumulator is (other, value)."""

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Compare a record."""
        value, by = values
        return (by, value) if accumulator is None or by < accumulator[0] else accumulator

    def merged(self, accumulator: Any, other: Any) -> Any:
        """Return the better one."""
        return self.add(accumulator, other[1], other[0])

    def result(self, accumulator: Any) -> Any:
        """Return the value."""
        return None if accumulator is None else accumulator[1]


class MaxBy(MinBy):
    """A value of the record whose other value is largest; its accumulator is (other, value)."""

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Compare a record."""
        value, by = values
        return (by, value) if accumulator is None or by > accumulator[0] else accumulator


class CountDistinct(Fold):
    """The number of different values; its accumulator is their set."""

    is_changed_in_place = True

    def add(self, accumulator: set[Any] | None, *values: Any) -> set[Any]:
        """Add a value."""
        if accumulator is None:
            return {values[0]}
        accumulator.add(values[0])
        return accumulator

    def merge(self, accumulator: set[Any] | None, other: set[Any] | None) -> set[Any]:
        """Return the union, a set that the caller owns."""
        return (accumulator or set()) | (other or set())

    def result(self, accumulator: set[Any] | None) -> int:
        """Return the number."""
        return 0 if accumulator is None else len(accumulator)


class ApproximateDistinct(Fold):
    """An estimate of the number of different values, by Apache DataSketches.

    Its accumulator is the serialized HyperLogLog sketch.  The estimate depends only on the values,
    neither on their order nor on the order of merges: sketches with registers are marked as out of
    order, for which the library uses the estimator that reads only the registers.
    """

    def __init__(self) -> None:
        """Import the library.

        Raises:
            DependencyError: It is not installed.
        """
        library = optional_library(
            "datasketches", "datasketches", "sketches", "count_distinct(approximate=True)"
        )
        self._sketch = library.hll_sketch
        self._union = library.hll_union
        self._kind = library.tgt_hll_type.HLL_8
        #: The size in bytes of sketches with registers; those of few values are smaller.
        self._full = self._sketch.get_max_updatable_serialization_bytes(_LOG_REGISTERS, self._kind)

    def __reduce__(self) -> tuple[type[ApproximateDistinct], tuple[()]]:
        """Import the library where the fold is unpickled."""
        return ApproximateDistinct, ()

    def add(self, accumulator: bytes | None, *values: Any) -> bytes:
        """Add a value."""
        return self.add_all(accumulator, values)

    def add_all(self, accumulator: bytes | None, values: Iterable[Any]) -> bytes:
        """Add some values."""
        if accumulator is None:
            sketch = self._sketch(_LOG_REGISTERS, self._kind)
        else:
            sketch = self._sketch.deserialize(accumulator)
        for value in values:
            sketch.update(_hashable(value))
        return self._serialized(sketch, accumulator or b"")

    def merged(self, accumulator: bytes, other: bytes) -> bytes:
        """Return the sketch of the values of both."""
        union = self._union(_LOG_REGISTERS)
        union.update(self._sketch.deserialize(accumulator))
        union.update(self._sketch.deserialize(other))
        return self._serialized(union.get_result(self._kind), max(accumulator, other, key=len))

    def _serialized(self, sketch: Any, before: bytes) -> bytes:
        found: bytes = sketch.serialize_compact()
        if len(found) < self._full or len(before) == self._full:
            return found
        # The union of sketches with registers is out of order, even that of one with itself.
        union = self._union(_LOG_REGISTERS)
        union.update(sketch)
        union.update(sketch)
        found = union.get_result(self._kind).serialize_compact()
        return found

    def result(self, accumulator: bytes | None) -> int:
        """Return the estimate."""
        if accumulator is None:
            return 0
        found: float = self._sketch.deserialize(accumulator).get_estimate()
        return round(found)


def _hashable(value: float | str) -> float | str:
    """Return the value that stands for another in a sketch, which ignores empty strings."""
    if isinstance(value, str):
        return f"={value}"
    if isinstance(value, int) and not -_BOUND <= value < _BOUND:
        return str(value)
    return value


class Collect(Fold):
    """All values in a list, in the order of arrival."""

    is_changed_in_place = True

    def add(self, accumulator: list[Any] | None, *values: Any) -> list[Any]:
        """Append a value."""
        if accumulator is None:
            return [values[0]]
        accumulator.append(values[0])
        return accumulator

    def merge(self, accumulator: list[Any] | None, other: list[Any] | None) -> list[Any]:
        """Return the values of both in a list that the caller owns."""
        return (accumulator or []) + (other or [])

    def result(self, accumulator: list[Any] | None) -> list[Any]:
        """Return a list that the caller owns."""
        return [] if accumulator is None else list(accumulator)


class UserFold(Fold):
    """An `AggregateFunction`; the function creates its accumulator."""

    is_changed_in_place = True

    def __init__(self, function: AggregateFunction) -> None:
        """Wrap a function."""
        self.function = function

    def create(self) -> Any:
        """Return a new accumulator."""
        return self.function.create_accumulator()

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Call the function with a value, or with the tuple of several."""
        return self.function.add(values[0] if len(values) == 1 else values, accumulator)

    def merge(self, accumulator: Any, other: Any) -> Any:
        """Return the accumulator of both."""
        return self.function.merge(accumulator, other)

    def result(self, accumulator: Any) -> Any:
        """Return the result of the function."""
        return self.function.get_result(accumulator)


#: The names of `MergedCount` and `MergedMean`, which programs do not use.
MERGED_COUNT: Final = "merged count"
MERGED_MEAN: Final = "merged mean"

#: By the names of aggregates.
FOLDS: Final[dict[str, type[Fold]]] = {
    "count": Count,
    "sum": Sum,
    "min": Min,
    "max": Max,
    "mean": Mean,
    "first": First,
    "last": Last,
    "min_by": MinBy,
    "max_by": MaxBy,
    "count_distinct": CountDistinct,
    "approximate_distinct": ApproximateDistinct,
    "collect": Collect,
    MERGED_COUNT: MergedCount,
    MERGED_MEAN: MergedMean,
}
