"""Partial aggregates of the groups of a batch, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.columns.group_kernels import (
    NoKernelError,
    best,
    best_rows,
    integer_sums,
    integers,
    ordered,
)
from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.columns.taken import Taken


def partial_columns(aggregates: Sequence[tuple[str, Taken]]) -> list[Any] | None:
    """Return the columns of the accumulators, a row for each group.

    A group without values has nulls, but 0 for a count and a mean.

    Args:
        aggregates: The result of `GroupedFolds.taken`.

    Returns:
        None if no kernel computes one of them exactly.
    """
    found: list[Any] = []
    try:
        for name, taken in aggregates:
            found += _PARTIALS[name](taken)
    except NoKernelError:
        return None
    return found


def _count(taken: Taken) -> list[Any]:
    import pyarrow as pa

    return [pa.array(taken.groups.sizes)]


def _sum(taken: Taken) -> list[Any]:
    import pyarrow as pa

    groups = taken.groups
    sums = integer_sums(groups, integers(taken.columns[0]))
    return [pa.array(sums, mask=None if groups.rows is None else groups.sizes == 0)]


def _mean(taken: Taken) -> list[Any]:
    import pyarrow as pa

    sums = integer_sums(taken.groups, integers(taken.columns[0]))
    return [pa.array(sums), pa.array(taken.groups.sizes)]


def _extreme(taken: Taken) -> list[Any]:
    import pyarrow as pa

    from penstock.aggregates.folds import Min

    groups = taken.groups
    if not len(groups):
        return _nulls(taken)
    numbers, values_of = ordered(taken.columns[0])
    found = values_of(best(groups, numbers, is_least=isinstance(taken.fold, Min)))
    if groups.rows is None:
        return [found]
    import pyarrow.compute as pc

    return [pc.if_else(pa.array(groups.sizes > 0), found, pa.scalar(None, found.type))]


def _extreme_by(taken: Taken) -> list[Any]:
    groups, (_, by) = taken.groups, taken.columns
    if not len(groups):
        return _nulls(taken)
    return _of_rows(taken, numpy_values(best_rows(taken.fold, groups, by)))


def _first(taken: Taken) -> list[Any]:
    return _of_rows(taken, taken.groups.firsts)


def _last(taken: Taken) -> list[Any]:
    return _of_rows(taken, taken.groups.lasts)


def _of_rows(taken: Taken, rows: Any) -> list[Any]:
    """Return the values of one record of each group."""
    import pyarrow as pa

    places = pa.array(rows, mask=None if taken.groups.rows is None else taken.groups.sizes == 0)
    return [column.take(places) for column in taken.columns]


def _nulls(taken: Taken) -> list[Any]:
    import pyarrow as pa

    return [pa.nulls(taken.groups.count, column.type) for column in taken.columns]


_PARTIALS: Final[dict[str, Callable[[Taken], list[Any]]]] = {
    "count": _count,
    "sum": _sum,
    "mean": _mean,
    "min": _extreme,
    "max": _extreme,
    "min_by": _extreme_by,
    "max_by": _extreme_by,
    "first": _first,
    "last": _last,
}
