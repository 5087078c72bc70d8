"""The aggregate functions of an operator over the rows of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.columns.record_batches import values_of
from penstock.table.functions.accumulator_choice import accumulator, plain_accumulator
from penstock.table.functions.aggregates import is_mergeable
from penstock.table.types.arrow_types import python_values
from penstock.taskexecutor.operators.relational.aggregates.distinct_values import (
    in_present_form,
    noted,
)
from penstock.taskexecutor.operators.relational.python_calls import PythonCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.table.plan.expressions import AggregateCall
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.aggregates.distinct_values import Noted


class AggregateCalls:
    """The aggregates of an operator over the rows of batches.

    Attributes:
        noted: By call, where it notes distinct values outside of its accumulator; None if nowhere.
    """

    noted: list[Noted | None]

    def __init__(
        self,
        context: OperatorContext,
        calls: tuple[AggregateCall, ...],
        *,
        may_retract: bool,
        shares_distinct: bool = False,
    ) -> None:
        """Create the accumulators' functions.

        Args:
            context: The operator's context.
            calls: The aggregates, over columns.
            may_retract: Whether rows may be retracted.
            shares_distinct: Whether calls share their distinct values, which are then not merged.
        """
        made = plain_accumulator if shares_distinct else accumulator
        self.accumulators = [made(call, may_retract=may_retract) for call in calls]
        self.noted = noted(calls) if shares_distinct else [None] * len(calls)
        self._dictionaries = len({place.place for place in self.noted if place is not None})
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
        """Return the accumulators of no rows, and behind them the dictionaries of `noted`."""
        dictionaries: list[Any] = [{} for _ in range(self._dictionaries)]
        return [a.create() for a in self.accumulators] + dictionaries

    def of_state(self, group: tuple[object, ...] | None) -> tuple[Any, ...] | None:
        """Return a group of state, the number of rows and `create`'s list, in its present form."""
        if group is None or len(group) == 1 + len(self.calls) + self._dictionaries:
            return group
        return in_present_form(self.noted, group, self._dictionaries)

    def arguments(self, batch: pa.RecordBatch) -> list[list[object]]:
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
            place = self.noted[position]
            if given is not None and (place is None or place.is_new(values[place.place], given)):
                values[position] = changes[is_added](values[position], *given)

    def merge(self, values: Sequence[object], others: Sequence[object]) -> list[Any]:
        """Return the accumulators of the rows of both."""
        return [
            merge(one, other)
            for merge, one, other in zip(self._merges, values, others, strict=True)
        ]

    def results(self, values: Sequence[object]) -> tuple[object, ...]:
        """Return the results."""
        return tuple([result(v) for result, v in zip(self._results, values, strict=False)])


def argument_values(batch: pa.RecordBatch, argument: Any, call: AggregateCall) -> list[Any]:
    """Return the values of an argument; user functions get rows with names of their fields."""
    column = batch.column(argument.index)
    if isinstance(call.function, str):
        return values_of(column)
    return python_values(column, argument.type, named_rows=True)
