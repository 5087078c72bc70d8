"""Kinds of changes as a column of codes, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.exceptions import TableException
from penstock.table.plan.nodes import INSERT, ROW_KIND
from penstock.taskexecutor.operators.relational.base import RelationalOperator
from penstock.taskexecutor.operators.relational.batches import arrow_schema

if TYPE_CHECKING:
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class ToChangelogOperator(RelationalOperator):
    """Emits each change as an insertion, with its code in the first column."""

    def __init__(
        self, context: OperatorContext, output: Schema, codes: tuple[str | None, ...]
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            output: The code and the columns of the input.
            codes: The code of each row kind; None to drop these changes.
        """
        super().__init__(context)
        self.schema = arrow_schema(output, has_kinds=False)
        self.codes = pa.array(codes, pa.string())

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        width = len(self.schema) - 1
        if batch.num_columns > width and batch.schema.names[-1] == ROW_KIND:
            codes = self.codes.take(batch.column(width))
        else:
            codes = pa.repeat(self.codes[INSERT], batch.num_rows)
        arrays = [codes, *batch.columns[:width]]
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self.emit(made.filter(codes.is_valid()) if codes.null_count else made)


class FromChangelogOperator(RelationalOperator):
    """Emits the changes that a column of codes describes."""

    def __init__(
        self,
        context: OperatorContext,
        output: Schema,
        place: int,
        codes: tuple[tuple[str, int], ...],
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            output: The columns of the input without the codes.
            place: The position of the codes.
            codes: The codes, each with its row kind.
        """
        super().__init__(context)
        self.schema = arrow_schema(output, has_kinds=True)
        self.place = place
        self.codes = pa.array([code for code, _ in codes], pa.string())
        self.kinds = pa.array([kind for _, kind in codes], pa.int8())

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch.

        Raises:
            TableException: A code is NULL or unknown.
        """
        found = batch.column(self.place)
        if found.null_count:
            raise TableException(
                "Received NULL op code. Every changelog row must carry an operation code."
            )
        places = pc.index_in(found, value_set=self.codes)
        if places.null_count:
            wrong = found.filter(places.is_null())[0].as_py()
            known = ", ".join(self.codes.to_pylist())
            raise TableException(
                f"Received invalid op code '{wrong}'. Defined op codes are: [{known}]."
            )
        columns = [column for i, column in enumerate(batch.columns) if i != self.place]
        arrays = [*columns, self.kinds.take(places)]
        self.emit(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
