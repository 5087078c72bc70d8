"""Repetition of rows for each grouping set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.table.plan.nodes import ROW_KIND
from penstock.taskexecutor.operators.relational.base import RelationalOperator
from penstock.taskexecutor.operators.relational.batches import arrow_schema

if TYPE_CHECKING:
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class ExpandOperator(RelationalOperator):
    """Emits a batch once for each grouping set, with NULL in the columns outside of the set."""

    def __init__(
        self,
        context: OperatorContext,
        output: Schema,
        sets: tuple[tuple[int, ...], ...],
        keys: tuple[int, ...],
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            output: The columns of the input and the number of the grouping set.
            sets: Positions of the columns that each set keeps.
            keys: Positions of all grouping columns.
        """
        super().__init__(context)
        self.schemas = {
            has_kinds: arrow_schema(output, has_kinds=has_kinds) for has_kinds in (False, True)
        }
        self.width = len(output) - 1
        self.sets = sets
        self.keys = keys

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        names = batch.schema.names
        has_kinds = bool(names) and names[-1] == ROW_KIND
        schema = self.schemas[has_kinds]
        for number, kept in enumerate(self.sets):
            arrays = [
                pa.nulls(batch.num_rows, schema[i].type)
                if i in self.keys and i not in kept
                else batch.column(i)
                for i in range(self.width)
            ]
            arrays.append(pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows))
            if has_kinds:
                arrays.append(batch.column(batch.num_columns - 1))
            self.emit(pa.RecordBatch.from_arrays(arrays, schema=schema))
