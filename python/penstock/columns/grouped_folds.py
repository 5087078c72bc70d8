"""The aggregates of `penstock.aggregates` over the groups of a batch.

A fold takes the accumulators that the groups had before the batch, as Python values, and returns
those after it; ``running`` also returns the result after each record.  Both equal the results of
`Fold.add` for one record at a time, including rounding.  If no kernel is as exact, the values are
folded one by one, but without creating records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.aggregates.folds import MERGED_MEAN, CountDistinct
from penstock.columns.group_kernels import (
    MOST,
    NoKernelError,
    best,
    best_rows,
    floats,
    integer_sums,
    integers,
    is_integer,
    ordered,
)
from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.aggregates.folds import Fold
    from penstock.aggregates.named import Call
    from penstock.columns.groups import Groups

#: Integers up to this bound are exact as floats.
_EXACT: Final = 2**53


class Taken(NamedTuple):
    """The values of a batch that an aggregate consumes.

    Attributes:
        fold: The aggregate over Python values.
        groups: The groups of the records that count.
        whole: The groups of all records.
        columns: The arguments of the records that count, as Arrow arrays without nulls.
    """

    fold: Fold
    groups: Groups
    whole: Groups
    columns: tuple[Any, ...]


class GroupedFolds:
    """Folds batches into the accumulators of the aggregates of one operator."""

    def __init__(self, calls: Sequence[Call], folds: Sequence[Fold]) -> None:
        """Create the folds of the aggregates.

        Args:
            calls: The aggregates and the positions of their arguments.
            folds: The aggregates over Python values.
        """
        self._calls = calls
        self._folds = folds

    def totals(
        self, groups: Groups, columns: Sequence[Any], kept: Sequence[tuple[Any, ...]]
    ) -> list[tuple[Any, ...]]:
        """Return the accumulators of the groups with the records of a batch.

        Args:
            groups: The groups of all records.
            columns: The arguments of aggregates, for all records.
            kept: The accumulators of each group.
        """
        found = []
        for at, (name, taken) in enumerate(self.taken(groups, columns)):
            old = _accumulators(kept, at)
            try:
                found.append(_TOTALS.get(name, _one_by_one)(taken, old))
            except NoKernelError:
                found.append(_one_by_one(taken, old))
        return list(zip(*found, strict=True))

    def running(
        self, groups: Groups, columns: Sequence[Any], kept: Sequence[tuple[Any, ...]]
    ) -> tuple[list[tuple[Any, ...]], list[Any]]:
        """Return the accumulators as `totals`, and the column of each result after each record."""
        found, results = [], []
        for at, (name, taken) in enumerate(self.taken(groups, columns)):
            old = _accumulators(kept, at)
            try:
                totals, column = _RUNNING[name](taken, old) if name in _RUNNING else (None, None)
            except NoKernelError:
                totals = None
            if totals is None:
                totals, column = _each(taken, old)
            found.append(totals)
            results.append(column)
        return list(zip(*found, strict=True)), results

    def results(self, kept: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
        """Return the column of each result for the accumulators of some groups."""
        return [fold.results([each[at] for each in kept]) for at, fold in enumerate(self._folds)]

    def taken(self, groups: Groups, columns: Sequence[Any]) -> list[tuple[str, Taken]]:
        """Return the name of each aggregate, and the values that it consumes.

        Args:
            groups: The groups of all records.
            columns: The arguments of aggregates, for all records.
        """
        found = []
        masked: dict[tuple[int, ...], Groups] = {}
        for call, fold in zip(self._calls, self._folds, strict=True):
            nullable = [place for place in call.positions if columns[place].null_count]
            named = (-1 if call.condition is None else call.condition, *nullable)
            if named not in masked:
                condition = None if call.condition is None else columns[call.condition]
                mask = counted_rows(condition, [columns[place] for place in nullable])
                masked[named] = groups if mask is None else groups.where(mask)
            counted = masked[named]
            arguments = tuple([columns[place] for place in call.positions])
            if counted.rows is not None:
                import pyarrow as pa

                rows = pa.array(counted.rows)
                arguments = tuple([column.take(rows) for column in arguments])
            found.append((call.function, Taken(fold, counted, groups, arguments)))
        return found


def _accumulators(kept: Sequence[tuple[Any, ...]], at: int) -> list[Any]:
    """Return the accumulators of one aggregate.  `zip` would take each tuple as an argument."""
    return [each[at] for each in kept]


def counted_rows(condition: Any, nullable: Sequence[Any]) -> Any:
    """Return which records meet a condition and have values in some columns.

    Args:
        condition: The condition for each record, as an Arrow array of booleans; None without one.
        nullable: The columns, as Arrow arrays.

    Returns:
        A numpy array of booleans; None if there is nothing to check.
    """
    if condition is None and not nullable:
        return None
    import pyarrow.compute as pc

    mask: Any = None if condition is None else pc.fill_null(condition, False)
    for column in nullable:
        valid = column.is_valid()
        mask = valid if mask is None else pc.and_(mask, valid)
    return numpy_values(mask)


def _one_by_one(taken: Taken, old: Sequence[Any]) -> list[Any]:
    """Fold values in the order of the records."""
    found = list(old)
    add = taken.fold.add
    columns = [column.to_pylist() for column in taken.columns]
    for code, *values in zip(taken.groups.codes.tolist(), *columns, strict=True):
        found[code] = add(found[code], *values)
    return found


def _each(taken: Taken, old: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Fold values in the order of the records; return the result after each, too."""
    found, fold = list(old), taken.fold
    columns = [column.to_pylist() for column in taken.columns]
    values: Any = zip(*columns, strict=True) if columns else iter(lambda: (), None)
    rows = taken.groups.rows
    counting = None if rows is None else set(rows.tolist())
    results = []
    for row, code in enumerate(taken.whole.codes.tolist()):
        if counting is None or row in counting:
            found[code] = fold.add(found[code], *next(values))
        results.append(fold.result(found[code]))
    return found, results


# ---- totals --------------------------------------------------------------------------------------


def _count(taken: Taken, old: Sequence[Any]) -> list[Any]:
    return [kept + more for kept, more in zip(old, taken.groups.sizes.tolist(), strict=True)]


def _float_sums(groups: Groups, sums: Any, values: Any) -> list[float]:
    """Add the values of each group to its sum, in their order."""
    import numpy as np

    with np.errstate(all="ignore"):  # like Python's sums of infinities
        np.add.at(sums, groups.codes, values)
    found: list[float] = sums.tolist()
    return found


def _sum(taken: Taken, old: Sequence[Any]) -> list[Any]:
    import numpy as np

    groups, column = taken.groups, taken.columns[0]
    if is_integer(column):
        more = integer_sums(groups, integers(column)).tolist()
        return [
            kept if not size else value if kept is None else kept + value
            for kept, value, size in zip(old, more, groups.sizes.tolist(), strict=True)
        ]
    # -0.0 is the neutral element of float addition.
    start = np.array([-0.0 if kept is None else kept for kept in old], np.float64)
    return _of_groups(groups, old, _float_sums(groups, start, floats(column)))


def _mean(taken: Taken, old: Sequence[Any]) -> list[Any]:
    import numpy as np

    groups, column = taken.groups, taken.columns[0]
    if is_integer(column):
        sums = integer_sums(groups, integers(column)).tolist()
        totals = [kept[0] + more for kept, more in zip(old, sums, strict=True)]
    else:
        start = np.array([kept[0] for kept in old], np.float64)
        totals = _float_sums(groups, start, floats(column))
    sizes = groups.sizes.tolist()
    return [
        (total, kept[1] + size) if size else kept
        for total, kept, size in zip(totals, old, sizes, strict=True)
    ]


def _merged_mean(taken: Taken, old: Sequence[Any]) -> list[Any]:
    sums, counts = (integer_sums(taken.groups, integers(c)).tolist() for c in taken.columns)
    pairs = zip(sums, counts, strict=True)
    return [(kept[0] + total, kept[1] + n) for kept, (total, n) in zip(old, pairs, strict=True)]


def _of_groups(groups: Groups, old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """Return the new accumulators of groups with records, and the old ones of the others."""
    sizes = groups.sizes.tolist()
    return [value if size else kept for kept, value, size in zip(old, new, sizes, strict=True)]


def _extreme(taken: Taken, old: Sequence[Any]) -> list[Any]:
    from penstock.aggregates.folds import Min

    groups = taken.groups
    if not len(groups):
        return list(old)
    values, found = ordered(taken.columns[0])
    new = found(best(groups, values, is_least=isinstance(taken.fold, Min))).to_pylist()
    return _of_groups(groups, old, list(map(taken.fold.merge, old, new)))


def _extreme_by(taken: Taken, old: Sequence[Any]) -> list[Any]:
    groups, (column, by) = taken.groups, taken.columns
    if not len(groups):
        return list(old)
    chosen = best_rows(taken.fold, groups, by)
    new = list(zip(by.take(chosen).to_pylist(), column.take(chosen).to_pylist(), strict=True))
    return _of_groups(groups, old, list(map(taken.fold.merge, old, new)))


def _first(taken: Taken, old: Sequence[Any]) -> list[Any]:
    groups = taken.groups
    new = _at(taken, groups.firsts)
    pairs = zip(old, new, strict=True)
    return _of_groups(groups, old, [value if kept is None else kept for kept, value in pairs])


def _last(taken: Taken, old: Sequence[Any]) -> list[Any]:
    return _of_groups(taken.groups, old, _at(taken, taken.groups.lasts))


def _at(taken: Taken, places: Any) -> list[Any]:
    """Return the values at places, one for each group; any value at -1."""
    import numpy as np
    import pyarrow as pa

    if not len(taken.groups):
        return [None] * taken.groups.count
    found: list[Any] = taken.columns[0].take(pa.array(np.maximum(places, 0))).to_pylist()
    return found


def _count_distinct(taken: Taken, old: Sequence[Any]) -> list[Any]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.types as at

    groups, column = taken.groups, taken.columns[0]
    if not (at.is_signed_integer(column.type) or at.is_string(column.type)):
        raise NoKernelError
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    found = list(old)
    if groups.count == 1:
        if values:
            found[0] = found[0] or set()
            found[0].update(values)
        return found
    pairs = pa.array(groups.codes * max(len(values), 1) + numpy_values(encoded.indices)).unique()
    numbers, places = np.divmod(numpy_values(pairs), max(len(values), 1))
    for code, place in zip(numbers.tolist(), places.tolist(), strict=True):
        kept = found[code]
        if kept is None:
            found[code] = {values[place]}
        else:
            kept.add(values[place])
    return found


def _approximate_distinct(taken: Taken, old: Sequence[Any]) -> list[Any]:
    exact = taken._replace(fold=CountDistinct())
    nothing: list[Any] = [None] * len(old)
    try:
        new = _count_distinct(exact, nothing)
    except NoKernelError:
        new = _one_by_one(exact, nothing)
    fold: Any = taken.fold
    pairs = zip(old, new, strict=True)
    return [fold.add_all(kept, values) if values else kept for kept, values in pairs]


def _collect(taken: Taken, old: Sequence[Any]) -> list[Any]:
    import pyarrow as pa

    groups = taken.groups
    values = taken.columns[0].take(pa.array(groups.order)).to_pylist()
    found = list(old)
    for code, (start, size) in enumerate(
        zip(groups.starts.tolist(), groups.sizes.tolist(), strict=True)
    ):
        if not size:
            continue
        more = values[start : start + size]
        if found[code] is None:
            found[code] = more
        else:
            found[code].extend(more)
    return found


_TOTALS: Final[dict[str, Callable[[Taken, Sequence[Any]], list[Any]]]] = {
    "count": _count,
    "sum": _sum,
    "mean": _mean,
    "min": _extreme,
    "max": _extreme,
    "min_by": _extreme_by,
    "max_by": _extreme_by,
    "first": _first,
    "last": _last,
    "count_distinct": _count_distinct,
    "approximate_distinct": _approximate_distinct,
    "collect": _collect,
    MERGED_MEAN: _merged_mean,
}


# ---- running results -----------------------------------------------------------------------------


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

    try:
        old = np.array(old, np.int64)
    except OverflowError:
        raise NoKernelError from None
    bound = max(abs(int(old.min())), abs(int(old.max()))) if len(old) else 0
    if len(more):
        bound += max(abs(int(more.min())), abs(int(more.max()))) * len(more)
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


def _running_count(taken: Taken, old: Sequence[Any]) -> tuple[list[Any], Any]:
    return _count(taken, old), running_numbers(taken.whole, _counting(taken), old)


def _of_counting(taken: Taken) -> Any:
    """Return the integers of the argument, 0 for records that do not count."""
    values = integers(taken.columns[0])
    if taken.groups.rows is None:
        return values
    found = _counting(taken)
    found[taken.groups.rows] = values
    return found


def _running_sum(taken: Taken, old: Sequence[Any]) -> tuple[list[Any], Any]:
    import pyarrow as pa

    sums = running_numbers(taken.whole, _of_counting(taken), [kept or 0 for kept in old])
    totals = _sum(taken, old)
    if taken.groups.rows is None:
        return totals, sums
    has_any = [0 if kept is None else 1 for kept in old]
    return totals, pa.array(sums, mask=running_numbers(taken.whole, _counting(taken), has_any) == 0)


def _running_mean(taken: Taken, old: Sequence[Any]) -> tuple[list[Any], Any]:
    import numpy as np
    import pyarrow as pa

    sums = running_numbers(taken.whole, _of_counting(taken), [kept[0] for kept in old])
    if len(sums) and max(abs(int(sums.min())), abs(int(sums.max()))) > _EXACT:
        raise NoKernelError
    counts = running_numbers(taken.whole, _counting(taken), [kept[1] for kept in old])
    means = sums / np.maximum(counts, 1)
    return _mean(taken, old), pa.array(means, mask=counts == 0)


def running_extreme(taken: Taken, old: Sequence[Any]) -> tuple[list[Any], Any]:
    """Return the new accumulators of a minimum or maximum, and the result after each record.

    Raises:
        NoKernelError: The values are neither integers nor texts, some are left out, or their range
            is too wide.
    """
    import pyarrow as pa
    import pyarrow.types as at

    if taken.groups.rows is not None or not len(taken.groups):
        raise NoKernelError
    column = taken.columns[0]
    if not at.is_string(column.type):
        return _running_extreme(taken, integers(column), old)
    # Texts are compared by their places among all texts in order.
    kept = pa.array([text for text in old if text is not None], column.type)
    numbers, texts = ordered(pa.concat_arrays([column, kept]))
    places = iter(numbers[len(column) :].tolist())
    before = [None if text is None else next(places) for text in old]
    best, found = _running_extreme(taken, numbers[: len(column)], before)
    return texts(best).to_pylist(), texts(found)


def _running_extreme(taken: Taken, values: Any, old: Sequence[Any]) -> tuple[list[int], Any]:
    import numpy as np

    from penstock.aggregates.folds import Min

    groups, sign = taken.groups, 1 if isinstance(taken.fold, Min) else -1
    # The accumulator is merged into the first value of its group.
    heads = values[groups.firsts].tolist()
    heads = list(map(taken.fold.merge, old, heads))
    low, high = min(*heads, int(values.min())), max(*heads, int(values.max()))
    width = high - low + 1
    if width * groups.count >= MOST >> 1 or max(abs(low), abs(high)) >= MOST >> 1:
        raise NoKernelError
    values = values.copy()
    values[groups.firsts] = heads
    order = groups.order
    codes = groups.codes[order]
    # All values of a group are below those of earlier groups: the minimum restarts.
    least = np.minimum.accumulate(
        (values[order] - (low if sign == 1 else high)) * sign - codes * width
    )
    found = np.empty(len(values), np.int64)
    found[order] = (least + codes * width) * sign + (low if sign == 1 else high)
    return found[groups.lasts].tolist(), found


_RUNNING: Final[dict[str, Callable[[Taken, Sequence[Any]], tuple[list[Any], Any]]]] = {
    "count": _running_count,
    "sum": _running_sum,
    "mean": _running_mean,
    "min": running_extreme,
    "max": running_extreme,
}
