"""Each row with the rows that a table function returns for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.columns.record_batches import rows_of
from penstock.common.exception_deadline import repr_in_time
from penstock.common.types import Row
from penstock.table import types
from penstock.table.functions.evaluation import Evaluator
from penstock.table.plan.nodes import ROW_KIND
from penstock.table.plan.schema import Schema
from penstock.table.types.arrow_types import arrow_array, python_values
from penstock.taskexecutor.operators.relational.base import RelationalOperator
from penstock.taskexecutor.operators.relational.batches import arrow_schema
from penstock.taskexecutor.operators.relational.joins.join_condition import JoinCondition
from penstock.taskexecutor.operators.relational.python_calls import PythonCalls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class CorrelateOperator(RelationalOperator):
    """Joins rows with the results of UNNEST or of a user's table function."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        function: Any,
        arguments: tuple[Expression, ...],
        is_outer: bool,
        condition: Expression | None,
        with_ordinality: bool,
        session: Session,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The same and the columns of the function.
            function: ``UNNEST``, or the wrapper of a user's function.
            arguments: The arguments, over the input.
            is_outer: Whether a row without results is emitted with NULLs.
            condition: The condition on joined rows; None for all.
            with_ordinality: Whether the last column counts the results of a row.
            session: Settings that results depend on.
        """
        super().__init__(context)
        self.calls = PythonCalls(context)
        self.calls.register(arguments)
        self.evaluator = Evaluator(arguments, session, self.calls.call)
        self.width = len(input)
        self.kinds = [field.type for field in output.fields[self.width :]]
        self.schemas = {
            has_kinds: arrow_schema(output, has_kinds=has_kinds) for has_kinds in (False, True)
        }
        self.is_outer = is_outer
        results = Schema(output.fields[self.width :])
        self.condition = JoinCondition(context, (input, results), condition, session)
        self.with_ordinality = with_ordinality
        self.argument_types = [a.type for a in arguments]
        self.function = function
        if function != "UNNEST":
            self.calls.register_function(function)

    def open(self) -> None:
        """Open the user functions."""
        self.calls.open()
        self.condition.open()

    def close(self) -> None:
        """Close the user functions."""
        self.condition.close()
        self.calls.close()

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        arrays = self.evaluator.evaluate(batch)
        columns = [
            python_values(array, kind, named_rows=True)
            for array, kind in zip(arrays, self.argument_types, strict=True)
        ]
        given = list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows
        places: list[int] = []
        results: list[tuple[Any, ...]] = []
        missing = (None,) * len(self.kinds)
        for row, found in enumerate(self._joined(batch, given)):
            if not found and self.is_outer:
                found = [missing]
            results += found
            places.extend([row] * len(found))
        if not results:
            return
        names = batch.schema.names
        has_kinds = bool(names) and names[-1] == ROW_KIND
        taken = batch.take(pa.array(places, pa.int64()))
        made = taken.columns[: self.width]
        made += [
            arrow_array(list(column), kind)
            for column, kind in zip(zip(*results, strict=True), self.kinds, strict=True)
        ]
        if has_kinds:
            made.append(taken.column(taken.num_columns - 1))
        self.emit(pa.RecordBatch.from_arrays(made, schema=self.schemas[has_kinds]))

    def _joined(
        self, batch: pa.RecordBatch, given: list[tuple[Any, ...]]
    ) -> list[list[tuple[Any, ...]]]:
        """Return the results of each row that fulfil the condition."""
        joined = [
            [
                (*result, number) if self.with_ordinality else result
                for number, result in enumerate(self._rows(values), 1)
            ]
            for values in given
        ]
        if self.condition.condition is None:
            return joined
        rows = rows_of(batch, self.width)
        pairs = [(row, result) for row, found in zip(rows, joined, strict=True) for result in found]
        fulfils = iter(self.condition.of_rows(pairs))
        return [[result for result in found if next(fulfils)] for found in joined]

    def _rows(self, values: tuple[object, ...]) -> Iterable[tuple[object, ...]]:
        if self.function == "UNNEST":
            return self._unnested(values[0])
        return self._called(values)

    def _unnested(self, value: Any) -> list[tuple[object, ...]]:
        if value is None:
            return []
        kind = self.argument_types[0]
        if isinstance(kind, types.MapType):
            return list(value.items())
        if isinstance(kind, types.MultisetType):
            value = [item for item, count in value.items() for _ in range(count)]
        assert isinstance(kind, types.ArrayType)
        if isinstance(kind.element_type, types.RowType):
            nothing = (None,) * len(kind.element_type)
            return [nothing if item is None else tuple(item) for item in value]
        return [(item,) for item in value]

    def _called(self, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        found = self.function.call(*values)
        if found is None:
            return []
        number = len(self.kinds)
        if (
            isinstance(found, Row)
            or (isinstance(found, tuple) and number > 1)
            or isinstance(found, str | bytes | int | float)
        ):
            found = [found]
        rows = []
        for item in found:
            if number == 1 and not isinstance(item, Row | tuple):
                rows.append((item,))
            else:
                rows.append(tuple(item))
            if len(rows[-1]) != number:
                raise ValueError(
                    f"the table function {self.function.name} returned {repr_in_time(item)}, which "
                    f"has {len(rows[-1])} values instead of {number}"
                )
            for value, field in zip(rows[-1], self.function.result_row, strict=True):
                self.function.check(value, field.data_type)
        return rows
