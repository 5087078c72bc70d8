"""Aggregates of session windows, without keeping the rows of the sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.columns.groups import numbered
from penstock.table.types import LocalZonedTimestampType
from penstock.taskexecutor.operators.relational.aggregate_calls import AggregateCalls
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import (
    arrow_schema,
    column_of_values,
    selected_rows,
)
from penstock.taskexecutor.operators.relational.key_texts import are_groupable, key_texts, texts_of
from penstock.taskexecutor.operators.relational.open_sessions import OpenSessions
from penstock.taskexecutor.operators.relational.partial_aggregates import PartialAggregates
from penstock.taskexecutor.operators.relational.watermarks import milliseconds
from penstock.taskexecutor.operators.relational.windows import LocalTime

if TYPE_CHECKING:
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.nodes import Window
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.task.operator_context import OperatorContext


class SessionAggregateOperator(KeyedRelationalOperator):
    """Merges accumulators of sessions, and emits the results of a session when it has ended.

    Attributes:
        batches_in_columns: The batches that were aggregated by columns, for a metric.
    """

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        window: Window,
        time_index: int,
        keys: tuple[int, ...],
        calls: tuple[AggregateCall, ...],
        bounds: tuple[int, int, int | None],
        windows: Schema,
        session: Session,
        is_one_phase: bool = False,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The columns of the output: the keys and the results.
            window: The windows, whose size is the gap.
            time_index: The position of the time attribute.
            keys: Positions of the columns that make a group, those of ``bounds`` among them.
            calls: The aggregates, over columns; their partial results merge.
            bounds: Positions that stand for window_start, window_end and window_time, None for no
                such column.
            windows: Columns that end with those of the window.
            session: Settings that results depend on.
            is_one_phase: Whether each row is added to its session by itself.
        """
        super().__init__(context, input, output, has_kinds=False, is_updating=False)
        self.gap = window.size_ms
        self.time_index = time_index
        self.keys = tuple(key for key in keys if key not in bounds)
        #: By column of the output's keys: its place in the key and then the window's columns.
        self.places = [
            len(self.keys) + bounds.index(key) if key in bounds else self.keys.index(key)
            for key in keys
        ]
        self.calls = AggregateCalls(context, calls, may_retract=False)
        self.partials = None
        kinds = [self.input_schema.field(key).type for key in self.keys]
        if not is_one_phase and (not kinds or are_groupable(kinds)):
            self.partials = PartialAggregates.of(context, input, (), calls)
        self.types = output.types
        self.output_schema = arrow_schema(output, has_kinds=False)
        #: Whether window_time is a TIMESTAMP_LTZ.
        self.is_zoned = isinstance(windows.fields[-1].type, LocalZonedTimestampType)
        self.local = LocalTime(session, is_zoned=self.is_zoned)
        #: Their content is the key's values and the accumulators.
        self.sessions = OpenSessions(
            context, lambda old, new: (new[0], self.calls.merge(old[1], new[1]))
        )
        self.late_rows = 0
        self.batches_in_columns = 0
        group = context.metric_group()
        group.gauge("numLateRecordsDropped", lambda: self.late_rows)
        group.gauge("numBatchesInColumns", lambda: self.batches_in_columns)

    def open(self) -> None:
        """Note the sessions that are open."""
        self.sessions.restore()

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        column = batch.column(self.time_index)
        if column.null_count:
            batch = batch.filter(column.is_valid())
            column = batch.column(self.time_index)
        times = milliseconds(column).to_numpy(zero_copy_only=False)
        # A late row is dropped by itself, even if a row behind it reopens its session.
        has_late = bool((times + (self.gap - 1) <= self.sessions.watermark).any())
        if has_late or not self._add_columns(batch, times):
            self._add_rows(batch, times.tolist())

    def _add_columns(self, batch: pa.RecordBatch, times: Any) -> bool:
        """Add the rows of a batch by columns, unless they are too few; return whether it did."""
        if self.partials is None or not len(times):
            return False
        groups = numbered([batch.column(key) for key in self.keys] or [pa.nulls(len(times))])
        if (times[1:] >= times[:-1]).all():
            order = groups.order
        else:
            order = np.lexsort((times, groups.codes))
        codes, ordered = groups.codes[order], times[order]
        begins = np.ones(len(times), bool)
        # Adjacent sessions are merged, as in Flink.
        begins[1:] = (codes[1:] != codes[:-1]) | (ordered[1:] - ordered[:-1] > self.gap)
        numbers = np.empty(len(times), np.int64)
        numbers[order] = np.cumsum(begins) - 1
        found = self.partials.groups(batch, pa.array(numbers))
        if found is None:
            return False
        self.batches_in_columns += 1
        firsts = np.flatnonzero(begins)
        starts = ordered[firsts].tolist()
        ends = (ordered[np.append(firsts[1:], len(times)) - 1] + self.gap).tolist()
        some = batch.take(pa.array(order[firsts]))
        keys = selected_rows(some, self.keys)
        texts = key_texts(some, self.keys) if self.keys else texts_of(keys)
        for group in found:
            number = group.extra
            content = (keys[number], group.values)
            self.sessions.add(texts[number], starts[number], ends[number], content)
        return True

    def _add_rows(self, batch: pa.RecordBatch, times: list[int]) -> None:
        keys = selected_rows(batch, self.keys)
        arguments = self.calls.arguments(batch)
        rows = zip(texts_of(keys), keys, times, strict=True)
        for row, (text, key, time) in enumerate(rows):
            values = self.calls.create()
            self.calls.change(values, arguments, row, is_added=True)
            if not self.sessions.add(text, time, time + self.gap, (key, values)):
                self.late_rows += 1

    def process_watermark(self, timestamp: int) -> None:
        """Emit the sessions that have ended."""
        self.sessions.watermark = timestamp
        ended = self.sessions.ended(timestamp)
        if ended:
            self.emit(self._results(ended))
        self.output.emit_watermark(timestamp)

    def _results(self, ended: list[tuple[Any, ...]]) -> pa.RecordBatch:
        """Return the rows of sessions that have ended."""
        starts, ends, keys, accumulators = zip(*ended, strict=True)
        last = np.array(ends, np.int64)
        bounds = [self.local.local(np.array(starts, np.int64)), self.local.local(last)]
        bounds.append((last if self.is_zoned else bounds[1]) - 1)
        columns: list[Any] = [*zip(*keys, strict=True), *bounds]
        columns = [columns[place] for place in self.places]
        columns += zip(*map(self.calls.results, accumulators), strict=True)
        arrays = [
            pa.array(values).cast(field.type)
            if isinstance(values, np.ndarray)
            else column_of_values(values, kind, field.type)
            for values, kind, field in zip(columns, self.types, self.output_schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.output_schema)
