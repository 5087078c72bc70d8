"""The ranks of rows by an order of columns, with nulls first or last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.group_kernels import MOST, NoKernelError
from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.columns.array_types import Integers, Values

#: The cube of the number of rows fits into 64 bits.
MOST_RANKED: Final = 1 << 20

#: Bound of a group's number combined with a rank.
_MOST_COMBINED: Final = 1 << 61

_ORDERED: Final[tuple[Callable[[Any], bool], ...]] = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_decimal,
)


class OrderColumn(NamedTuple):
    """A column by which rows are ordered.

    Attributes:
        position: The position of the column.
        descending: Whether the largest value comes first.
        nulls_first: Whether nulls come first.
    """

    position: int
    descending: bool
    nulls_first: bool


class Rows(Protocol):
    """Some rows as columns."""

    def column(self, index: int) -> pa.Array:
        """Return a column as an Arrow array."""


def are_ranked(kinds: Iterable[Any]) -> bool:
    """Return whether kernels order columns of some Arrow types as Python orders their values."""
    return all(
        any(is_kind(kind) for is_kind in _ORDERED)
        or (pa.types.is_timestamp(kind) and kind.unit != "ns")
        for kind in kinds
    )


def order_ranks(
    batch: Rows, codes: Integers, known: Rows, order: Sequence[OrderColumn]
) -> Integers:
    """Return the rank of each row by an order, comparable within its group, as a numpy array.

    Args:
        batch: Some rows.
        codes: The number of the group of each row, and behind them of each row in state.
        known: Rows in state.
        order: The order; see `are_ranked`.

    Returns:
        The ranks of the rows of the batch, and behind them of those in state.

    Raises:
        NoKernelError: There are too many rows.
    """
    if len(codes) > MOST_RANKED:
        raise NoKernelError
    count = int(codes.max()) + 1
    ranks: Integers = np.zeros(len(codes), np.int64)
    room = _MOST_COMBINED // count
    width = 1
    left = list(order)
    while left:
        # As many columns of integers as fit into one number are compared at once.
        numbers = _numbers(_column(batch, known, left[0]), left[0], room // width)
        if numbers is None:
            break
        ranks = ranks * numbers[1] + numbers[0]
        width *= numbers[1]
        del left[0]
    for item in left:
        # Columns are compared only where those before them are equal.
        ranks, tied = _dense(codes, ranks, width)
        if not len(tied):
            break
        ranks *= len(codes) + 2
        ranks[tied] += _ranks(_column(batch, known, item).take(pa.array(tied)), item)
        width = (len(codes) + 2) * len(codes)
    return ranks


def sorted_places(codes: Integers, ranks: Integers) -> Integers:
    """Return the positions of rows by group and rank; of equal ones, the first comes first.

    Args:
        codes: The number of the group of each row.
        ranks: The ranks that `order_ranks` computes.
    """
    size = len(codes)
    if (int(ranks.max()) + 1) * (int(codes.max()) + 1) * size >= MOST:
        ranks = np.unique(ranks, return_inverse=True)[1]
    # Sorting numbers with their position costs less than a stable sort of positions.
    width = int(ranks.max()) + 1
    found = (codes * width + ranks) * size + np.arange(size)
    found.sort()
    return found % size


def _column(batch: Rows, known: Rows, item: OrderColumn) -> pa.Array:
    """Return the column of an order, with rows in state behind those of the batch."""
    return pa.concat_arrays([batch.column(item.position), known.column(item.position)])


def _numbers(column: pa.Array, item: OrderColumn, most: int) -> tuple[Values, int] | None:
    """Return integers in the order of a column, from 0, and the number of different ones.

    Returns:
        None if the column has no integers, or they spread over more than ``most`` values.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_decimal(kind) or pa.types.is_unsigned_integer(kind):
        return None
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif not pa.types.is_integer(kind):
        column = column.view(pa.int64())
    is_null = None
    if column.null_count:
        is_null = numpy_values(column.is_null())
        if is_null.all():
            return np.zeros(len(column), np.int64), 1
        column = column.fill_null(column.drop_null()[0])
    values = numpy_values(column).astype(np.int64, copy=False)
    least, worst = int(values.min()), int(values.max())
    width = worst - least + 1
    if width >= most:
        return None
    values = worst - values if item.descending else values - least
    if is_null is None:
        return values, width
    if item.nulls_first:
        values = values + 1
    values[is_null] = 0 if item.nulls_first else width
    return values, width + 1


def _ranks(column: pa.Array, item: OrderColumn) -> Integers:
    """Return the rank of each value of a column, from 0 to the number of values plus one."""
    order = "descending" if item.descending else "ascending"
    found = numpy_values(pc.rank(column, order, tiebreaker="dense")).astype(np.int64)
    if column.null_count:
        is_null = numpy_values(column.is_null())
        found[is_null] = 0 if item.nulls_first else len(column) + 1
    return found


def _dense(codes: Integers, ranks: Integers, width: int) -> tuple[Integers, Integers]:
    """Return small ranks of rows in the same order, and the positions of equal ones in a group.

    Without equal ones, the ranks are returned as they are.
    """
    combined = codes * width + ranks
    ordered = np.sort(combined)
    if not (ordered[1:] == ordered[:-1]).any():
        return ranks, np.empty(0, np.int64)
    _, found, counts = np.unique(combined, return_inverse=True, return_counts=True)
    return found, np.flatnonzero(counts[found] > 1)
