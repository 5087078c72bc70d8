"""Changes of a source on their way to a table that only keeps the last row of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.columns.change_pairs import differing
from penstock.formats.numpy_values import numpy_values
from penstock.table.plan.nodes import UPDATE_AFTER, UPDATE_BEFORE
from penstock.taskexecutor.operators.relational.base import RelationalOperator

if TYPE_CHECKING:
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class DropUpdateBeforeOperator(RelationalOperator):
    """Drops the old row of an update before the new row of its key, which replaces it.

    The old row of another key stays: the table deletes it.
    """

    def __init__(self, context: OperatorContext, keys: tuple[int, ...]) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            keys: Positions of the columns of the key.
        """
        super().__init__(context)
        self.keys = keys

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        kinds = numpy_values(batch.column(batch.num_columns - 1))
        old = np.flatnonzero((kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER))
        has_moved = differing([batch.column(key) for key in self.keys], old + 1, old)
        kept = np.ones(len(kinds), bool)
        kept[old[~has_moved]] = False
        self.emit(batch.filter(pa.array(kept)))
