"""Interval joins: pairs of rows within bounds of time."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from penstock.columns.record_batches import rows_of
from penstock.table.plan.nodes import INSERT
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import TwoInputRelationalOperator
from penstock.taskexecutor.operators.relational.joins.join_condition import JoinCondition, nulls
from penstock.taskexecutor.operators.relational.joins.join_pairs import (
    JoinPairs,
    texts_without_nulls,
)
from penstock.taskexecutor.operators.relational.watermarks import milliseconds

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import JoinKind
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_Row = tuple[Any, ...]


class IntervalJoinOperator(TwoInputRelationalOperator):
    """Keeps rows of both sides as long as a partner may arrive."""

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
        times: tuple[int, int],
        lower_ms: int,
        upper_ms: int,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            inputs: The columns of both sides.
            output: The columns of the output.
            has_kinds: Always false for both.
            kind: Which rows without a match are emitted.
            keys: Positions of the columns that must be equal.
            condition: The condition besides the keys; None without one.
            session: Settings that results depend on.
            times: Positions of the time attributes.
            lower_ms: The least right time relative to the left one.
            upper_ms: The greatest one.
        """
        super().__init__(context, inputs, output, has_kinds=has_kinds, is_updating=False)
        self.keys = keys
        self.times = times
        #: By side, the bounds of the other side's times relative to its own.
        self.bounds = (lower_ms, upper_ms), (-upper_ms, -lower_ms)
        self.condition = JoinCondition(context, inputs, condition, session)
        self.pairs = JoinPairs(context, inputs, output, self.condition)
        self.is_outer = (kind in ("LEFT", "FULL"), kind in ("RIGHT", "FULL"))
        #: By key: time, row, and whether it had a partner.
        self.sides = tuple(
            context.keyed_state.table(name, "value").map(None) for name in ("left", "right")
        )
        self.expiries: tuple[list[tuple[int, str]], list[tuple[int, str]]] = ([], [])
        self.watermark = MIN_TIMESTAMP

    def open(self) -> None:
        """Note when rows expire, and open the user functions."""
        for side in (0, 1):
            self.expiries[side][:] = [
                (time + self.bounds[side][1], text)
                for text, found in self.sides[side].items()
                for time, _, _ in found
            ]
            heapq.heapify(self.expiries[side])
        self.condition.open()

    def close(self) -> None:
        """Close the user functions."""
        self.condition.close()

    def process_side(self, side: int, batch: pa.RecordBatch) -> None:
        """Process a batch of one side."""
        keys = self.keys[side]
        texts = texts_without_nulls(batch, keys, (*keys, self.times[side]))
        times = milliseconds(batch.column(self.times[side])).to_pylist()
        matched = self._emit_pairs(side, batch, texts, times)
        rows = rows_of(batch, self.widths[side])
        for position, (text, time, row) in enumerate(zip(texts, times, rows, strict=True)):
            if text is not None:
                self._keep(side, text, time, row, is_matched=position in matched)
            elif self.is_outer[side]:
                self.changes.add(INSERT, self._padded(side, row))

    def _emit_pairs(
        self, side: int, batch: pa.RecordBatch, texts: list[str | None], times: list[object]
    ) -> set[int]:
        """Emit the pairs of a batch's rows and return the positions of rows that have a pair.

        A row whose key is None has none.
        """
        lower, upper = self.bounds[side]
        others: dict[str, list[Any]] = {}
        positions: list[int] = []
        near: list[Any] = []
        for position, (text, time) in enumerate(zip(texts, times, strict=True)):
            if text is None:
                continue
            if text not in others:
                others[text] = self.sides[1 - side].get(text) or []
            found = [other for other in others[text] if lower <= other[0] - time <= upper]
            positions += [position] * len(found)
            near += found
        kept = self.pairs.kept(side, batch, positions, [other[1] for other in near])
        if kept is not None:
            positions = [each for each, keep in zip(positions, kept, strict=True) if keep]
            near = [each for each, keep in zip(near, kept, strict=True) if keep]
        for joined in self.pairs.made(side, batch, positions, [other[1] for other in near]):
            self.output.collect(joined, MIN_TIMESTAMP)
        matched = set(positions)
        if self.is_outer[1 - side]:
            for other in near:
                other[2] = True
            for touched in {texts[position] for position in matched}:
                assert touched is not None, "rows without a key have no pairs"
                self.sides[1 - side].put(touched, others[touched])
        return matched

    def _padded(self, side: int, row: _Row) -> _Row:
        return row + nulls(self.widths[1]) if side == 0 else nulls(self.widths[0]) + row

    def _keep(self, side: int, text: str, time: int, row: _Row, *, is_matched: bool) -> None:
        """Keep a row as long as partners may arrive."""
        expiry = time + self.bounds[side][1]
        if expiry <= self.watermark:
            if not is_matched and self.is_outer[side]:
                self.changes.add(INSERT, self._padded(side, row))
            return
        own = self.sides[side].get(text) or []
        own.append([time, row, is_matched])
        self.sides[side].put(text, own)
        heapq.heappush(self.expiries[side], (expiry, text))

    def process_watermark(self, timestamp: int) -> None:
        """Remove rows for which no partner can arrive any more.

        As in Flink, a partner whose time is the watermark's still counts.
        """
        self.watermark = timestamp
        for side in (0, 1):
            self._expire(side, timestamp)
        self.flush()
        self.output.emit_watermark(timestamp)

    def _expire(self, side: int, timestamp: int) -> None:
        expiries, upper = self.expiries[side], self.bounds[side][1]
        while expiries and expiries[0][0] < timestamp:
            _, text = heapq.heappop(expiries)
            found = self.sides[side].get(text)
            if found is None:
                continue
            kept = [record for record in found if record[0] + upper >= timestamp]
            if self.is_outer[side]:
                for time, row, is_matched in found:
                    if time + upper < timestamp and not is_matched:
                        self.changes.add(INSERT, self._padded(side, row))
            if kept:
                self.sides[side].put(text, kept)
            else:
                self.sides[side].remove(text)
