"""Joins with the rows that a lookup table returns for the key of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.columns.record_batches import rows_of
from penstock.table.plan.nodes import INSERT
from penstock.taskexecutor.operators.relational.base import RelationalOperator
from penstock.taskexecutor.operators.relational.batches import ChangeBuffer, kinds_of
from penstock.taskexecutor.operators.relational.joins.join_condition import JoinCondition, nulls

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.connectors.interfaces import LookupTableSource
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import JoinKind
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class LookupJoinOperator(RelationalOperator):
    """Looks up the rows of each batch's keys in a table."""

    def __init__(
        self,
        context: OperatorContext,
        inputs: tuple[Schema, Schema],
        output: Schema,
        has_kinds: tuple[bool, bool],
        kind: JoinKind,
        keys: tuple[tuple[int, ...], tuple[int, ...]],
        condition: Expression | None,
        session: Session,
        source: LookupTableSource,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            inputs: The columns of both sides.
            output: The columns of the output.
            has_kinds: Whether batches of the left side have row kinds.
            kind: INNER or LEFT.
            keys: Positions of the columns that must be equal.
            condition: The condition besides the keys; None without one.
            session: Settings that results depend on.
            source: The table.
        """
        super().__init__(context)
        self.widths = len(inputs[0]), len(inputs[1])
        self.keys = keys
        self.names = [inputs[1].names[i] for i in keys[1]]
        self.is_left = kind == "LEFT"
        self.condition = JoinCondition(context, inputs, condition, session)
        self.source = source
        self.table = source.key_lookup()
        self.table.register(context.metric_group())
        self.changes = ChangeBuffer(output, has_kinds=has_kinds[0])

    def open(self) -> None:
        """Open the user functions."""
        self.condition.open()

    def close(self) -> None:
        """Close the user functions and the connections to the table."""
        try:
            self.condition.close()
        finally:
            self.table.close()

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        kinds = kinds_of(batch) or [INSERT] * batch.num_rows
        rows = rows_of(batch, self.widths[0])
        wanted = [tuple(row[i] for i in self.keys[0]) for row in rows]
        asked = list(dict.fromkeys(key for key in wanted if None not in key))
        found = self.table.lookup(self.names, asked) if asked else {}
        for kind, row, key in zip(kinds, rows, wanted, strict=True):
            others = [tuple(other) for other in found.get(key, ())]
            kept = self.condition.of_rows([(row, other) for other in others])
            partners = [other for other, keep in zip(others, kept, strict=True) if keep]
            for other in partners:
                self.changes.add(kind, row + other)
            if not partners and self.is_left:
                self.changes.add(kind, row + nulls(self.widths[1]))
        self.emit(self.changes.take())
