"""The rows of a table shipped with the job by columns."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_schema import inexact_field
from penstock.columns.column_batch import ColumnBatch, batch_of_columns
from penstock.common.types import rows_of_columns
from penstock.errors import FormatError
from penstock.formats.arrow_columns import ColumnMisfit, column_values
from penstock.formats.arrow_types import arrow_library
from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    MIN_TIMESTAMP,
    MORE_AVAILABLE,
    SourceOperator,
    StreamOperator,
)
from penstock.taskexecutor.sources.adaptive_emission import (
    AdaptiveBatches,
    AdaptiveEmission,
    batch_limit,
)
from penstock.taskexecutor.sources.column_outputs import batch_rows
from penstock.taskexecutor.sources.number_sequence import part_of_range
from penstock.taskexecutor.sources.source_watermarks import with_watermarks
from penstock.taskexecutor.sources.split_state import Share, SplitBySplit

if TYPE_CHECKING:
    from penstock.common.types import Row
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: Rows built from columns at a time.
_STEP_ROWS: Final = 4096

#: Rows of a range that one of several subtasks reads at a time.  The ranges of a time-ordered table
#: are read side by side: rows ahead of event time wait in windows, and are no more than these.
_RANGE_ROWS: Final = 4096

#: Most ranges for each subtask; a checkpoint contains all remaining ones.
_MOST_RANGES: Final = 1024


def create_column_source(
    context: OperatorContext, descriptor: operators.ColumnSource
) -> StreamOperator:
    """Create the source of this subtask's rows."""
    source = RowsOfColumns(descriptor)
    return with_watermarks(context, descriptor, source)


class _RowRange(SourceOperator):
    """Builds rows from columns, in a range of row numbers.

    Attributes:
        next: The number of the next row to emit.
        last: The number of the last row.
    """

    def __init__(self, descriptor: operators.ColumnSource) -> None:
        """Create the source; no batch is decoded yet."""
        super().__init__()
        row_type: Any = descriptor.row_type
        self.row_type = row_type
        self.names, self.types = row_type.get_field_names(), row_type.get_field_types()
        self.batches = descriptor.batches
        #: The number of the row behind each batch.
        self.ends = list(accumulate(descriptor.lengths))
        self.next, self.last = 0, -1
        self.rows: list[Any] | ColumnBatch = []
        self.emitted = 0
        self.emission = AdaptiveEmission()
        self.batch_emission = AdaptiveBatches()
        #: Most rows of a batch of columns; 0 if rows are emitted one by one.
        self.batch_rows = 0
        self.batch: Any = None
        self.number_of_batch = -1

    def emit_next(self, limit: int) -> int:
        """Emit about ``limit`` records at most, without blocking."""
        if self.next > self.last:
            return END_OF_DATA
        if self.emitted == len(self.rows):
            self.rows, self.emitted = self._decoded(), 0
        if isinstance(self.rows, ColumnBatch):
            self.batch_emission.emit(batch_limit(limit), self._emit)
        else:
            self.emission.emit(limit, self._emit)
        return MORE_AVAILABLE if self.next <= self.last else END_OF_DATA

    def _emit(self, limit: int) -> int:
        """Emit at most ``limit`` of the decoded rows."""
        if self.emitted == len(self.rows):
            return 0
        part: Any
        if isinstance(self.rows, ColumnBatch):
            part = self.rows.slice(self.emitted, min(limit, self.batch_rows))
            self.output.collect_batch(part)
        else:
            part = self.rows[self.emitted : self.emitted + limit]
            self.output.collect_all(part, MIN_TIMESTAMP)
        self.emitted += len(part)
        self.next += len(part)
        return len(part)

    def _decoded(self) -> list[Row] | ColumnBatch:
        """Return some rows from the next one on, all of one batch."""
        number = bisect_right(self.ends, self.next)
        if number != self.number_of_batch:
            pa = arrow_library("a source of columns")
            with pa.ipc.open_stream(self.batches[number]) as stream:
                self.batch, self.number_of_batch = stream.read_next_batch(), number
        start = self.next - (self.ends[number] - self.batch.num_rows)
        piece = self.batch.slice(start, min(_STEP_ROWS, self.last + 1 - self.next))
        found = []
        if self.batch_rows:
            try:
                batch = batch_of_columns(piece.columns, self.row_type)
            except ColumnMisfit as misfit:
                raise FormatError(f"rows from {self.next}: {misfit}") from None
            if batch is not None:
                return batch
        for name, column, declared in zip(self.names, piece.columns, self.types, strict=True):
            try:
                found.append(column_values(column, declared))
            except ColumnMisfit as misfit:
                raise FormatError(f"rows from {self.next}: {misfit.within(name)}") from None
        return rows_of_columns(self.names, found)


class RowsOfColumns(SplitBySplit, _RowRange):
    """Emits ranges of the rows; a split is the numbers of its first and last row."""

    measure = "Records"

    def open(self) -> None:
        """Choose the batch size and open the splits."""
        if self.context.evaluation.has_columns and inexact_field(self.row_type) is None:
            self.batch_rows = batch_rows(self.output)
        super().open()

    def divide(self, share: Share) -> list[tuple[int, int]]:
        """Return the ranges of a share: every n-th of small ones, all of nearly the same size."""
        rows = self.ends[-1] if self.ends else 0
        ranges = -(-rows // (share.of * _RANGE_ROWS)) if share.of > 1 else 1
        parts = share.of * max(1, min(ranges, _MOST_RANGES))
        found = (
            part_of_range(0, rows - 1, number, parts)
            for number in range(share.number, parts, share.of)
        )
        return [(first, last) for first, last in found if first <= last]

    def begin(self, split: tuple[int, int]) -> None:
        """Continue with this range."""
        self.next, self.last = split
        self.rows, self.emitted = [], 0

    def size(self, split: tuple[int, int]) -> int:
        """Return the number of rows in a range."""
        return split[1] - split[0] + 1

    def place(self, split: tuple[int, int]) -> int:
        """Return the number of the first row."""
        return split[0]

    def rest(self) -> tuple[int, int]:
        """Return the rest of the range."""
        return self.next, self.last
