"""Joins that are emitted once: of whole inputs, and of windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.table.plan.nodes import INSERT
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import TwoInputRelationalOperator
from penstock.taskexecutor.operators.relational.batches import rows_of
from penstock.taskexecutor.operators.relational.join import is_not_in
from penstock.taskexecutor.operators.relational.join_condition import JoinCondition, nulls
from penstock.taskexecutor.operators.relational.join_pairs import MOST_PAIRS
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.watermarks import milliseconds
from penstock.taskexecutor.operators.relational.windows import LocalTime

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import JoinKind
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.task.operator_context import OperatorContext

_Row = tuple[Any, ...]


class _Pairs(NamedTuple):
    """The rows of one key, and the positions of pairs of them."""

    left: list[_Row]
    right: list[_Row]
    positions: list[tuple[int, int]]


class FinalJoinOperator(TwoInputRelationalOperator):
    """Keeps the rows of both sides and joins them when their time has passed."""

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
        is_null_aware: bool = False,
        equates_nulls: bool = False,
    ) -> None:
        """Create the operator; see `JoinOperator`."""
        super().__init__(context, inputs, output, has_kinds=has_kinds, is_updating=False)
        self.kind = kind
        self.keys = keys
        self.condition = JoinCondition(context, inputs, condition, session)
        self.is_null_aware = is_null_aware
        self.equates_nulls = equates_nulls
        #: By time, as namespace, and key: the rows of a side.
        self.tables = tuple(context.keyed_state.table(name, "value") for name in ("left", "right"))
        self.times: set[int] = set()
        self.watermark = MIN_TIMESTAMP
        #: Rows whose time had passed.
        self.late_rows = 0

    def open(self) -> None:
        """Note the times that have not passed, and open the user functions."""
        self.times = {
            found.namespace
            for table in self.tables
            for found in table.namespaces()
            if found.namespace is not None
        }
        self.condition.open()

    def close(self) -> None:
        """Close the user functions."""
        self.condition.close()

    def times_of(self, side: int, batch: pa.RecordBatch) -> list[int]:
        """Return when the rows of a side are joined: at the end of the input."""
        del side
        return [MAX_TIMESTAMP] * int(batch.num_rows)

    def process_side(self, side: int, batch: pa.RecordBatch) -> None:
        """Process a batch of one side."""
        texts = key_texts(batch, () if self.is_null_aware else self.keys[side])
        times = self.times_of(side, batch)
        table = self.tables[side]
        rows = rows_of(batch, self.widths[side])
        for text, time, row in zip(texts, times, rows, strict=True):
            if time <= self.watermark:
                self.late_rows += 1
                continue
            self.times.add(time)
            found = table.map(time)
            kept = found.get(text) or []
            kept.append(row)
            found.put(text, kept)

    def process_watermark(self, timestamp: int) -> None:
        """Join the rows whose time has passed."""
        self.watermark = timestamp
        for time in sorted(time for time in self.times if time <= timestamp):
            left, right = (table.map(time) for table in self.tables)
            waiting: list[_Pairs] = []
            number = 0
            for text in dict.fromkeys([*left.keys(), *right.keys()]):
                found = self._pairs(left.get(text) or [], right.get(text) or [])
                waiting.append(found)
                number += len(found.positions)
                if number >= MOST_PAIRS:
                    self._join(waiting)
                    waiting, number = [], 0
            self._join(waiting)
            for table in self.tables:
                table.map(time).clear()
                table.drop_if_empty(time)
            self.times.discard(time)
        self.flush()
        self.output.emit_watermark(timestamp)

    def _pairs(self, left: list[_Row], right: list[_Row]) -> _Pairs:
        """Return the pairs of the rows of one key that the condition decides upon."""
        has_null = not self.equates_nulls and (
            any(left and left[0][i] is None for i in self.keys[0])
            or any(right and right[0][i] is None for i in self.keys[1])
        )
        if has_null or self.is_null_aware:
            return _Pairs(left, right, [])
        return _Pairs(left, right, [(i, j) for i in range(len(left)) for j in range(len(right))])

    def _join(self, keys: list[_Pairs]) -> None:
        """Emit the results of some keys; the condition is evaluated once for all of them."""
        if self.condition.condition is not None and not self.is_null_aware:
            pairs = [(left[i], right[j]) for left, right, each in keys for i, j in each]
            kept = iter(self.condition.of_rows(pairs))
            keys = [
                _Pairs(left, right, [pair for pair in each if next(kept)])
                for left, right, each in keys
            ]
        for left, right, positions in keys:
            self._emit(left, right, positions)

    def _emit(self, left: list[_Row], right: list[_Row], pairs: list[tuple[int, int]]) -> None:
        """Emit the results of one key, given the positions of the pairs that join."""
        if self.is_null_aware:
            for row in left:
                if is_not_in(row, right, self.keys, self.condition):
                    self.changes.add(INSERT, row)
            return
        matched = {i for i, _ in pairs}, {j for _, j in pairs}
        if self.kind in ("SEMI", "ANTI"):
            for i, row in enumerate(left):
                if (i in matched[0]) == (self.kind == "SEMI"):
                    self.changes.add(INSERT, row)
            return
        for i, j in pairs:
            self.changes.add(INSERT, left[i] + right[j])
        if self.kind in ("LEFT", "FULL"):
            for i, row in enumerate(left):
                if i not in matched[0]:
                    self.changes.add(INSERT, row + nulls(self.widths[1]))
        if self.kind in ("RIGHT", "FULL"):
            for j, row in enumerate(right):
                if j not in matched[1]:
                    self.changes.add(INSERT, nulls(self.widths[0]) + row)


class WindowJoinOperator(FinalJoinOperator):
    """Joins the rows of a window when it has ended."""

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
        end_index: int,
        other_end_index: int,
        is_zoned: bool,
    ) -> None:
        """Create the operator; see `JoinOperator`."""
        super().__init__(context, inputs, output, has_kinds, kind, keys, condition, session)
        self.end_indexes = end_index, other_end_index
        self.local = LocalTime(session, is_zoned=is_zoned)
        context.metric_group().gauge("numLateRecordsDropped", lambda: self.late_rows)

    def times_of(self, side: int, batch: pa.RecordBatch) -> list[int]:
        """Return the last ms of the window of each row."""
        ends = milliseconds(batch.column(self.end_indexes[side]))
        found: list[int] = (self.local.utc_ends(ends.to_numpy(zero_copy_only=False)) - 1).tolist()
        return found
