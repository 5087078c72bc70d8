"""INTERSECT and EXCEPT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.columns.record_batches import rows_of
from penstock.table.plan.nodes import ADDED, DELETE, INSERT
from penstock.taskexecutor.operators.relational.base import TwoInputRelationalOperator
from penstock.taskexecutor.operators.relational.batches import kinds_of
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.key_texts import key_text

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class SetOperator(TwoInputRelationalOperator):
    """Counts equal rows of both sides and emits how many of them the result has."""

    def __init__(
        self,
        context: OperatorContext,
        inputs: tuple[Schema, Schema],
        output: Schema,
        has_kinds: tuple[bool, bool],
        kind: str,
        is_all: bool,
        is_streaming: bool,
        state_ttl_ms: int = 0,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            inputs: The columns of both sides.
            output: The same.
            has_kinds: Whether batches of the sides have row kinds.
            kind: INTERSECT or EXCEPT.
            is_all: Whether equal rows are counted.
            is_streaming: Whether results are updated while input arrives.
            state_ttl_ms: The time after which state that was not written expires; 0 for never.
        """
        super().__init__(context, inputs, output, has_kinds=has_kinds, is_updating=is_streaming)
        self.is_intersect = kind == "INTERSECT"
        self.is_all = is_all
        self.is_streaming = is_streaming
        #: By the text of a row: the row, and its numbers on both sides.
        self.rows = keyed_rows(context, "rows", state_ttl_ms)

    def process_side(self, side: int, batch: pa.RecordBatch) -> None:
        """Process a batch of one side."""
        kinds = kinds_of(batch)
        for position, row in enumerate(rows_of(batch, self.widths[side])):
            is_added = kinds is None or kinds[position] in ADDED
            text = key_text(row)
            found = list(self.rows.get(text) or (row, 0, 0))
            before = self._count(found[1], found[2])
            found[1 + side] += 1 if is_added else -1
            if found[1] or found[2]:
                self.rows.put(text, found)
            else:
                self.rows.remove(text)
            if self.is_streaming:
                change = self._count(found[1], found[2]) - before
                for _ in range(abs(change)):
                    self.changes.add(INSERT if change > 0 else DELETE, row)

    def _count(self, left: int, right: int) -> int:
        if self.is_intersect:
            number = min(left, right)
            return number if self.is_all else min(number, 1)
        if self.is_all:
            return max(left - right, 0)
        return int(left > 0 and right == 0)

    def emit_final(self) -> None:
        """Emit the rows at the end of the input in batch mode."""
        if not self.is_streaming:
            for row, left, right in self.rows.values():
                for _ in range(self._count(left, right)):
                    self.changes.add(INSERT, row)
            self.flush()
