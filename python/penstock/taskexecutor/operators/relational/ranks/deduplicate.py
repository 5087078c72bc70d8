"""One row of each key: the first or the last by time."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.columns.first_rows import replaced_by_rank
from penstock.columns.group_kernels import NoKernelError
from penstock.columns.record_batches import LEAST_ROWS, one_batch, rows_of
from penstock.formats.numpy_values import numpy_values
from penstock.table.plan.nodes import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.gathering import GatheringOperator
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.ranks.replacements import (
    Replacements,
)
from penstock.taskexecutor.operators.relational.ranks.top_rows import ListedRows
from penstock.taskexecutor.operators.relational.watermarks import milliseconds

if TYPE_CHECKING:
    from penstock.columns.array_types import Integers
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.ranks.replacements import GroupedBatch


class DeduplicateOperator(GatheringOperator):
    """Emits the last row of each key as it changes, or the first one once its time has passed."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        keys: tuple[int, ...],
        time_index: int,
        keep_last: bool,
        is_rowtime: bool,
        state_ttl_ms: int = 0,
        emits_old: bool = True,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns.
            output: The same.
            keys: Positions of the columns of the key.
            time_index: The position of the time attribute.
            keep_last: Whether the last row stays.
            is_rowtime: Whether it is by event time.
            state_ttl_ms: The time after which state that was not written expires; 0 for never.
            emits_old: Whether a row that was replaced is emitted.
        """
        super().__init__(context, input, output, has_kinds=False, is_updating=keep_last)
        self.prepare_waiting(context)
        self.schema = output
        self.keys = keys
        self.time_index = time_index
        self.keep_last = keep_last
        self.is_rowtime = is_rowtime
        #: By key: time and row; the row is None once it was emitted as the first.
        self.rows = keyed_rows(context, "rows", state_ttl_ms)
        self.emits_equal = state_ttl_ms > 0
        self.emits_old = emits_old
        #: The times and keys of first rows whose time has not passed, as a heap.
        self.firsts: list[tuple[int, str]] = []
        self.replacements = None
        if Replacements.fits(output, keys):
            self.replacements = Replacements(
                context, output, keys, removal=UPDATE_BEFORE if emits_old else None,
                addition=UPDATE_AFTER, has_kinds=keep_last,
            )  # fmt: skip
        #: First rows by event time are emitted by watermarks alone.
        self.is_gathering = self.replacements is not None and (keep_last or not is_rowtime)

    def open(self) -> None:
        """Note the rows whose time has not passed."""
        if not self.keep_last:
            self.firsts = [
                (time, text) for text, (time, row) in self.rows.items() if row is not None
            ]
            heapq.heapify(self.firsts)

    def process_batches(self, batches: list[pa.RecordBatch]) -> None:
        """Process batches at once."""
        batch = one_batch(batches, self.input_schema)
        if self.replacements is not None and batch.num_rows >= LEAST_ROWS:
            times = self._times(batch)
            if times is not None and self._process_by_columns(self.replacements, batch, times):
                return
        texts = key_texts(batch, self.keys)
        if self.is_rowtime:
            times = milliseconds(batch.column(self.time_index)).to_pylist()
        else:
            times = [0] * batch.num_rows
        take = self._last if self.keep_last else self._first
        for text, time, row in zip(texts, times, rows_of(batch, self.width), strict=True):
            take(text, time, row)
        self.flush()

    def _times(self, batch: pa.RecordBatch) -> Any:
        """Return the time of each row as a numpy array, None if a row has none."""
        if not self.is_rowtime:
            return np.zeros(batch.num_rows, np.int64)
        times = milliseconds(batch.column(self.time_index))
        return None if times.null_count else numpy_values(times)

    def _process_by_columns(
        self, replacements: Replacements, batch: pa.RecordBatch, times: Integers
    ) -> bool:
        """Process a batch, unless kernels cannot; return whether they could."""
        grouped = replacements.grouped(batch, self.rows)
        if self.keep_last:
            return self._last_by_columns(replacements, grouped, times)
        replacements.batches += 1
        if self.is_rowtime:
            self._first_by_columns(grouped, times)
            return True
        news = [group for group, found in enumerate(grouped.kept) if found is None]
        for group in news:
            self.rows.put(grouped.texts[group], (0, None))
        self.emit(batch.take(pa.array(grouped.groups.firsts[news])))
        return True

    def _last_by_columns(
        self, replacements: Replacements, grouped: GroupedBatch, times: Integers
    ) -> bool:
        known = [group for group, found in enumerate(grouped.kept) if found is not None]
        old_times = np.array([grouped.kept[group][0] for group in known], np.int64)
        old = [grouped.kept[group][1] for group in known]
        try:
            replaced = replaced_by_rank(
                grouped.groups, -times, np.array(known, np.int64), -old_times, replaces_equal=True
            )
        except NoKernelError:
            return False
        changes = replacements.changes(
            grouped.batch,
            replaced,
            lambda places: ListedRows([old[place] for place in places.tolist()], self.schema),
            emits_equal=self.emits_equal,
        )
        groups, places = replaced.latest(grouped.groups)
        rows = rows_of(grouped.batch.take(pa.array(places)), self.width)
        for group, time, row in zip(groups.tolist(), times[places].tolist(), rows, strict=True):
            self.rows.put(grouped.texts[group], (time, row))
        self.emit(changes)
        return True

    def _first_by_columns(self, grouped: GroupedBatch, times: Integers) -> None:
        groups = grouped.groups
        # Of equal times, the first row stays.
        firsts = np.lexsort((times, groups.codes))[groups.starts]
        news = [
            group
            for group, (found, time) in enumerate(
                zip(grouped.kept, times[firsts].tolist(), strict=True)
            )
            if found is None or (found[1] is not None and time < found[0])
        ]
        rows = rows_of(grouped.batch.take(pa.array(firsts[news])), self.width)
        for group, time, row in zip(news, times[firsts[news]].tolist(), rows, strict=True):
            self._wait(grouped.texts[group], time, row)

    def _last(self, text: str, time: int, row: tuple[object, ...]) -> None:
        found = self.rows.get(text)
        if found is None:
            self.changes.add(INSERT, row)
        elif found[0] > time:
            return
        elif found[1] != row or self.emits_equal:
            if self.emits_old:
                self.changes.add(UPDATE_BEFORE, found[1])
            self.changes.add(UPDATE_AFTER, row)
        self.rows.put(text, (time, row))

    def _first(self, text: str, time: int, row: tuple[object, ...]) -> None:
        found = self.rows.get(text)
        if not self.is_rowtime:
            if found is None:
                self.rows.put(text, (time, None))
                self.changes.add(INSERT, row)
            return
        if found is not None and (found[1] is None or found[0] <= time):
            return
        self._wait(text, time, row)

    def _wait(self, text: str, time: int, row: tuple[object, ...]) -> None:
        """Keep the first row of a key until its time has passed."""
        self.rows.put(text, (time, row))
        heapq.heappush(self.firsts, (time, text))

    def process_watermark(self, timestamp: int) -> None:
        """Emit the first rows whose time has passed."""
        if self.is_gathering:
            super().process_watermark(timestamp)
            return
        while self.firsts and self.firsts[0][0] <= timestamp:
            time, text = heapq.heappop(self.firsts)
            found = self.rows.get(text)
            if found is not None and found[1] is not None and found[0] == time:
                self.changes.add(INSERT, found[1])
                self.rows.put(text, (time, None))
        self.flush()
        self.output.emit_watermark(timestamp)
