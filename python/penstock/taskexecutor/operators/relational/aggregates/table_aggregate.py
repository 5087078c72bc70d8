"""Rows that table aggregate functions return for groups."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.columns.record_batches import selected_rows
from penstock.common.exception_deadline import repr_in_time
from penstock.table.plan.nodes import ADDED, DELETE, INSERT
from penstock.taskexecutor.operators.relational.aggregates.aggregate_calls import argument_values
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import kinds_of
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.key_texts import key_text
from penstock.taskexecutor.operators.relational.python_calls import PythonCalls

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class TableAggregateOperator(KeyedRelationalOperator):
    """Emits new rows of a group, and retracts rows that its function no longer returns."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        keys: tuple[int, ...],
        call: AggregateCall,
        has_kinds: bool,
        is_streaming: bool,
        state_ttl_ms: int = 0,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The keys and the columns of the function's rows.
            keys: Positions of the columns that make a group.
            call: The call of the function, over columns.
            has_kinds: Whether batches of the input have row kinds.
            is_streaming: Whether results are updated while input arrives.
            state_ttl_ms: The time after which state that was not written expires; 0 for never.
        """
        super().__init__(context, input, output, has_kinds=has_kinds, is_updating=is_streaming)
        self.keys = keys
        self.call = call
        self.number = len(output) - len(keys)
        self.function = call.function.function
        self.functions = PythonCalls(context)
        self.functions.register_function(call.function)
        self.is_streaming = is_streaming
        #: By key: the key's values, the number of rows, and the accumulator.
        self.groups = keyed_rows(context, "groups", state_ttl_ms)

    def open(self) -> None:
        """Open the function."""
        self.functions.open()

    def close(self) -> None:
        """Close the function."""
        self.functions.close()

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        kinds = kinds_of(batch)
        keys = selected_rows(batch, self.keys)
        arguments = zip(
            *[argument_values(batch, a, self.call) for a in self.call.arguments], strict=True
        )
        for position, (key, given) in enumerate(zip(keys, arguments, strict=True)):
            text = key_text(key)
            is_added = kinds is None or kinds[position] in ADDED
            found = self.groups.get(text)
            count, accumulator = (
                (0, self.function.create_accumulator()) if found is None else found[1:]
            )
            before = self._emitted(accumulator) if count and self.is_streaming else Counter()
            if is_added:
                self.function.accumulate(accumulator, *given)
            else:
                self.function.retract(accumulator, *given)
            count += 1 if is_added else -1
            if count > 0:
                self.groups.put(text, (key, count, accumulator))
            else:
                self.groups.remove(text)
            if self.is_streaming:
                after = self._emitted(accumulator) if count > 0 else Counter()
                self._emit(key, DELETE, before - after)
                self._emit(key, INSERT, after - before)
        self.flush()

    def _emitted(self, accumulator: object) -> Counter[tuple[object, ...]]:
        """Return the rows that the function currently returns."""
        rows: Counter[tuple[Any, ...]] = Counter()
        for row in self.function.emit_value(accumulator):
            values = tuple(row) if hasattr(row, "__iter__") and not isinstance(row, str) else (row,)
            if len(values) != self.number:
                raise ValueError(
                    f"emit_value yielded {repr_in_time(row)}, which has {len(values)} values "
                    f"instead of {self.number}"
                )
            rows[values] += 1
        return rows

    def _emit(self, key: tuple[object, ...], kind: int, rows: Counter[tuple[object, ...]]) -> None:
        for row, number in rows.items():
            for _ in range(number):
                self.changes.add(kind, key + row)

    def emit_final(self) -> None:
        """Emit the groups in batch mode."""
        if not self.is_streaming:
            for key, _, accumulator in self.groups.values():
                self._emit(tuple(key), INSERT, self._emitted(accumulator))
            self.flush()
