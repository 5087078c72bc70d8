"""Joins that are emitted once: of whole inputs, and of windows."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.columns.groups import numbered, spread
from penstock.columns.record_batches import one_batch, rows_of
from penstock.formats.numpy_values import numpy_values
from penstock.table.plan.expressions import columns_of
from penstock.table.plan.nodes import INSERT
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import TwoInputRelationalOperator
from penstock.taskexecutor.operators.relational.batches import ChangeBuffer, arrow_schema
from penstock.taskexecutor.operators.relational.joins.join import is_not_in
from penstock.taskexecutor.operators.relational.joins.join_condition import JoinCondition
from penstock.taskexecutor.operators.relational.joins.partner_rows import MOST_PAIRS
from penstock.taskexecutor.operators.relational.key_texts import are_groupable, key_texts
from penstock.taskexecutor.operators.relational.watermarks import milliseconds
from penstock.taskexecutor.operators.relational.windows.windows import LocalTime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.columns.array_types import Integers
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import JoinKind
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class FinalJoinOperator(TwoInputRelationalOperator):
    """Keeps the rows of both sides and joins them when their time has passed.

    Rows wait as columns.  At a barrier they go to the state.

    Attributes:
        batches: The batches of pairs that were computed, for a metric.
    """

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
        self.schemas = inputs
        self.output_schema = arrow_schema(output, has_kinds=False)
        self.kind = kind
        self.keys = keys
        self.condition = JoinCondition(context, inputs, condition, session)
        self.wanted = frozenset[int]() if condition is None else columns_of(condition)
        self.is_null_aware = is_null_aware
        self.equates_nulls = equates_nulls
        #: By time, as namespace, and key: the rows of a side.
        self.tables = tuple(context.keyed_state.table(name, "value") for name in ("left", "right"))
        #: The times of rows in the state.
        self.times: set[int] = set()
        #: By side, the rows that are not in the state.
        self.waiting: tuple[list[Any], list[Any]] = ([], [])
        #: The earliest time of the waiting rows.
        self.first_time = MAX_TIMESTAMP
        self.watermark = MIN_TIMESTAMP
        #: Rows whose time had passed.
        self.late_rows = 0
        self.batches = 0
        context.metric_group().gauge("numBatchesInColumns", lambda: self.batches)

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

    def times_of(self, side: int, batch: pa.RecordBatch) -> Integers:
        """Return when the rows of a side are joined, as a numpy array: at the end of the input."""
        del side
        return np.full(batch.num_rows, MAX_TIMESTAMP, np.int64)

    def process_side(self, side: int, batch: pa.RecordBatch) -> None:
        """Process a batch of one side."""
        times = self.times_of(side, batch)
        late = times <= self.watermark
        if late.any():
            self.late_rows += int(late.sum())
            batch, times = batch.filter(pa.array(~late)), times[~late]
        if batch.num_rows:
            self.waiting[side].append(batch)
            self.first_time = min(self.first_time, int(times.min()))

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Move the waiting rows to the state."""
        for side, (batches, table) in enumerate(zip(self.waiting, self.tables, strict=True)):
            for batch in batches:
                texts = key_texts(batch, () if self.is_null_aware else self.keys[side])
                times = self.times_of(side, batch).tolist()
                rows = rows_of(batch, self.widths[side])
                for text, time, row in zip(texts, times, rows, strict=True):
                    found = table.map(time)
                    kept = found.get(text) or []
                    kept.append(row)
                    found.put(text, kept)
                self.times.update(times)
            batches.clear()
        self.first_time = MAX_TIMESTAMP

    def process_watermark(self, timestamp: int) -> None:
        """Join the rows whose time has passed."""
        self.watermark = timestamp
        stored = sorted(time for time in self.times if time <= timestamp)
        if stored or self.first_time <= timestamp:
            self.first_time = MAX_TIMESTAMP
            left, right = (self._taken(side, timestamp, stored) for side in (0, 1))
            self.times.difference_update(stored)
            for batch in self._joined(left, right):
                self.emit(batch)
        self.flush()
        self.output.emit_watermark(timestamp)

    def emit(self, batch: pa.RecordBatch) -> None:
        """Emit a batch unless it is empty."""
        if batch.num_rows:
            self.output.collect(batch, MIN_TIMESTAMP)

    def _taken(self, side: int, timestamp: int, stored: list[int]) -> pa.RecordBatch:
        """Remove the rows of a side whose time has passed, and return them in time's order."""
        schema = self.input_schemas[side]
        buffer = ChangeBuffer(self.schemas[side], has_kinds=False)
        for time in stored:
            found = self.tables[side].map(time)
            buffer.extend(INSERT, list(chain.from_iterable(found.values())))
            found.clear()
            self.tables[side].drop_if_empty(time)
        batches = self.waiting[side]
        if len(buffer):
            batches.insert(0, buffer.take())
        batch = one_batch(batches, schema)
        times = self.times_of(side, batch)
        due = times <= timestamp
        batches.clear()
        if not due.all():
            batches.append(batch.filter(pa.array(~due)))
            self.first_time = min(self.first_time, int(times[~due].min()))
            batch, times = batch.filter(pa.array(due)), times[due]
        if (times[1:] < times[:-1]).any():
            batch = batch.take(pa.array(np.argsort(times, kind="stable")))
        return batch

    def _joined(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the results of rows whose time has passed."""
        if self.is_null_aware:
            rows, others = rows_of(left, self.widths[0]), rows_of(right, self.widths[1])
            for row in rows:
                if is_not_in(row, others, self.keys, self.condition):
                    self.changes.add(INSERT, row)
            return
        is_pair_emitted = self.kind not in ("SEMI", "ANTI")
        matched = np.zeros(left.num_rows, bool), np.zeros(right.num_rows, bool)
        for positions in self._pairs(left, right):
            kept = self._kept(left, right, positions)
            for found, places in zip(matched, kept, strict=True):
                found[places] = True
            if is_pair_emitted:
                taken = [pa.array(places) for places in kept]
                yield self._row_pairs(left.take(taken[0]).columns, right.take(taken[1]).columns)
        if self.kind in ("SEMI", "ANTI"):
            mask = matched[0] if self.kind == "SEMI" else ~matched[0]
            yield self._row_pairs(left.filter(pa.array(mask)).columns, [])
        if self.kind in ("LEFT", "FULL"):
            alone = left.filter(pa.array(~matched[0]))
            yield self._row_pairs(alone.columns, _nulls(right, alone.num_rows))
        if self.kind in ("RIGHT", "FULL"):
            alone = right.filter(pa.array(~matched[1]))
            yield self._row_pairs(_nulls(left, alone.num_rows), alone.columns)

    def _row_pairs(self, left: list[object], right: list[object]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*left, *right], schema=self.output_schema)

    def _pairs(
        self, left: pa.RecordBatch, right: pa.RecordBatch
    ) -> Iterator[tuple[Integers, Integers]]:
        """Yield the positions of rows of equal keys and times, about `MOST_PAIRS` at a time."""
        if not left.num_rows or not right.num_rows:
            return
        codes = numbered(self._key_columns(left, right)).codes
        left_codes, right_codes = codes[: left.num_rows], codes[left.num_rows :]
        count = int(codes.max()) + 1
        rows, others = (self._with_key(side, each) for side, each in enumerate((left, right)))
        others = others[np.argsort(right_codes[others], kind="stable")]
        sizes = np.bincount(right_codes[others], minlength=count)
        starts = np.cumsum(sizes) - sizes
        counts = sizes[left_codes[rows]]
        ends = np.cumsum(counts)
        first = 0
        while first < len(rows):
            before = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, before + MOST_PAIRS, "right")), first + 1)
            part = rows[first:last]
            places = spread(starts[left_codes[part]], counts[first:last])
            if len(places):
                yield np.repeat(part, counts[first:last]), others[places]
            first = last

    def _key_columns(self, left: pa.RecordBatch, right: pa.RecordBatch) -> list[pa.Array]:
        """Return columns of the keys and times of the left and then the right rows."""
        times = [self.times_of(side, batch) for side, batch in enumerate((left, right))]
        columns = [pa.array(np.concatenate(times))]
        pairs = [
            (left.column(one), right.column(other)) for one, other in zip(*self.keys, strict=True)
        ]
        if all(one.type == other.type and _is_numbered(one.type) for one, other in pairs):
            return [*(pa.concat_arrays(pair) for pair in pairs), *columns]
        texts = [*key_texts(left, self.keys[0]), *key_texts(right, self.keys[1])]
        return [pa.array(texts, pa.string()), *columns]

    def _with_key(self, side: int, batch: pa.RecordBatch) -> Integers:
        """Return the positions of the rows that may have partners."""
        mask = np.ones(batch.num_rows, bool)
        for key in () if self.equates_nulls else self.keys[side]:
            column = batch.column(key)
            if column.null_count:
                mask &= numpy_values(column.is_valid())
        return np.flatnonzero(mask)

    def _kept(
        self, left: pa.RecordBatch, right: pa.RecordBatch, positions: tuple[Integers, Integers]
    ) -> tuple[Integers, Integers]:
        """Return the positions of the pairs that satisfy the condition."""
        self.batches += 1
        if self.condition.condition is None:
            return positions
        columns = []
        for index, field in enumerate(self.condition.schema):
            side = int(index >= self.widths[0])
            if index in self.wanted:
                column = (left, right)[side].column(index - side * self.widths[0])
                columns.append(column.take(pa.array(positions[side])))
            else:
                columns.append(pa.nulls(len(positions[0]), field.type))
        batch = pa.RecordBatch.from_arrays(columns, schema=self.condition.schema)
        mask = numpy_values(self.condition.mask(batch))
        return positions[0][mask], positions[1][mask]


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

    def times_of(self, side: int, batch: pa.RecordBatch) -> Integers:
        """Return the last ms of the window of each row."""
        ends = milliseconds(batch.column(self.end_indexes[side]))
        return self.local.utc_ends(numpy_values(ends)) - 1


def _is_numbered(kind: pa.DataType) -> bool:
    return are_groupable([kind]) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _nulls(batch: pa.RecordBatch, rows: int) -> list[pa.Array]:
    return [pa.nulls(rows, column.type) for column in batch.columns]
