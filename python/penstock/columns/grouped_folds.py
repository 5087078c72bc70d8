"""The aggregates of `penstock.aggregates` over the groups of a batch.

A fold takes the accumulators that the groups had before the batch, as Python values or as the
matrix of an `IntegerFold`, and returns those after it in the same form; ``running`` also returns
the result after each record.  Both equal the results of `Fold.add` for one record at a time,
including rounding.  If no kernel is as exact, the values are folded one by one, but without
creating records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.aggregates.folds import CountDistinct
from penstock.columns.group_kernels import NoKernelError, best, best_rows, floats, ordered
from penstock.columns.integer_folds import INTEGER_FOLDS, running_extremes
from penstock.columns.taken import Taken
from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from penstock.aggregates.folds import Fold
    from penstock.aggregates.named import Call
    from penstock.columns.array_types import Integers
    from penstock.columns.groups import Groups
    from penstock.columns.integer_folds import IntegerFold

    #: The accumulators of groups: the matrix of an `IntegerFold`, or a list of Python values.
    Accumulators: TypeAlias = Integers | list[Any]


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

    def by_aggregate(self, kept: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
        """Return the accumulators of each aggregate, given those of each group."""
        # `zip` would take each tuple as an argument.
        return [[each[at] for each in kept] for at in range(len(self._calls))]

    def totals(
        self, groups: Groups, columns: Sequence[Any], kept: Sequence[Accumulators]
    ) -> list[Accumulators]:
        """Return the accumulators of the groups with the records of a batch.

        Args:
            groups: The groups of all records.
            columns: The arguments of aggregates, for all records.
            kept: By aggregate, the accumulators of the groups.

        Returns:
            By aggregate, accumulators in the same form.

        Raises:
            NoKernelError: An accumulator does not fit into the matrix of an `IntegerFold`.
        """
        aggregates = self.taken(groups, columns)
        return [_total(*each, old) for each, old in zip(aggregates, kept, strict=True)]

    def running(
        self, groups: Groups, columns: Sequence[Any], kept: Sequence[Accumulators]
    ) -> tuple[list[Accumulators], list[Any]]:
        """Return the accumulators as `totals`, and the column of each result after each record."""
        aggregates = self.taken(groups, columns)
        pairs = [_after_each(*each, old) for each, old in zip(aggregates, kept, strict=True)]
        return [new for new, _ in pairs], [column for _, column in pairs]

    def results(self, kept: Sequence[Accumulators]) -> list[Any]:
        """Return the column of each result, given the accumulators of some groups by aggregate."""
        found = []
        for call, fold, each in zip(self._calls, self._folds, kept, strict=True):
            if isinstance(each, list):
                found.append(fold.results(each))
                continue
            kernels = INTEGER_FOLDS[call.function]
            try:
                found.append(kernels.results(each))
            except NoKernelError:
                found.append(fold.results(kernels.written(each)))
        return found

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


def _total(name: str, taken: Taken, old: Accumulators) -> Accumulators:
    """Return the accumulators of an aggregate with the records of a batch."""
    if isinstance(old, list):
        return _listed_total(name, taken, old)
    kernels = INTEGER_FOLDS[name]
    try:
        return kernels.totals(taken, old)
    except NoKernelError:
        return kernels.read(_listed_total(name, taken, kernels.written(old)))


def _integer_kernels(name: str, taken: Taken) -> IntegerFold | None:
    """Return the kernels that fold the values of a batch; None for other values."""
    kernels = INTEGER_FOLDS.get(name)
    return kernels if kernels is not None and kernels.takes(taken.columns) else None


def _listed_total(name: str, taken: Taken, old: list[Any]) -> list[Any]:
    kernels = _integer_kernels(name, taken)
    try:
        if kernels is not None:
            return kernels.written(kernels.totals(taken, kernels.read(old)))
        return _TOTALS.get(name, _one_by_one)(taken, old)
    except NoKernelError:
        return _one_by_one(taken, old)


def _after_each(name: str, taken: Taken, old: Accumulators) -> tuple[Accumulators, Any]:
    """Return the accumulators of an aggregate, and its result after each record."""
    if isinstance(old, list):
        return _listed_after_each(name, taken, old)
    kernels = INTEGER_FOLDS[name]
    try:
        return kernels.running(taken, old)
    except NoKernelError:
        new, column = _listed_after_each(name, taken, kernels.written(old))
        return kernels.read(new), column


def _listed_after_each(name: str, taken: Taken, old: list[Any]) -> tuple[list[Any], Any]:
    kernels = _integer_kernels(name, taken)
    try:
        if kernels is not None:
            new, column = kernels.running(taken, kernels.read(old))
            return kernels.written(new), column
        if name in ("min", "max"):
            return _running_extreme_text(taken, old)
    except NoKernelError:
        pass
    return _each(taken, old)


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
    # -0.0 is the neutral element of float addition.
    start = np.array([-0.0 if kept is None else kept for kept in old], np.float64)
    return _of_groups(groups, old, _float_sums(groups, start, floats(column)))


def _mean(taken: Taken, old: Sequence[Any]) -> list[Any]:
    import numpy as np

    groups = taken.groups
    start = np.array([kept[0] for kept in old], np.float64)
    totals = _float_sums(groups, start, floats(taken.columns[0]))
    sizes = groups.sizes.tolist()
    return [
        (total, kept[1] + size) if size else kept
        for total, kept, size in zip(totals, old, sizes, strict=True)
    ]


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
}


# ---- running results -----------------------------------------------------------------------------


def _running_extreme_text(taken: Taken, old: Sequence[Any]) -> tuple[list[Any], Any]:
    """Return the new accumulators of a minimum or maximum, and the result after each record.

    Raises:
        NoKernelError: The values are no texts, or some are left out.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.types as at

    from penstock.aggregates.folds import Min

    groups, column = taken.groups, taken.columns[0]
    if groups.rows is not None or not len(groups) or not at.is_string(column.type):
        raise NoKernelError
    # Texts are compared by their places among all texts in order.
    known = np.array([text is not None for text in old])
    kept = pa.array([text for text in old if text is not None], column.type)
    numbers, texts = ordered(pa.concat_arrays([column, kept]))
    before = np.zeros((2, len(old)), np.int64)
    before[0, known] = numbers[len(column) :]
    before[1] = known
    is_least = isinstance(taken.fold, Min)
    found = running_extremes(groups, numbers[: len(column)], before, is_least=is_least)
    return texts(found[groups.lasts]).to_pylist(), texts(found)
