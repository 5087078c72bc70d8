"""Inner joins of two sides from which no row is ever taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.groups import Groups, numbered
from penstock.taskexecutor.operators.relational.batches import rows_of
from penstock.taskexecutor.operators.relational.join_pairs import MOST_PLACED
from penstock.taskexecutor.operators.relational.key_texts import are_groupable, key_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.taskexecutor.operators.relational.expiring_rows import KeyedRows
    from penstock.taskexecutor.operators.relational.join_pairs import JoinPairs
    from penstock.taskexecutor.task.operator_context import OperatorContext

_Row = tuple[Any, ...]

#: For fewer rows, the calls of kernels cost more than they save.
LEAST_ROWS: Final = 32


class InnerJoin:
    """Reads and writes the state of each key of a batch once, and finds its pairs by numbers.

    By key, a side has the list of its rows in order of arrival.

    Attributes:
        batches: The batches that were grouped by key, for a metric.
    """

    def __init__(
        self,
        context: OperatorContext,
        pairs: JoinPairs,
        sides: tuple[KeyedRows, ...],
        keys: tuple[tuple[int, ...], tuple[int, ...]],
        widths: tuple[int, ...],
        *,
        equates_nulls: bool,
    ) -> None:
        """Create the join; see `JoinOperator`.

        Args:
            context: The operator's context.
            pairs: Creates the batches of pairs.
            sides: The state of both sides.
            keys: By side, the positions of the columns of the key.
            widths: By side, the number of columns.
            equates_nulls: Whether NULL equals NULL.
        """
        self._pairs = pairs
        self._sides = sides
        self._keys = keys
        self._widths = widths
        self._equates_nulls = equates_nulls
        self.batches = 0
        context.metric_group().gauge("numBatchesByKey", lambda: self.batches)

    def joined(self, side: int, batch: pa.RecordBatch) -> Iterator[Any]:
        """Keep the rows of one side, and yield the batches of their pairs."""
        if not self._equates_nulls:
            batch = _without_nulls(batch, self._keys[side])
        if not batch.num_rows:
            return
        self.batches += 1
        groups, texts = self._grouped(side, batch)
        self._keep(side, groups, texts, rows_of(batch, self._widths[side]))
        other = self._sides[1 - side]
        found = [plain_rows(other.get(text)) for text in texts]
        counts = np.fromiter(map(len, found), np.int64, len(found))
        if not counts.any():
            return
        for codes, rows in _parts(groups.codes, counts):
            others, starts = _flat(found, np.unique(codes), counts)
            sizes = counts[codes]
            positions = np.repeat(rows, sizes)
            # The number of each pair among those of its row.
            numbers = np.arange(len(positions)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            places = np.repeat(starts[codes], sizes) + numbers
            yield from self._pairs.placed(side, batch, positions, others, places)

    def _grouped(self, side: int, batch: pa.RecordBatch) -> tuple[Groups, list[str]]:
        """Return the groups of a batch by key, and the text of each key."""
        keys = self._keys[side]
        columns = [batch.column(key) for key in keys]
        if batch.num_rows >= LEAST_ROWS and are_groupable([column.type for column in columns]):
            groups = numbered(columns)
            return groups, key_texts(batch.take(pa.array(groups.firsts)), keys)
        numbers: dict[str, int] = {}
        codes = [numbers.setdefault(text, len(numbers)) for text in key_texts(batch, keys)]
        return Groups(np.array(codes, np.int64), len(numbers)), list(numbers)

    def _keep(self, side: int, groups: Groups, texts: list[str], rows: list[_Row]) -> None:
        own = self._sides[side]
        ordered = [rows[place] for place in groups.order.tolist()]
        starts, sizes = groups.starts.tolist(), groups.sizes.tolist()
        for text, start, size in zip(texts, starts, sizes, strict=True):
            found = plain_rows(own.get(text)) or []
            found += ordered[start : start + size]
            own.put(text, found)


def plain_rows(kept: Any) -> list[_Row]:
    """Return the rows of a key; state of another plan has records of rows, see `JoinOperator`."""
    if kept is None:
        return []
    if isinstance(kept, dict):
        return [record[0] for record in kept.values() for _ in range(record[1])]
    rows: list[_Row] = kept
    return rows


def _without_nulls(batch: pa.RecordBatch, keys: Sequence[int]) -> pa.RecordBatch:
    """Return the rows of which no part of the key is NULL."""
    for key in keys:
        if batch.column(key).null_count:
            batch = batch.filter(pc.is_valid(batch.column(key)))
    return batch


def _parts(codes: Any, counts: Any) -> Iterator[tuple[Any, Any]]:
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


def _flat(found: list[list[_Row]], groups: Any, counts: Any) -> tuple[list[_Row], Any]:
    """Return the rows of some groups in one list, and by group the place of its first row."""
    starts = np.zeros(len(found), np.int64)
    starts[groups] = np.cumsum(counts[groups]) - counts[groups]
    return [row for group in groups.tolist() for row in found[group]], starts
