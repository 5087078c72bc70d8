"""Projections and filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.table.functions.evaluation import Evaluator, with_numbers
from penstock.table.functions.rows import Rows
from penstock.table.plan.nodes import INSERT, ROW_KIND
from penstock.taskexecutor.operators.relational.base import RelationalOperator
from penstock.taskexecutor.operators.relational.batches import arrow_schema, empty_columns
from penstock.taskexecutor.operators.relational.python_calls import PythonCalls

if TYPE_CHECKING:
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class CalcOperator(RelationalOperator):
    """Computes columns of the rows for which a condition is true."""

    def __init__(
        self,
        context: OperatorContext,
        condition: Expression | None,
        expressions: tuple[Expression, ...] | None,
        schema: Schema,
        session: Session,
        adds_kinds: bool = False,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            condition: The condition; None for all rows.
            expressions: The columns; None for those of the input.
            schema: The columns of the output.
            session: Settings that results depend on.
            adds_kinds: Whether batches get a column of row kinds; the input has none.
        """
        super().__init__(context)
        self.calls = PythonCalls(context)
        if condition is not None:
            condition = with_numbers(condition, session)
        if expressions is not None:
            expressions = tuple(with_numbers(each, session) for each in expressions)
        self.evaluator = Evaluator(expressions or (), session, self.calls.call, condition)
        context.metric_group().gauge("numValuesReused", lambda: self.evaluator.reused)
        self.condition = condition
        self.adds_kinds = adds_kinds
        self.expressions = expressions
        self.schemas = {
            has_kinds: arrow_schema(schema, has_kinds=has_kinds) for has_kinds in (False, True)
        }
        parts = [*(expressions or ()), *(() if condition is None else (condition,))]
        self.calls.register(parts)

    def open(self) -> None:
        """Open the user functions."""
        self.calls.open()

    def close(self) -> None:
        """Close the user functions."""
        self.calls.close()

    def process_watermark(self, timestamp: int) -> None:
        """Emit the input's watermark."""
        self.evaluator.watermark = timestamp
        self.output.emit_watermark(timestamp)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        rows = Rows(batch)
        if self.condition is not None:
            rows = rows.filtered(self.evaluator.condition(self.condition, rows))
            if not rows.num_rows:
                return
        if self.adds_kinds:
            kinds = pa.repeat(pa.scalar(INSERT, pa.int8()), rows.num_rows)
            arrays = [*rows.batch().columns, kinds]
            self.emit(pa.RecordBatch.from_arrays(arrays, schema=self.schemas[True]))
            return
        if self.expressions is None:
            self.emit(rows.batch())
            return
        names = batch.schema.names
        has_kinds = bool(names) and names[-1] == ROW_KIND
        arrays = self.evaluator.evaluate(rows)
        if has_kinds:
            arrays.append(rows.column(batch.num_columns - 1))
        if not arrays:
            self.emit(empty_columns(rows.num_rows))
            return
        self.emit(pa.RecordBatch.from_arrays(arrays, schema=self.schemas[has_kinds]))
