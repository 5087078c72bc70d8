"""Pairs of rows that may join: positions in the batch of one side, and kept rows of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.plan.expressions import columns_of
from penstock.taskexecutor.operators.relational.batches import (
    arrow_schema,
    column_of_values,
    values_of,
)
from penstock.taskexecutor.operators.relational.key_texts import key_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.operators.relational.join_condition import JoinCondition
    from penstock.taskexecutor.task.operator_context import OperatorContext

_Row = tuple[Any, ...]

#: The approximate number of pairs that are joined at once, which bounds their memory.
MOST_PAIRS: Final = 16_384


class JoinPairs:
    """Evaluates a join condition over many pairs, and builds batches of them.

    Attributes:
        batches: The batches of pairs that were computed, for a metric.
    """

    def __init__(
        self,
        context: OperatorContext,
        inputs: tuple[Schema, Schema],
        output: Schema,
        condition: JoinCondition,
    ) -> None:
        """Create it for the columns of both sides; see `JoinOperator`."""
        self._types = (*inputs[0].types, *inputs[1].types)
        self._widths = len(inputs[0]), len(inputs[1])
        self._schemas = tuple(arrow_schema(output, has_kinds=kinds) for kinds in (False, True))
        self._condition = condition
        wanted = () if condition.condition is None else columns_of(condition.condition)
        self._wanted = frozenset(wanted)
        self.batches = 0
        context.metric_group().gauge("numBatchesInColumns", lambda: self.batches)

    def kept(
        self, side: int, batch: pa.RecordBatch, positions: Sequence[int], others: Sequence[_Row]
    ) -> list[bool] | None:
        """Return whether each pair satisfies the condition; None if there is no condition.

        Args:
            side: The side of the batch: 0 is left, 1 is right.
            batch: The rows of the side.
            positions: By pair, the position of its row in the batch.
            others: By pair, its row of the other side.
        """
        if self._condition.condition is None:
            return None
        found: list[bool] = []
        for start in range(0, len(positions), MOST_PAIRS):
            end = start + MOST_PAIRS
            columns = self._columns(
                side, batch, positions[start:end], others[start:end], is_condition=True
            )
            joined = pa.RecordBatch.from_arrays(columns, schema=self._condition.schema)
            found += values_of(self._condition.mask(joined))
            self.batches += 1
        return found

    def joined(
        self,
        side: int,
        batch: pa.RecordBatch,
        positions: Sequence[int],
        others: Sequence[_Row],
        kinds: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        """Yield batches of the pairs that satisfy the condition, in order; see `kept`.

        Args:
            side: The side of the batch: 0 is left, 1 is right.
            batch: The rows of the side.
            positions: By pair, the position of its row in the batch.
            others: By pair, its row of the other side.
            kinds: By pair, the row kind; None if batches have none.
        """
        kept = self.kept(side, batch, positions, others)
        if kept is not None and not all(kept):
            positions = [each for each, keep in zip(positions, kept, strict=True) if keep]
            others = [each for each, keep in zip(others, kept, strict=True) if keep]
            if kinds is not None:
                kinds = [each for each, keep in zip(kinds, kept, strict=True) if keep]
        yield from self.made(side, batch, positions, others, kinds)

    def made(
        self,
        side: int,
        batch: pa.RecordBatch,
        positions: Sequence[int],
        others: Sequence[_Row],
        kinds: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        """Yield batches of pairs, whether or not they satisfy the condition; see `joined`."""
        for start in range(0, len(positions), MOST_PAIRS):
            end = start + MOST_PAIRS
            columns = self._columns(side, batch, positions[start:end], others[start:end])
            if kinds is not None:
                columns.append(pa.array(kinds[start:end], pa.int8()))
            self.batches += 1
            yield pa.RecordBatch.from_arrays(columns, schema=self._schemas[kinds is not None])

    def _columns(
        self,
        side: int,
        batch: pa.RecordBatch,
        positions: Sequence[int],
        others: Sequence[_Row],
        *,
        is_condition: bool = False,
    ) -> list[Any]:
        """Return the columns of pairs; NULLs for those that the condition does not read."""
        schema = self._condition.schema
        start = 0 if side == 0 else self._widths[0]
        taken = pa.array(positions, pa.int32())
        read = zip(*others, strict=True) if others else ((),) * self._widths[1 - side]
        other_columns = iter(read)
        columns = []
        for index, kind in enumerate(self._types):
            is_own = start <= index < start + self._widths[side]
            values = () if is_own else next(other_columns)
            target = schema.field(index).type
            if is_condition and index not in self._wanted:
                columns.append(pa.nulls(len(positions), target))
            elif is_own:
                columns.append(batch.column(index - start).take(taken))
            else:
                columns.append(column_of_values(values, kind, target))
        return columns


def texts_without_nulls(
    batch: pa.RecordBatch, keys: Sequence[int], required: Sequence[int]
) -> list[str | None]:
    """Return the key of each row of a batch; None for rows that cannot have partners.

    Args:
        batch: The rows.
        keys: Positions of the columns of the key.
        required: Positions of the columns in which a row with partners is not NULL.
    """
    texts: list[str | None] = list(key_texts(batch, keys))
    columns = [batch.column(place) for place in required if batch.column(place).null_count]
    if not columns:
        return texts
    mask = columns[0].is_null()
    for column in columns[1:]:
        mask = pc.or_(mask, column.is_null())
    return [None if is_null else text for text, is_null in zip(texts, values_of(mask), strict=True)]
