"""Changes on their way to a table with a key: the last row of each key of the table.

Rows of one key of the table may stem from several keys of the query, whose changes arrive in any
order.  The operator keeps the rows of each key that are not retracted, like Flink's
SinkUpsertMaterializer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.columns.record_batches import rows_of
from penstock.table.functions.row_equality import equal_to
from penstock.table.plan.nodes import ADDED, DELETE, INSERT, UPDATE_AFTER
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import kinds_of
from penstock.taskexecutor.operators.relational.key_texts import key_texts

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class UpsertMaterializeOperator(KeyedRelationalOperator):
    """Emits an insertion, update or deletion when the last row of a key changes."""

    def __init__(self, context: OperatorContext, input: Schema, keys: tuple[int, ...]) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns.
            keys: Positions of the columns of the table's key.
        """
        super().__init__(context, input, input, has_kinds=True, is_updating=True)
        self.keys = keys
        #: By key: the rows that are not retracted, in order of arrival.
        self.rows = context.keyed_state.table("rows", "value").map(None)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        kinds = kinds_of(batch)
        assert kinds is not None
        texts = key_texts(batch, self.keys)
        for text, kind, row in zip(texts, kinds, rows_of(batch, self.width), strict=True):
            if kind in ADDED:
                self._add(text, row)
            else:
                self._take_back(text, row)
        self.flush()

    def _add(self, text: str, row: tuple[object, ...]) -> None:
        rows = self.rows.get(text) or []
        self.changes.add(UPDATE_AFTER if rows else INSERT, row)
        self.rows.put(text, [*rows, row])

    def _take_back(self, text: str, row: tuple[object, ...]) -> None:
        rows = list(self.rows.get(text) or [])
        is_same = equal_to(row)
        for place in range(len(rows) - 1, -1, -1):
            if is_same(rows[place]):
                break
        else:
            return
        was_last = place == len(rows) - 1
        del rows[place]
        if not rows:
            self.rows.remove(text)
            self.changes.add(DELETE, row)
            return
        self.rows.put(text, rows)
        if was_last:
            self.changes.add(UPDATE_AFTER, rows[-1])
