"""Rows of a batch that replace rows of their key, computed by columns.

Deduplication and top-N keep a few rows of each key.  A row that arrives replaces one of them if it
is better by their order, and then both rows are emitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.columns.change_pairs import change_pairs, differing
from penstock.columns.groups import Groups, numbered
from penstock.taskexecutor.operators.relational.batches import arrow_schema
from penstock.taskexecutor.operators.relational.key_texts import are_groupable, key_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.columns.array_types import Integers
    from penstock.columns.first_rows import Replaced
    from penstock.columns.order_ranks import Rows
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.expiring_rows import KeyedRows


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
        removal: int | None,
        addition: int,
        has_kinds: bool,
    ) -> None:
        """Create the object; see `are_groupable`.

        Args:
            context: The operator's context.
            schema: The columns of the input and of the output.
            keys: Positions of the columns of the key.
            removal: The row kind of a row that was replaced; None if such rows are not emitted.
            addition: The row kind of the row that replaced it.
            has_kinds: Whether batches of the output have row kinds.
        """
        self._keys = keys
        self._schema = arrow_schema(schema, has_kinds=has_kinds)
        self._removal = removal
        self._addition = addition
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
        keys = batch.select(list(self._keys)).take(pa.array(groups.firsts))
        texts = key_texts(keys, range(keys.num_columns))
        return GroupedBatch(batch, groups, texts, list(map(state.get, texts)))

    def changes(
        self,
        batch: pa.RecordBatch,
        replaced: Replaced,
        old: Callable[[Integers], Rows],
        *,
        emits_equal: bool,
    ) -> pa.RecordBatch | None:
        """Return the batch of the changes; None without any.

        Args:
            batch: The batch.
            replaced: Its rows that replace others.
            old: Returns the rows in state at some positions.
            emits_equal: Whether a row is emitted that equals the row that it replaces.
        """
        self.batches += 1
        rows, before = replaced
        is_insert = before < 0
        is_old = before >= batch.num_rows
        columns = batch.columns
        if is_old.any() and not (self._removal is None and emits_equal):
            # The rows of state stand behind those of the batch.
            found = old(before[is_old] - batch.num_rows)
            before = before.copy()
            before[is_old] = batch.num_rows + np.arange(np.count_nonzero(is_old))
            columns = [
                pa.concat_arrays([column, found.column(index)])
                for index, column in enumerate(columns)
            ]
        is_update = ~is_insert
        if not emits_equal:
            is_update &= differing(columns, rows, np.where(is_insert, rows, before))
        _, places, kinds = change_pairs(
            rows, before, is_insert, is_update, removal=self._removal, addition=self._addition
        )
        if not len(places):
            return None
        taken = pa.array(places)
        arrays = [column.take(taken) for column in columns]
        if self._has_kinds:
            arrays.append(pa.array(kinds))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
