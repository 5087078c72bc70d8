"""The aggregate functions of an operator over the rows of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.arrow_types import python_values
from penstock.table.functions.accumulator_choice import accumulator
from penstock.table.functions.aggregates import is_mergeable
from penstock.taskexecutor.operators.relational.batches import values_of
from penstock.taskexecutor.operators.relational.python_calls import PythonCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.table.plan.expressions import AggregateCall
    from penstock.taskexecutor.task.operator_context import OperatorContext


class AggregateCalls:
    """The aggregates of an operator over the rows of batches."""

    def __init__(
        self, context: OperatorContext, calls: tuple[AggregateCall, ...], *, may_retract: bool
    ) -> None:
        """Create the accumulators' functions."""
        self.accumulators = [accumulator(call, may_retract=may_retract) for call in calls]
        self._changes = [(a.retract, a.add) for a in self.accumulators]
        self._merges = [a.merge for a in self.accumulators]
        self._results = [a.result for a in self.accumulators]
        self.calls = calls
        #: The accumulators of no rows, to which those of partial groups are merged.
        self.empty = self.create() if all(map(is_mergeable, calls)) else []
        self.functions = PythonCalls(context)
        for call in calls:
            if not isinstance(call.function, str):
                self.functions.register_function(call.function)

    def create(self) -> list[Any]:
        """Return the accumulators of no rows."""
        return [a.create() for a in self.accumulators]

    def arguments(self, batch: pa.RecordBatch) -> list[list[Any]]:
        """Return, for each call, its arguments for each row; None where the row is left out."""
        return [self.arguments_of(batch, place) for place in range(len(self.calls))]

    def arguments_of(self, batch: pa.RecordBatch, place: int) -> list[Any]:
        """Return the arguments of one call for each row; None where the row is left out."""
        call = self.calls[place]
        columns = [argument_values(batch, argument, call) for argument in call.arguments]
        rows: list[Any] = list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows
        if self.accumulators[place].skips_null and columns:
            rows = [None if None in row else row for row in rows]
        if call.condition is not None:
            mask = batch.column(call.condition.index).to_pylist()  # type: ignore[attr-defined]
            rows = [row if keep else None for row, keep in zip(rows, mask, strict=True)]
        return rows

    def change(
        self, values: list[Any], arguments: list[list[Any]], row: int, *, is_added: bool
    ) -> None:
        """Add a row to accumulators or take it out."""
        for position, changes in enumerate(self._changes):
            given = arguments[position][row]
            if given is not None:
                values[position] = changes[is_added](values[position], *given)

    def merge(self, values: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        """Return the accumulators of the rows of both."""
        return [
            merge(one, other)
            for merge, one, other in zip(self._merges, values, others, strict=True)
        ]

    def results(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results."""
        return tuple([result(v) for result, v in zip(self._results, values, strict=True)])


def argument_values(batch: pa.RecordBatch, argument: Any, call: Any) -> list[Any]:
    """Return the values of an argument; user functions get rows with names of their fields."""
    column = batch.column(argument.index)
    if isinstance(call.function, str):
        return values_of(column)
    return python_values(column, argument.type, named_rows=True)
