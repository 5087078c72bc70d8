"""Windows of time: rows get their windows, and aggregates of windows."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.columns.groups import spread
from penstock.columns.panes import sliding_windows, tumbling_starts
from penstock.columns.record_batches import selected_rows
from penstock.formats.numpy_values import numpy_values
from penstock.table.plan.nodes import ADDED, INSERT
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.aggregates.aggregate_calls import AggregateCalls
from penstock.taskexecutor.operators.relational.aggregates.partial_aggregates import (
    PartialAggregates,
)
from penstock.taskexecutor.operators.relational.base import (
    KeyedRelationalOperator,
    RelationalOperator,
)
from penstock.taskexecutor.operators.relational.batches import arrow_schema, kinds_of
from penstock.taskexecutor.operators.relational.key_texts import key_text, texts_of
from penstock.taskexecutor.operators.relational.watermarks import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.columns.array_types import Integers
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.nodes import Window
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_EPOCH = datetime.datetime(1970, 1, 1)
_MILLISECOND = datetime.timedelta(milliseconds=1)


class LocalTime:
    """Times between UTC and the session's time zone, in ms since 1970."""

    def __init__(self, session: Session, *, is_zoned: bool) -> None:
        """Create the conversion; without ``is_zoned`` it is the identity."""
        self._zone = session.zone if is_zoned and session.time_zone != "UTC" else None

    def local(self, times: Integers) -> Integers:
        """Return local times of UTC ones, as a numpy array."""
        return times if self._zone is None else self._mapped(times, self._to_local)

    def utc(self, times: Integers) -> Integers:
        """Return UTC times of local ones, as a numpy array."""
        return times if self._zone is None else self._mapped(times, self._to_utc)

    def utc_ends(self, ends: Integers) -> Integers:
        """Return the UTC times at which windows have passed that end at local times.

        Local times repeat if clocks are set back.  A window then lasts until its last millisecond
        has passed for the second time, as in Flink: before, its rows would be late.
        """
        return ends if self._zone is None else self._mapped(ends - 1, self._to_last_utc) + 1

    @staticmethod
    def _mapped(times: Integers, convert: Callable[[int], int]) -> Integers:
        values, places = np.unique(times, return_inverse=True)
        return np.array([convert(int(value)) for value in values], np.int64)[places]

    def _to_local(self, time: int) -> int:
        moment = (_EPOCH + time * _MILLISECOND).replace(tzinfo=datetime.UTC)
        local = moment.astimezone(self._zone).replace(tzinfo=None)
        return (local - _EPOCH) // _MILLISECOND

    def _to_last_utc(self, time: int) -> int:
        return max(self._to_utc(time), self._to_utc(time, fold=1))

    def _to_utc(self, time: int, fold: int = 0) -> int:
        moment = (_EPOCH + time * _MILLISECOND).replace(tzinfo=self._zone, fold=fold)
        return (moment.astimezone(datetime.UTC).replace(tzinfo=None) - _EPOCH) // _MILLISECOND


def window_arrays(
    starts: Integers, ends: Integers, schema: pa.Schema, local: LocalTime
) -> list[pa.Array]:
    """Return window_start, window_end and window_time as the last columns of a schema."""
    kinds = [field.type for field in list(schema)[-3:]]
    time = ends - 1
    if kinds[2].tz is not None:
        time = local.utc(time)
    return [
        pa.array(values, pa.int64()).cast(kind)
        for values, kind in zip((starts, ends, time), kinds, strict=True)
    ]


class WindowAssigner(RelationalOperator):
    """Emits each row once for each of its windows."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        window: Window,
        time_index: int,
        session: Session,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The same and the three of the window.
            window: The windows.
            time_index: The position of the time attribute.
            session: Settings that results depend on.
        """
        super().__init__(context)
        self.window = window
        self.time_index = time_index
        self.width = len(input)
        self.schema = arrow_schema(output, has_kinds=False)
        is_zoned = self.schema[len(output) - 1].type.tz is not None
        self.local = LocalTime(session, is_zoned=is_zoned)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        column = batch.column(self.time_index)
        if column.null_count:
            batch = batch.filter(column.is_valid())
            column = batch.column(self.time_index)
            if not batch.num_rows:
                return
        self.assign(batch, numpy_values(milliseconds(column)))

    def assign(self, batch: pa.RecordBatch, times: Integers) -> None:
        """Emit rows with the windows of their times, an array of ms."""
        times = self.local.local(times)
        rows, starts, ends = assigned(self.window, times)
        columns = batch.columns
        if rows is not None:
            taken = batch.take(pa.array(rows, pa.int64()))
            columns = taken.columns
        arrays = [*columns[: self.width], *window_arrays(starts, ends, self.schema, self.local)]
        self.emit(pa.RecordBatch.from_arrays(arrays, schema=self.schema))


def assigned(window: Window, times: Integers) -> tuple[Integers | None, Integers, Integers]:
    """Return rows, starts and ends of the windows of times; rows are None if each has one."""
    size, slide, offset = window.size_ms, window.slide_ms, window.offset_ms
    if window.kind == "TUMBLE":
        starts = tumbling_starts(times, size, offset)
        return None, starts, starts + size
    if window.kind == "HOP":
        rows, starts = sliding_windows(times, size, slide, offset)
        return rows, starts, starts + size
    start = tumbling_starts(times, size, offset)
    first = (times - start) // slide + 1
    counts = size // slide - first + 1
    rows = np.repeat(np.arange(len(times)), counts)
    starts = start[rows]
    return rows, starts, starts + spread(first, counts) * slide


class WindowAggregateOperator(KeyedRelationalOperator):
    """Aggregates rows of equal keys and window, and emits the results when the window ends."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        keys: tuple[int, ...],
        partition: tuple[int, ...],
        calls: tuple[AggregateCall, ...],
        end_index: int,
        has_kinds: bool,
        session: Session,
        is_zoned: bool,
        is_one_phase: bool = False,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The columns of the output.
            keys: Positions of the columns that make a group, those of the window among them.
            partition: The same without those of the window: the columns of the exchange.
            calls: The aggregates, over columns.
            end_index: The position of window_end.
            has_kinds: Whether batches of the input have row kinds.
            session: Settings that results depend on.
            is_zoned: Whether windows are of local time.
            is_one_phase: Whether each row is added to its window by itself.
        """
        super().__init__(context, input, output, has_kinds=has_kinds, is_updating=False)
        self.keys = keys
        self.partition = partition
        self.partials = None
        if not has_kinds and not is_one_phase:
            self.partials = PartialAggregates.of(context, input, keys, calls, partition)
        self.calls = AggregateCalls(context, calls, may_retract=has_kinds)
        self.end_index = end_index
        self.local = LocalTime(session, is_zoned=is_zoned)
        #: By local window end, as namespace, and key of the exchange: the values of ``keys``, the
        #: number of rows and the accumulators.  They are tuples, which the garbage collector need
        #: not check again.
        self.table = context.keyed_state.table("windows", "value")
        #: By local window end: the end in UTC.
        self.ends: dict[int, int] = {}
        self.watermark = MIN_TIMESTAMP
        self.late_rows = 0
        context.metric_group().gauge("numLateRecordsDropped", lambda: self.late_rows)

    def open(self) -> None:
        """Note the windows that are open, and open the user functions."""
        self._convert()
        self._note(
            found.namespace for found in self.table.namespaces() if found.namespace is not None
        )
        self.calls.functions.open()

    def _convert(self) -> None:
        """Convert groups of release 1.0, by window end in UTC and text of all ``keys``."""
        places = [self.keys.index(position) for position in self.partition]
        end_place = self.keys.index(self.end_index)
        converted = []
        for found in self.table.namespaces():
            entries = list(found.items())
            if entries and entries[0][0] == key_text(entries[0][1][0]):
                converted += [group for _, group in entries]
                found.clear()
        for group in converted:
            end = (group[0][end_place] - _EPOCH) // _MILLISECOND
            self.table.map(end).put(key_text([group[0][i] for i in places]), group)

    def _note(self, ends: Iterable[int]) -> None:
        """Note open windows by their local ends."""
        new = [end for end in ends if end not in self.ends]
        if new:
            self.ends |= zip(new, self.local.utc_ends(np.array(new)).tolist(), strict=True)

    def close(self) -> None:
        """Close the user functions."""
        self.calls.functions.close()

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        late = self.utc_ends(batch) - 1 <= self.watermark
        if late.any():
            self.late_rows += int(late.sum())
            batch = batch.filter(pa.array(~late))
            if not batch.num_rows:
                return
        self.add_rows(batch)

    def utc_ends(self, batch: pa.RecordBatch) -> Integers:
        """Return the UTC ends of the windows of rows, as a numpy array of ms."""
        ends = milliseconds(batch.column(self.end_index))
        return self.local.utc_ends(numpy_values(ends))

    def add_rows(self, batch: pa.RecordBatch) -> None:
        """Add rows to the groups of their windows."""
        ends = milliseconds(batch.column(self.end_index))
        groups = None if self.partials is None else self.partials.groups(batch, ends)
        if groups is not None:
            self.store(groups)
            return
        kinds = kinds_of(batch)
        keys = selected_rows(batch, self.keys)
        texts = texts_of(selected_rows(batch, self.partition))
        arguments = self.calls.arguments(batch)
        touched: dict[tuple[Any, ...], list[Any]] = {}
        places = zip(ends.to_pylist(), texts, strict=True)
        for row, (place, key) in enumerate(zip(places, keys, strict=True)):
            group = touched.get(place)
            if group is None:
                group = self.table.map(place[0]).get(place[1])
                group = [key, 0, self.calls.create()] if group is None else list(group)
                group[2] = list(group[2])
                touched[place] = group
            is_added = kinds is None or kinds[row] in ADDED
            group[1] += 1 if is_added else -1
            self.calls.change(group[2], arguments, row, is_added=is_added)
        self._note(end for end, _ in touched)
        for (end, text), (key, rows, values) in touched.items():
            self.table.map(end).put(text, (key, rows, tuple(values)))

    def store(self, groups: Iterable[tuple[object, str, int, int, Sequence[object]]]) -> None:
        """Merge groups into the state: key, text, window end, number of rows and accumulators."""
        maps: dict[int, Any] = {}
        for key, text, end, rows, values in groups:
            windows = maps.get(end)
            if windows is None:
                windows = maps[end] = self.table.map(end)
            _, count, kept = windows.get(text) or (None, 0, self.calls.empty)
            merged = tuple(self.calls.merge(kept, values))
            windows.put(text, (key, count + rows, merged))
        self._note(maps)

    def process_watermark(self, timestamp: int) -> None:
        """Emit the windows that have ended."""
        self.watermark = timestamp
        self.emit_until(timestamp)
        self.output.emit_watermark(timestamp)

    def emit_until(self, timestamp: int) -> None:
        """Emit the windows whose last ms has passed."""
        for end in sorted(end for end, utc in self.ends.items() if utc - 1 <= timestamp):
            groups = self.table.map(end)
            rows = [
                (*key, *self.calls.results(values))
                for key, count, values in groups.values()
                if count > 0
            ]
            self.changes.extend(INSERT, rows)
            groups.clear()
            self.table.drop_if_empty(end)
            del self.ends[end]
        self.flush()
