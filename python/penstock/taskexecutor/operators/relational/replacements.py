"""Rows of a batch that replace rows of their key, computed by columns.

Deduplication and top-N keep a few rows of each key.  A row that arrives replaces one of them if it
is better by their order, and then both rows are emitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.group_kernels import MOST, NoKernelError
from penstock.columns.groups import Groups, numbered
from penstock.taskexecutor.operators.relational.batches import (
    arrow_schema,
    column_of_values,
    rows_of,
)
from penstock.taskexecutor.operators.relational.change_pairs import change_pairs, differing
from penstock.taskexecutor.operators.relational.key_texts import are_groupable, key_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.table.plan.expressions import OrderItem
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.operators.relational.expiring_rows import KeyedRows
    from penstock.taskexecutor.task.operator_context import OperatorContext

_Row = tuple[Any, ...]

#: Smaller batches are processed row by row, which costs less than the calls of kernels.
LEAST_ROWS: Final = 32

#: The cube of the number of rows fits into 64 bits.
MOST_RANKED: Final = 1 << 20

_ORDERED: Final[tuple[Callable[[Any], bool], ...]] = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_decimal,
)


class GroupedBatch(NamedTuple):
    """A batch and what state has of its keys.

    Attributes:
        batch: The rows.
        groups: The rows by key.
        texts: By group, its key in state.
        kept: By group, its value in state; None without one.
    """

    batch: pa.RecordBatch
    groups: Groups
    texts: list[str]
    kept: list[Any]


class Replaced(NamedTuple):
    """Rows that replace others, as numpy arrays.

    Attributes:
        rows: The positions of the rows in the batch, ascending.
        before: For each, the position of the row that it replaces; rows in state stand behind those
            of the batch.
    """

    rows: Any
    before: Any

    def latest(self, grouped: GroupedBatch, width: int) -> Iterator[tuple[int, int, _Row]]:
        """Yield each group that changes with the position and the values of its last new row.

        Args:
            grouped: The batch.
            width: The number of its columns beside row kinds.
        """
        found = np.full(grouped.groups.count, -1, np.int64)
        found[grouped.groups.codes[self.rows]] = self.rows
        groups = np.flatnonzero(found >= 0)
        places = found[groups]
        rows = rows_of(grouped.batch.take(pa.array(places)), width)
        yield from zip(groups.tolist(), places.tolist(), rows, strict=True)


class Replacements:
    """Finds the rows that replace others and makes the batches of the changes.

    Attributes:
        batches: The batches that were computed by columns, for a metric.
    """

    def __init__(
        self,
        context: OperatorContext,
        schema: Schema,
        keys: Sequence[int],
        *,
        removal: int,
        addition: int,
        has_kinds: bool,
    ) -> None:
        """Create the object; see `are_groupable`.

        Args:
            context: The operator's context.
            schema: The columns of the input and of the output.
            keys: Positions of the columns of the key.
            removal: The row kind of a row that was replaced.
            addition: The row kind of the row that replaced it.
            has_kinds: Whether batches of the output have row kinds.
        """
        self._keys = keys
        self._types = schema.types
        self._schema = arrow_schema(schema, has_kinds=has_kinds)
        self._kinds = {"removal": removal, "addition": addition}
        self._has_kinds = has_kinds
        self.batches = 0
        context.metric_group().gauge("numBatchesInColumns", lambda: self.batches)

    @staticmethod
    def fits(schema: Schema, keys: Sequence[int]) -> bool:
        """Return whether kernels group these columns as keyed state does, and compare them."""
        fields = arrow_schema(schema, has_kinds=False)
        return are_groupable([fields.field(key).type for key in keys]) and not any(
            pa.types.is_nested(field.type) for field in fields
        )

    def grouped(self, batch: pa.RecordBatch, state: KeyedRows) -> GroupedBatch:
        """Return a batch by its keys, each of which is read once from state."""
        groups = numbered([batch.column(key) for key in self._keys])
        texts = key_texts(batch.take(pa.array(groups.firsts)), self._keys)
        return GroupedBatch(batch, groups, texts, [state.get(text) for text in texts])

    def changes(
        self,
        grouped: GroupedBatch,
        replaced: Replaced,
        old: Sequence[_Row | None],
        *,
        emits_equal: bool,
    ) -> Any:
        """Return the batch of the changes; None without any.

        Args:
            grouped: The batch.
            replaced: Its rows that replace others.
            old: The rows in state that may be replaced; None stands for no row.
            emits_equal: Whether a row is emitted that equals the row that it replaces.
        """
        self.batches += 1
        batch = grouped.batch
        rows, before = replaced
        is_old = before >= batch.num_rows
        is_insert = np.zeros(len(rows), bool)
        found = before[is_old] - batch.num_rows
        is_insert[is_old] = [old[group] is None for group in found.tolist()]
        taken_back = found[~is_insert[is_old]]
        values = zip(*(old[group] for group in taken_back.tolist()), strict=True)
        # The rows of state stand behind those of the batch.
        before = before.copy()
        before[is_old & ~is_insert] = batch.num_rows + np.arange(len(taken_back))
        columns = [
            pa.concat_arrays([column, column_of_values(next(values), kind, column.type)])
            if len(taken_back)
            else column
            for column, kind in zip(batch.columns, self._types, strict=False)
        ]
        is_update = ~is_insert
        if not emits_equal:
            is_update &= differing(columns, rows, np.where(is_insert, rows, before))
        _, places, kinds = change_pairs(rows, before, is_insert, is_update, **self._kinds)
        if not len(places):
            return None
        taken = pa.array(places)
        arrays = [column.take(taken) for column in columns]
        if self._has_kinds:
            arrays.append(pa.array(kinds))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def replaced_by_rank(
    groups: Groups, ranks: Any, old_ranks: Any, *, replaces_equal: bool
) -> Replaced:
    """Return the rows whose rank is below that of all earlier rows of their group.

    The row in state of each group stands behind the rows of the batch.

    Args:
        groups: The rows of the batch by group.
        ranks: By row, its rank, as a numpy array of integers; the least is the best.
        old_ranks: By group, the rank of the row in state; None without one.
        replaces_equal: Whether a row replaces one of equal rank.

    Raises:
        NoKernelError: The ranks spread too far.
    """
    known = [int(ranks.min()), int(ranks.max()), *(each for each in old_ranks if each is not None)]
    least, worst = min(known), max(known) + 1
    width = worst - least + 1
    count = groups.count
    if width * count >= MOST >> 1 or max(abs(least), abs(worst)) >= MOST >> 1:
        raise NoKernelError
    old = np.array([worst if each is None else each for each in old_ranks], np.int64)
    # In front of the rows of each group stands the row in state, or one that is worse than all.
    codes = np.concatenate((np.arange(count), groups.codes))
    order = Groups(codes, count).order
    # All values of a group are below those of earlier groups: the minimum restarts.
    values = (np.concatenate((old, ranks)) - least - codes * width)[order]
    best = np.minimum.accumulate(values)[:-1]
    is_better = values[1:] <= best if replaces_equal else values[1:] < best
    places = order[np.concatenate(([True], is_better))]
    before, after = places[:-1], places[1:]
    is_of_batch = after >= count
    before, after = before[is_of_batch], after[is_of_batch] - count
    before = np.where(before < count, before + len(groups), before - count)
    by_row = np.argsort(after)
    return Replaced(after[by_row], before[by_row])


def can_rank(schema: Schema, order: Sequence[OrderItem]) -> bool:
    """Return whether kernels order the columns of an order as Python orders their values."""
    fields = arrow_schema(schema, has_kinds=False)
    kinds = [fields.field(item.expression.index).type for item in order]  # type: ignore[attr-defined]
    return all(
        any(is_kind(kind) for is_kind in _ORDERED)
        or (pa.types.is_timestamp(kind) and kind.unit != "ns")
        for kind in kinds
    )


def order_ranks(
    grouped: GroupedBatch,
    schema: Schema,
    order: Sequence[OrderItem],
    known: Sequence[tuple[int, _Row]],
) -> tuple[Any, list[int]]:
    """Return the rank of each row by an order, which is comparable within its group.

    Args:
        grouped: The batch.
        schema: Its columns.
        order: The order; see `can_rank`.
        known: Rows in state, each with the number of its group.

    Returns:
        The ranks of the rows of the batch, as a numpy array, and of those in state.

    Raises:
        NoKernelError: There are too many rows.
    """
    batch, groups = grouped.batch, grouped.groups
    codes = np.concatenate((groups.codes, np.array([group for group, _ in known], np.int64)))
    if len(codes) > MOST_RANKED:
        raise NoKernelError
    ranks, tied = _dense(codes, np.zeros(len(codes), np.int64))
    for item in order:
        # Columns are compared only where those before them are equal.
        if not len(tied):
            break
        index = item.expression.index  # type: ignore[attr-defined]
        column = batch.column(index)
        kept = column_of_values([row[index] for _, row in known], schema.types[index], column.type)
        ranks *= len(codes) + 2
        ranks[tied] += _ranks(pa.concat_arrays([column, kept]).take(pa.array(tied)), item)
        ranks, tied = _dense(codes, ranks)
    return ranks[: len(groups)], ranks[len(groups) :].tolist()


def _ranks(column: Any, item: OrderItem) -> Any:
    """Return the rank of each value of a column, from 0 to the number of values plus one."""
    order = "descending" if item.descending else "ascending"
    found = pc.rank(column, order, tiebreaker="dense").to_numpy().astype(np.int64)
    if column.null_count:
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        found[is_null] = 0 if item.nulls_first else len(column) + 1
    return found


def _dense(codes: Any, ranks: Any) -> tuple[Any, Any]:
    """Return small ranks of rows in the same order, and the positions of equal ones in a group."""
    _, found, counts = np.unique(
        codes * (int(ranks.max()) + 1) + ranks, return_inverse=True, return_counts=True
    )
    return found, np.flatnonzero(counts[found] > 1)
