"""Aggregates of integers over the groups of a batch, whose accumulators are columns.

The accumulators of some groups are a matrix: a row for each integer of an accumulator, a column for
each group.  `read` and `written` convert them from and to the Python values of
`penstock.aggregates.folds`.  If a kernel is not exact, it raises `NoKernelError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.aggregates.folds import MERGED_COUNT, MERGED_MEAN
from penstock.columns.group_kernels import (
    MOST,
    NoKernelError,
    best,
    integer_sums,
    integers,
    is_integer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.columns.array_types import Integers
    from penstock.columns.groups import Groups
    from penstock.columns.taken import Taken

#: Integers up to this bound are exact as floats.
_EXACT: Final = 2**53


class IntegerFold:
    """The kernels of one aggregate.

    Attributes:
        width: The number of integers of an accumulator.
    """

    width = 2

    def takes(self, columns: Iterable[Any]) -> bool:
        """Return whether the kernels fold values of some columns."""
        return all(map(is_integer, columns))

    def read(self, kept: Sequence[Any]) -> Integers:
        """Return the matrix of accumulators: by default of numbers, or None without values.

        Raises:
            NoKernelError: A number is no integer of 64 bits.
        """
        import numpy as np

        known = np.array([number is not None for number in kept], np.int64)
        return np.stack((_whole([0 if number is None else number for number in kept]), known))

    def written(self, numbers: Integers) -> list[Any]:
        """Return the accumulators of a matrix."""
        found: list[Any] = numbers[0].tolist()
        if numbers[1].all():
            return found
        known = numbers[1].tolist()
        return [value if is_known else None for value, is_known in zip(found, known, strict=True)]

    def totals(self, taken: Taken, old: Integers) -> Integers:
        """Return the accumulators after the records of a batch."""
        raise NotImplementedError

    def running(self, taken: Taken, old: Integers) -> tuple[Integers, Any]:
        """Return the accumulators after the batch, and the column of results of each record."""
        raise NotImplementedError

    def results(self, numbers: Integers) -> Any:
        """Return the column of the aggregate's values."""
        import pyarrow as pa

        return pa.array(numbers[0], mask=numbers[1] == 0)


class _Counts(IntegerFold):
    """The number of records."""

    width = 1

    def takes(self, columns: Iterable[Any]) -> bool:
        """Return True: values do not matter."""
        del columns
        return True

    def read(self, kept: Sequence[Any]) -> Integers:
        """Return the matrix of counts."""
        import numpy as np

        return _whole(kept)[np.newaxis]

    def written(self, numbers: Integers) -> list[Any]:
        """Return the counts."""
        found: list[Any] = numbers[0].tolist()
        return found

    def totals(self, taken: Taken, old: Integers) -> Integers:
        """Count the records of each group."""
        found: Integers = old + taken.groups.sizes
        return found

    def running(self, taken: Taken, old: Integers) -> tuple[Integers, Any]:
        """Count the records of each group up to each record."""
        return self.totals(taken, old), running_numbers(taken.whole, _counting(taken), old[0])

    def results(self, numbers: Integers) -> Any:
        """Return the counts."""
        return numbers[0]


class _MergedCounts(_Counts):
    """The number of records of combined ones."""

    def takes(self, columns: Iterable[Any]) -> bool:
        """Return whether the column has counts."""
        return all(map(is_integer, columns))

    def totals(self, taken: Taken, old: Integers) -> Integers:
        """Add the counts."""
        import numpy as np

        more = integer_sums(taken.groups, integers(taken.columns[0]))
        return _added(old[0], more)[np.newaxis]


class _Sums(IntegerFold):
    """The sum; its accumulator is the sum, and whether there is one."""

    def totals(self, taken: Taken, old: Integers) -> Integers:
        """Add the values of each group."""
        import numpy as np

        more = integer_sums(taken.groups, integers(taken.columns[0]))
        return np.stack((_added(old[0], more), old[1] | (taken.groups.sizes > 0)))

    def running(self, taken: Taken, old: Integers) -> tuple[Integers, Any]:
        """Add the values of each group up to each record."""
        import numpy as np
        import pyarrow as pa

        sums = running_numbers(taken.whole, _of_counting(taken), old[0])
        known = old[1] | (taken.groups.sizes > 0)
        new = np.stack((sums[taken.whole.lasts], known))
        if taken.groups.rows is None:
            return new, sums
        counts = running_numbers(taken.whole, _counting(taken), old[1])
        return new, pa.array(sums, mask=counts == 0)


class _Means(IntegerFold):
    """The mean; its accumulator is the sum and the number of values."""

    def read(self, kept: Sequence[Any]) -> Integers:
        """Return the matrix of pairs of a sum and a number."""
        import numpy as np

        return np.stack([_whole([pair[at] for pair in kept]) for at in range(2)])

    def written(self, numbers: Integers) -> list[Any]:
        """Return pairs of a sum and a number."""
        sums, counts = numbers.tolist()
        return list(zip(sums, counts, strict=True))

    def totals(self, taken: Taken, old: Integers) -> Integers:
        """Add the values of each group."""
        import numpy as np

        more = integer_sums(taken.groups, integers(taken.columns[0]))
        return np.stack((_added(old[0], more), old[1] + taken.groups.sizes))

    def running(self, taken: Taken, old: Integers) -> tuple[Integers, Any]:
        """Add the values of each group up to each record."""
        import numpy as np

        sums = running_numbers(taken.whole, _of_counting(taken), old[0])
        counts = running_numbers(taken.whole, _counting(taken), old[1])
        numbers = np.stack((sums, counts))
        return numbers[:, taken.whole.lasts], self.results(numbers)

    def results(self, numbers: Integers) -> Any:
        """Return the means."""
        import numpy as np
        import pyarrow as pa

        sums, counts = numbers
        if len(sums) and max(abs(int(sums.min())), abs(int(sums.max()))) > _EXACT:
            raise NoKernelError
        return pa.array(sums / np.maximum(counts, 1), mask=counts == 0)


class _MergedMeans(_Means):
    """The mean of combined records, whose columns are sums and numbers."""

    def totals(self, taken: Taken, old: Integers) -> Integers:
        """Add the sums and numbers."""
        import numpy as np

        more = [integer_sums(taken.groups, integers(column)) for column in taken.columns]
        return np.stack([_added(*pair) for pair in zip(old, more, strict=True)])


class _Extremes(IntegerFold):
    """The smallest or largest value; its accumulator is the value, and whether there is one."""

    def __init__(self, *, is_least: bool) -> None:
        """Create the kernels of ``min`` or ``max``."""
        self._is_least = is_least

    def totals(self, taken: Taken, old: Integers) -> Integers:
        """Compare the values of each group."""
        import numpy as np

        groups = taken.groups
        if not len(groups):
            return old
        found = best(groups, integers(taken.columns[0]), is_least=self._is_least)
        has_any = groups.sizes > 0
        better = merged_extremes(old, found, is_least=self._is_least)
        return np.stack((np.where(has_any, better, old[0]), old[1] | has_any))

    def running(self, taken: Taken, old: Integers) -> tuple[Integers, Any]:
        """Compare the values of each group up to each record."""
        import numpy as np

        if taken.groups.rows is not None or not len(taken.groups):
            raise NoKernelError
        values = integers(taken.columns[0])
        found = running_extremes(taken.groups, values, old, is_least=self._is_least)
        last = found[taken.groups.lasts]
        return np.stack((last, np.ones_like(last))), found


#: By the names of aggregates.
INTEGER_FOLDS: Final[dict[str, IntegerFold]] = {
    "count": _Counts(),
    "sum": _Sums(),
    "mean": _Means(),
    "min": _Extremes(is_least=True),
    "max": _Extremes(is_least=False),
    MERGED_COUNT: _MergedCounts(),
    MERGED_MEAN: _MergedMeans(),
}


def _whole(numbers: Sequence[Any]) -> Integers:
    """Return Python's integers as a numpy array."""
    import numpy as np

    if not {*map(type, numbers)} <= {int}:
        raise NoKernelError
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        raise NoKernelError from None


def _added(old: Integers, more: Integers) -> Integers:
    """Return sums, which must fit into 64 bits."""
    if len(old) and _bound(old) + _bound(more) > MOST:
        raise NoKernelError
    return old + more


def _bound(numbers: Integers) -> int:
    """Return the largest absolute value of some integers."""
    return max(abs(int(numbers.min())), abs(int(numbers.max())))


def running_numbers(whole: Groups, more: Any, old: Any) -> Any:
    """Return the running sum of each group after each record, for integers.

    Args:
        whole: The groups of all records.
        more: The integer that each record adds.
        old: The sum of each group before.

    Raises:
        NoKernelError: A sum may need more than 64 bits.
    """
    import numpy as np

    bound = _bound(old) if len(old) else 0
    if len(more):
        bound += _bound(more) * len(more)
    if bound > MOST:
        raise NoKernelError
    order = whole.order
    sums = np.cumsum(more[order])
    # Subtract the sum of the preceding groups.
    ends = whole.starts - 1
    before = np.where(ends >= 0, sums[ends], 0)
    start = old - before
    found = np.empty(len(more), np.int64)
    found[order] = sums + start[whole.codes[order]]
    return found


def _counting(taken: Taken) -> Any:
    """Return 1 for each counted record, 0 for the others."""
    import numpy as np

    if taken.groups.rows is None:
        return np.ones(len(taken.whole), np.int64)
    found = np.zeros(len(taken.whole), np.int64)
    found[taken.groups.rows] = 1
    return found


def _of_counting(taken: Taken) -> Any:
    """Return the integers of the argument, 0 for records that do not count."""
    values = integers(taken.columns[0])
    if taken.groups.rows is None:
        return values
    found = _counting(taken)
    found[taken.groups.rows] = values
    return found


def merged_extremes(old: Integers, new: Integers, *, is_least: bool) -> Integers:
    """Return the better one of an accumulator and an integer, by group."""
    import numpy as np

    better = (np.minimum if is_least else np.maximum)(old[0], new)
    found: Integers = np.where(old[1] > 0, better, new)
    return found


def running_extremes(groups: Groups, values: Any, old: Integers, *, is_least: bool) -> Any:
    """Return the smallest or largest value of each group after each record.

    Args:
        groups: The groups of all records, each of which counts.
        values: The integer of each record.
        old: The accumulators of the groups before.
        is_least: Whether the smallest value is the best.

    Raises:
        NoKernelError: The range of the values is too wide.
    """
    import numpy as np

    sign = 1 if is_least else -1
    # The accumulator is merged into the first value of its group.
    heads = merged_extremes(old, values[groups.firsts], is_least=is_least)
    low = min(int(heads.min()), int(values.min()))
    high = max(int(heads.max()), int(values.max()))
    width = high - low + 1
    if width * groups.count >= MOST >> 1 or max(abs(low), abs(high)) >= MOST >> 1:
        raise NoKernelError
    values = values.copy()
    values[groups.firsts] = heads
    order = groups.order
    codes = groups.codes[order]
    # All values of a group are below those of earlier groups: the minimum restarts.
    base = low if is_least else high
    least = np.minimum.accumulate((values[order] - base) * sign - codes * width)
    found = np.empty(len(values), np.int64)
    found[order] = (least + codes * width) * sign + base
    return found
