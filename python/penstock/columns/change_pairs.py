"""Positions and row kinds of changes that replace one row of a column by another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.common.row_kind import RowKind
from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.columns.array_types import Booleans, Integers


def change_pairs(
    after: Integers,
    before: Integers,
    is_insert: Booleans,
    is_update: Booleans,
    *,
    removal: int | None,
    addition: int,
) -> tuple[Integers, Integers, Integers]:
    """Return the rows that some changes emit, in their order; all arguments are numpy arrays.

    Args:
        after: By change, the position of the new row.
        before: By change, the position of the old row; any number for an insertion.
        is_insert: By change, whether it emits the new row alone.
        is_update: By change, whether it emits the old row and then the new one.
        removal: The row kind of old rows; None to emit none.
        addition: The row kind of the new rows of updates.

    Returns:
        By change, the number of rows; by row, its position and its row kind.
    """
    counts = np.where(is_insert, 1, np.where(is_update, 1 if removal is None else 2, 0))
    ends = np.cumsum(counts)
    places = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    kinds = np.full(len(places), addition, np.int8)
    emitted = counts.nonzero()[0]
    places[ends[emitted] - 1] = after[emitted]
    kinds[ends[is_insert] - 1] = RowKind.INSERT.value
    if removal is None:
        return counts, places, kinds
    updates = (counts == 2).nonzero()[0]
    places[ends[updates] - 2] = before[updates]
    kinds[ends[updates] - 2] = removal
    return counts, places, kinds


def differing(columns: Iterable[pa.Array], ones: Integers, others: Integers) -> Booleans:
    """Return, as a numpy array, whether rows at places of columns differ from those at others."""
    found = np.zeros(len(ones), bool)
    for column in columns:
        if found.all():
            break
        found |= _differing_values(column, ones, others)
    return found


def _differing_values(column: pa.Array, ones: Integers, others: Integers) -> Booleans:
    if pa.types.is_null(column.type):
        return np.zeros(len(ones), bool)
    one, other = column.take(pa.array(ones)), column.take(pa.array(others))
    differ = pc.fill_null(pc.not_equal(one, other), False)
    if column.null_count:
        differ = pc.or_(differ, pc.xor(one.is_null(), other.is_null()))
    return numpy_values(differ)
