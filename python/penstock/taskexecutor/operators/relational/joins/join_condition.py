"""The part of a join condition that is not an equality of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.functions.evaluation import Evaluator
from penstock.taskexecutor.operators.relational.batches import ChangeBuffer, arrow_schema
from penstock.taskexecutor.operators.relational.python_calls import PythonCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_Row = tuple[Any, ...]


class JoinCondition:
    """Decides which pairs of rows join."""

    def __init__(
        self,
        context: OperatorContext,
        inputs: tuple[Schema, Schema],
        condition: Expression | None,
        session: Session,
    ) -> None:
        """Create the condition for the columns of the left, then the right side."""
        from penstock.table.plan.schema import Schema as Columns

        self.condition = condition
        self.calls = PythonCalls(context)
        if condition is not None:
            self.calls.register([condition])
        self.evaluator = Evaluator((), session, self.calls.call)
        joined = Columns((*inputs[0].fields, *inputs[1].fields))
        self.schema = arrow_schema(joined, has_kinds=False)
        self._joined = joined

    def of_rows(self, pairs: Sequence[tuple[_Row, _Row]]) -> list[bool]:
        """Return whether each pair of a left and a right row fulfils the condition."""
        if self.condition is None or not pairs:
            return [True] * len(pairs)
        buffer = ChangeBuffer(self._joined, has_kinds=False)
        for left, right in pairs:
            buffer.add(0, left + right)
        found: list[bool] = self.evaluator.condition(self.condition, buffer.take()).to_pylist()
        return found

    def mask(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return an array of booleans for a batch of joined rows; None for all."""
        if self.condition is None:
            return None
        return self.evaluator.condition(self.condition, batch)

    def open(self) -> None:
        """Open the user functions."""
        self.calls.open()

    def close(self) -> None:
        """Close the user functions."""
        self.calls.close()


def nulls(width: int) -> _Row:
    """Return the row of a side that has no partner."""
    return (None,) * width
