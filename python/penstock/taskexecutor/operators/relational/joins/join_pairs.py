"""Pairs of rows that may join: positions in the batch of one side, and kept rows of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.record_batches import values_of
from penstock.formats.numpy_values import numpy_values
from penstock.table.plan.expressions import columns_of
from penstock.taskexecutor.operators.relational.batches import arrow_schema, column_of_values
from penstock.taskexecutor.operators.relational.joins.partner_rows import MOST_PAIRS, MOST_PLACED
from penstock.taskexecutor.operators.relational.key_texts import key_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.columns.array_types import Booleans, Integers
    from penstock.table.plan.schema import Schema
    from penstock.table.types import DataType
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.joins.join_condition import JoinCondition
    from penstock.taskexecutor.operators.relational.joins.partner_rows import NumberedRows

_Row = tuple[Any, ...]


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
        mask = self._mask(side, batch, positions, _Rows(others))
        return None if mask is None else values_of(mask)

    def joined(
        self,
        side: int,
        batch: pa.RecordBatch,
        positions: Sequence[int],
        others: Sequence[_Row],
        kinds: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
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

    def placed(
        self,
        side: int,
        batch: pa.RecordBatch,
        positions: Integers,
        others: PlacedRows | NumberedRows,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of the pairs that satisfy the condition, in order.

        Args:
            side: The side of the batch: 0 is left, 1 is right.
            batch: The rows of the side.
            positions: By pair, the position of its row in the batch, as a numpy array.
            others: By pair, its row of the other side.
        """
        mask = self._mask(side, batch, positions, others)
        if mask is not None:
            kept = numpy_values(mask)
            positions = positions[kept]
            others.keep(kept)
        yield from self._made(side, batch, positions, others, None)

    def made(
        self,
        side: int,
        batch: pa.RecordBatch,
        positions: Sequence[int],
        others: Sequence[_Row],
        kinds: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of pairs, whether or not they satisfy the condition; see `joined`."""
        yield from self._made(side, batch, positions, _Rows(others), kinds)

    def _mask(
        self,
        side: int,
        batch: pa.RecordBatch,
        positions: Integers | Sequence[int],
        others: _Rows | NumberedRows,
    ) -> pa.Array | None:
        """Return whether each pair satisfies the condition; None if there is no condition."""
        if self._condition.condition is None:
            return None
        found = []
        for start in range(0, len(positions), MOST_PAIRS):
            part = slice(start, start + MOST_PAIRS)
            columns = self._columns(side, batch, positions, others, part, is_condition=True)
            joined = pa.RecordBatch.from_arrays(columns, schema=self._condition.schema)
            found.append(self._condition.mask(joined))
            self.batches += 1
        return pa.concat_arrays(found) if found else pa.array([], pa.bool_())

    def _made(
        self,
        side: int,
        batch: pa.RecordBatch,
        positions: Integers | Sequence[int],
        others: _Rows | NumberedRows,
        kinds: Sequence[int] | None,
    ) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(positions), MOST_PAIRS):
            part = slice(start, start + MOST_PAIRS)
            columns = self._columns(side, batch, positions, others, part)
            if kinds is not None:
                columns.append(pa.array(kinds[part], pa.int8()))
            self.batches += 1
            yield pa.RecordBatch.from_arrays(columns, schema=self._schemas[kinds is not None])

    def _columns(
        self,
        side: int,
        batch: pa.RecordBatch,
        positions: Integers | Sequence[int],
        others: _Rows | NumberedRows,
        part: slice,
        *,
        is_condition: bool = False,
    ) -> list[pa.Array]:
        """Return the columns of some pairs; NULLs for those that the condition does not read."""
        schema = self._condition.schema
        start, end = (0, self._widths[0]) if side == 0 else (self._widths[0], len(self._types))
        taken = pa.array(positions[part], pa.int64())
        columns = []
        for index, kind in enumerate(self._types):
            target = schema.field(index).type
            if is_condition and index not in self._wanted:
                columns.append(pa.nulls(len(taken), target))
            elif start <= index < end:
                columns.append(batch.column(index - start).take(taken))
            else:
                columns.append(others.column(index - (end if side == 0 else 0), kind, target, part))
        return columns


class _Rows:
    """The rows of the other side, one for each pair."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self.rows = rows

    def column(self, index: int, kind: DataType, target: pa.DataType, part: slice) -> pa.Array:
        """Return a column of the rows of some pairs.

        Args:
            index: The position of the column in the rows.
            kind: Its logical type.
            target: Its Arrow type.
            part: The pairs.
        """
        return column_of_values([row[index] for row in self.rows[part]], kind, target)


class PlacedRows(_Rows):
    """Rows of the other side, each of them for any number of pairs."""

    def __init__(self, rows: Sequence[_Row], places: Integers) -> None:
        """Wrap rows; ``places`` has the position of each pair's row, as a numpy array."""
        super().__init__(rows)
        self.places = places
        self._columns: dict[int, Any] = {}

    def keep(self, mask: Booleans) -> None:
        """Keep the pairs for which a boolean numpy array is true."""
        self.places = self.places[mask]

    def column(self, index: int, kind: DataType, target: pa.DataType, part: slice) -> pa.Array:
        """Return a column of the rows of some pairs; see `_Rows.column`."""
        if len(self.rows) > MOST_PLACED:
            values = [self.rows[place][index] for place in self.places[part].tolist()]
            return column_of_values(values, kind, target)
        found = self._columns.get(index)
        if found is None:
            found = super().column(index, kind, target, slice(None))
            self._columns[index] = found
        return found.take(pa.array(self.places[part]))


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
