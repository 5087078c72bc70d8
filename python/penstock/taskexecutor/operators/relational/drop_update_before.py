"""Changes of a source on their way to a table that only keeps the last row of each key."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.plan.nodes import UPDATE_BEFORE
from penstock.taskexecutor.operators.relational.base import RelationalOperator

_OLD = pa.scalar(UPDATE_BEFORE, pa.int8())


class DropUpdateBeforeOperator(RelationalOperator):
    """Drops the old rows of updates: the new rows replace them in the table."""

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        self.emit(batch.filter(pc.not_equal(batch.column(batch.num_columns - 1), _OLD)))
