"""Aggregates of windows over a number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.columns.record_batches import selected_rows
from penstock.table.plan.nodes import INSERT
from penstock.taskexecutor.operators.relational.aggregates.aggregate_calls import AggregateCalls
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.key_texts import key_text

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class CountWindowOperator(KeyedRelationalOperator):
    """Emits a window when it has all of its rows; unfinished windows emit nothing."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        keys: tuple[int, ...],
        calls: tuple[AggregateCall, ...],
        size: int,
        slide: int,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The columns of the output.
            keys: Positions of the columns that make a group.
            calls: The aggregates, over columns.
            size: The number of rows of a window.
            slide: The number of rows between the starts of windows.
        """
        super().__init__(context, input, output, has_kinds=False, is_updating=False)
        self.keys = keys
        self.calls = AggregateCalls(context, calls, may_retract=False)
        self.size = size
        self.slide = slide
        #: By key: the number of rows so far, and start and accumulators of each open window.
        self.windows = context.keyed_state.table("windows", "value").map(None)

    def open(self) -> None:
        """Open the user functions."""
        self.calls.functions.open()

    def close(self) -> None:
        """Close the user functions."""
        self.calls.functions.close()

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        arguments = self.calls.arguments(batch)
        for row, key in enumerate(selected_rows(batch, self.keys)):
            text = key_text(key)
            count, windows = self.windows.get(text) or (0, [])
            windows = [(start, list(values)) for start, values in windows]
            if count % self.slide == 0:
                windows.append((count, self.calls.create()))
            kept = []
            for start, values in windows:
                self.calls.change(values, arguments, row, is_added=True)
                if count - start + 1 == self.size:
                    self.changes.add(INSERT, tuple(key) + self.calls.results(values))
                else:
                    kept.append((start, values))
            self.windows.put(text, (count + 1, kept))
        self.flush()
