"""Inner joins of two sides that only grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.groups import Groups, numbered
from penstock.columns.record_batches import LEAST_ROWS, selected_rows, values_of
from penstock.formats.numpy_values import numpy_values
from penstock.taskexecutor.operators.relational.joins.partner_rows import MOST_PLACED
from penstock.taskexecutor.operators.relational.key_texts import are_groupable, key_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.columns.array_types import Integers
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.joins.join_pairs import PlacedRows
    from penstock.taskexecutor.operators.relational.joins.partner_rows import NumberedRows

_Row = tuple[Any, ...]
N = TypeVar("N")
R_co = TypeVar("R_co", covariant=True)


class Partners(Protocol):
    """The rows of one side that have the keys of a batch.

    Attributes:
        counts: The number of rows of each key, as a numpy array.
    """

    counts: Any

    def of(self, codes: Integers, sizes: Integers) -> PlacedRows | NumberedRows:
        """Return the partners of some rows, one after the other.

        Args:
            codes: By row, the position of its key.
            sizes: By row, the number of its partners.
        """


class Sides(Protocol[N]):
    """The rows of both sides by key."""

    def named(self, side: int, batch: pa.RecordBatch) -> tuple[Groups, N]:
        """Return the groups of a side's batch by key, and the names of their distinct keys."""

    def partners(self, side: int, names: N) -> Partners:
        """Return the rows of a side that have some keys, given their names."""

    def keep(self, side: int, batch: pa.RecordBatch, groups: Groups, names: N) -> None:
        """Add the rows of a batch, given its groups by key and the name of each group's key."""


class ResultsOfPairs(Protocol[R_co]):
    """Makes the results of pairs."""

    def placed(
        self, side: int, batch: pa.RecordBatch, positions: Integers, others: Any
    ) -> Iterator[R_co]:
        """Yield the results of some pairs, in order; see `JoinPairs`."""


class InnerJoin:
    """Looks up each key of a batch once, and finds the pairs of its rows by numbers.

    Attributes:
        batches: The batches that were grouped by key, for a metric.
    """

    def __init__(
        self,
        context: OperatorContext,
        pairs: ResultsOfPairs[Any],
        sides: Sides[Any],
        keys: tuple[tuple[int, ...], tuple[int, ...]],
        *,
        equates_nulls: bool,
    ) -> None:
        """Create the join; see `JoinOperator`.

        Args:
            context: The operator's context.
            pairs: Makes the results of pairs.
            sides: The rows of both sides.
            keys: By side, the positions of the columns of the key.
            equates_nulls: Whether NULL equals NULL.
        """
        self._pairs = pairs
        self._sides = sides
        self._keys = keys
        self._equates_nulls = equates_nulls
        self.batches = 0
        context.metric_group().gauge("numBatchesByKey", lambda: self.batches)

    def joined(self, side: int, batch: pa.RecordBatch) -> Iterator[Any]:
        """Keep the rows of one side, and yield the results of their pairs."""
        if not self._equates_nulls:
            batch = _without_nulls(batch, self._keys[side])
        if not batch.num_rows:
            return
        self.batches += 1
        groups, names = self._sides.named(side, batch)
        self._sides.keep(side, batch, groups, names)
        partners = self._sides.partners(1 - side, names)
        counts = partners.counts
        if not counts.any():
            return
        for codes, rows in _parts(groups.codes, counts):
            sizes = counts[codes]
            others = partners.of(codes, sizes)
            yield from self._pairs.placed(side, batch, np.repeat(rows, sizes), others)


def keys_of(
    batch: pa.RecordBatch, keys: Sequence[int], *, has_texts: bool
) -> tuple[Groups, list[object]]:
    """Return the groups of a batch by key, and the key of each group.

    Args:
        batch: The rows.
        keys: Positions of the columns of the key.
        has_texts: Whether keys are texts, for columns of any type.  Else a key is the value of a
            single column, the bytes of several integers, or a tuple of values.
    """
    columns = [batch.column(key) for key in keys]
    if batch.num_rows >= LEAST_ROWS and are_groupable([column.type for column in columns]):
        groups = numbered(columns)
        firsts = batch.select(list(keys)).take(pa.array(groups.firsts))
        return groups, _keys(firsts, range(len(keys)), has_texts=has_texts)
    numbers: dict[object, int] = {}
    found = _keys(batch, keys, has_texts=has_texts)
    codes = [numbers.setdefault(key, len(numbers)) for key in found]
    return Groups(np.array(codes, np.int64), len(numbers)), list(numbers)


def _keys(batch: pa.RecordBatch, keys: Sequence[int], *, has_texts: bool) -> list[Any]:
    if has_texts:
        return key_texts(batch, keys)
    if len(keys) == 1:
        return values_of(batch.column(keys[0]))
    columns = [batch.column(key) for key in keys]
    if all(pa.types.is_signed_integer(column.type) for column in columns):
        integers = packed(columns)
        found: list[bytes] = integers.view(f"V{integers.strides[0]}").ravel().tolist()
        return found
    return selected_rows(batch, keys)


def packed(columns: list[pa.Array]) -> Integers:
    """Return the integers of each row, and one that differs for other places of NULLs."""
    found = np.zeros((len(columns[0]), len(columns) + 1), np.int64)
    for place, column in enumerate(columns):
        found[:, place] = numpy_values(column.cast(pa.int64()).fill_null(0))
        if column.null_count:
            # The last number tells NULL from 0.
            found[:, -1] += numpy_values(column.is_null()).astype(int) << place
    return found


def _without_nulls(batch: pa.RecordBatch, keys: Sequence[int]) -> pa.RecordBatch:
    """Return the rows of which no part of the key is NULL."""
    for key in keys:
        if batch.column(key).null_count:
            batch = batch.filter(pc.is_valid(batch.column(key)))
    return batch


def _parts(codes: Integers, counts: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Yield the groups and the positions of rows that have partners, some rows at a time.

    Args:
        codes: By row, its group.
        counts: By group, the number of its partners.
    """
    rows = np.flatnonzero(counts[codes])
    ends = np.cumsum(counts[codes[rows]])
    bounds = np.searchsorted(ends, np.arange(MOST_PLACED, int(ends[-1]), MOST_PLACED))
    for part in np.split(rows, np.unique(bounds)):
        if len(part):
            yield codes[part], part
