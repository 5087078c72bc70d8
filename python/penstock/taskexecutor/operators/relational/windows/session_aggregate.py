"""Aggregates of session windows, without keeping the rows of the sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.columns.groups import Groups, numbered
from penstock.columns.record_batches import LEAST_ROWS, one_batch, selected_rows
from penstock.formats.numpy_values import numpy_values
from penstock.table.types import LocalZonedTimestampType
from penstock.taskexecutor.operators.relational.aggregates.aggregate_calls import AggregateCalls
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import arrow_schema, column_of_values
from penstock.taskexecutor.operators.relational.key_texts import are_groupable, key_text, texts_of
from penstock.taskexecutor.operators.relational.watermarks import milliseconds
from penstock.taskexecutor.operators.relational.windows.open_sessions import OpenSessions
from penstock.taskexecutor.operators.relational.windows.session_columns import (
    ELSEWHERE,
    SessionColumns,
)
from penstock.taskexecutor.operators.relational.windows.slice_partials import SlicePartials
from penstock.taskexecutor.operators.relational.windows.windows import LocalTime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.columns.array_types import Integers
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.nodes import Window
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


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
        self.partials = SlicePartials(input, (), calls)
        kinds = [self.input_schema.field(key).type for key in self.keys]
        self.in_columns = not is_one_phase and (not kinds or are_groupable(kinds))
        self.columns = SessionColumns(self.partials)
        self.types = output.types
        self.output_schema = arrow_schema(output, has_kinds=False)
        #: Whether window_time is a TIMESTAMP_LTZ.
        self.is_zoned = isinstance(windows.fields[-1].type, LocalZonedTimestampType)
        self.local = LocalTime(session, is_zoned=self.is_zoned)
        #: The sessions of the other keys, and at barriers of all; their content is the key's values
        #: and the accumulators.
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
        if self.in_columns:
            for found in self.sessions.table.values():
                self.columns.places[tuple(found[0][2])] = ELSEWHERE

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        column = batch.column(self.time_index)
        if column.null_count:
            batch = batch.filter(column.is_valid())
            column = batch.column(self.time_index)
        times = numpy_values(milliseconds(column))
        # A late row is dropped by itself, even if a row behind it reopens its session.
        has_late = bool((times + (self.gap - 1) <= self.sessions.watermark).any())
        if has_late or not self._add_columns(batch, times):
            self._add_rows(batch, times.tolist())

    def _add_columns(self, batch: pa.RecordBatch, times: Integers) -> bool:
        """Add the rows of a batch by columns, unless they are too few; return whether it did."""
        if not self.in_columns or len(times) < LEAST_ROWS:
            return False
        groups = Groups(np.zeros(len(times), np.int64), 1)
        if self.keys:
            groups = numbered([batch.column(key) for key in self.keys])
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
        self.batches_in_columns += 1
        merged = self.partials.merged([self.partials.of_rows(batch, numbers)])
        places = self.partials.slices(merged)
        firsts = np.flatnonzero(begins)
        starts = ordered[firsts][places]
        ends = (ordered[np.append(firsts[1:], len(times)) - 1] + self.gap)[places]
        rows = order[firsts][places]
        keys = selected_rows(batch.take(pa.array(rows)), self.keys)
        if len(places) > groups.count:
            # Keys with several sessions in this batch.
            for number in np.flatnonzero(np.bincount(groups.codes[rows]) > 1).tolist():
                self._move(keys[int(np.argmax(groups.codes[rows] == number))])
        rest = self.columns.add(keys, starts, ends, self.partials.values(merged))
        if rest:
            accumulators = list(self.partials.accumulators(merged.take(pa.array(rest))))
            for i, values in zip(rest, accumulators, strict=True):
                self._move(keys[i])
                text = key_text(keys[i])
                self.sessions.add(text, int(starts[i]), int(ends[i]), (keys[i], values))
        return True

    def _move(self, key: tuple[object, ...]) -> None:
        """Move the session of a key from the columns to the others."""
        place = self.columns.places.get(key, ELSEWHERE)
        if place != ELSEWHERE:
            places = np.array([place])
            ((text, session),) = self._stored(places)
            self.columns.remove(places)
            self.sessions.put(text, session)
        self.columns.places[key] = ELSEWHERE

    def _stored(self, places: Integers) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield texts of keys and sessions of some places, in their form in the state."""
        keys, starts, ends, partials = self.columns.read(places)
        accumulators = self.partials.accumulators(partials)
        sessions = zip(starts.tolist(), ends.tolist(), keys, accumulators, strict=True)
        return zip(texts_of(keys), sessions, strict=True)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Copy changed sessions to the state."""
        for text, session in self._stored(self.columns.changed()):
            self.sessions.table.put(text, [session])

    def _add_rows(self, batch: pa.RecordBatch, times: list[int]) -> None:
        keys = selected_rows(batch, self.keys)
        texts = texts_of(keys)
        moved = dict(zip(keys, texts, strict=True)) if self.in_columns else {}
        for key in moved:
            self._move(key)
        arguments = self.calls.arguments(batch)
        for row, (text, key, time) in enumerate(zip(texts, keys, times, strict=True)):
            values = self.calls.create()
            self.calls.change(values, arguments, row, is_added=True)
            if not self.sessions.add(text, time, time + self.gap, (key, values)):
                self.late_rows += 1
        for key, text in moved.items():
            self._forget(key, text)

    def _forget(self, key: tuple[object, ...], text: str) -> None:
        """Forget that a key has sessions outside of the columns, if it has none."""
        if not self.sessions.table.get(text):
            self.columns.places.pop(key, None)

    def process_watermark(self, timestamp: int) -> None:
        """Emit the sessions that have ended."""
        self.sessions.watermark = timestamp
        ended = self.sessions.ended(timestamp)
        places = self.columns.ended(timestamp)
        if ended:
            self.emit(self._results(ended, places))
        elif len(places):
            self.emit(self._results([], places))
        self.output.emit_watermark(timestamp)

    def _results(self, ended: list[tuple[Any, ...]], places: Integers) -> pa.RecordBatch:
        """Return the rows of sessions that have ended, and remove those of some places."""
        keys, starts, ends, partials = self.columns.read(places)
        for text in texts_of(self.columns.remove(places)):
            self.sessions.table.remove(text)
        if ended:
            groups = [((), 0, values) for *_, values in ended]
            for _, _, key, _ in ended:
                if self.in_columns:
                    self._forget(tuple(key), key_text(key))
            keys += [key for _, _, key, _ in ended]
            starts = np.append(starts, [start for start, *_ in ended])
            ends = np.append(ends, [end for _, end, *_ in ended])
            others = self.partials.of_groups(groups, [0] * len(groups))
            partials = one_batch([partials, others], self.partials.schema)
        order = np.argsort(ends, kind="stable")
        ends = ends[order]
        bounds = [self.local.local(starts[order]), self.local.local(ends)]
        bounds.append((ends if self.is_zoned else bounds[1]) - 1)
        keys = [keys[i] for i in order.tolist()]
        columns: list[Any] = [*zip(*keys, strict=True), *bounds]
        arrays = [
            pa.array(columns[place]).cast(field.type)
            if isinstance(columns[place], np.ndarray)
            else column_of_values(columns[place], kind, field.type)
            for place, kind, field in zip(self.places, self.types, self.output_schema, strict=False)
        ]
        arrays += self.partials.results(partials.take(pa.array(order)))
        return pa.RecordBatch.from_arrays(arrays, schema=self.output_schema)
