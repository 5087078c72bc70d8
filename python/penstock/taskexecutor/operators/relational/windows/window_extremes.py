"""Rows that may be the least or greatest of their window, in front of a join with these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.columns.group_kernels import best
from penstock.columns.groups import Groups, numbered
from penstock.columns.record_batches import LEAST_ROWS
from penstock.formats.numpy_values import numpy_values
from penstock.taskexecutor.operators.relational.base import RelationalOperator

if TYPE_CHECKING:
    from penstock.columns.array_types import Booleans
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: After this many rows the comparison is switched off if too many remain.
_TRIED_ROWS: Final = 100_000

#: Rows that remain of a row above which comparing does not pay.
_MOST_KEPT: Final = 0.8


class WindowExtremesOperator(RelationalOperator):
    """Drops rows of which the batch has a better one of the same group.

    It switches itself off if more than 0.8 of the rows remain after 100,000 rows.

    Attributes:
        rows_dropped: The number of rows that were dropped, for a metric.
        is_off: Whether it has switched itself off.
    """

    def __init__(
        self, context: OperatorContext, keys: tuple[int, ...], value: int, is_max: bool
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            keys: The positions of the columns that make a group.
            value: The position of the compared column, of integers.
            is_max: Whether greater values are better.
        """
        super().__init__(context)
        self.keys = keys
        self.value = value
        self.is_max = is_max
        self.seen_rows = 0
        self.rows_dropped = 0
        self.is_off = False
        context.metric_group().gauge("numRowsNotExtreme", lambda: self.rows_dropped)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        if self.is_off or batch.num_rows < LEAST_ROWS:
            self.emit(batch)
            return
        # No value equals NULL.
        column = batch.column(self.value)
        kept = batch.filter(column.is_valid()) if column.null_count else batch
        if kept.num_rows:
            kept = kept.filter(pa.array(self._best(kept)))
        self.seen_rows += batch.num_rows
        self.rows_dropped += batch.num_rows - kept.num_rows
        if self.seen_rows >= _TRIED_ROWS:
            self.is_off = self.seen_rows - self.rows_dropped > _MOST_KEPT * self.seen_rows
        self.emit(kept)

    def _best(self, batch: pa.RecordBatch) -> Booleans:
        """Return which rows are the best of their group."""
        values = numpy_values(batch.column(self.value).cast(pa.int64()))
        groups: Groups = numbered([batch.column(key) for key in self.keys])
        found: Booleans = values == best(groups, values, is_least=not self.is_max)[groups.codes]
        return found
