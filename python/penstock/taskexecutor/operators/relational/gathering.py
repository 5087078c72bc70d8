"""Keyed operators whose batches wait a short time for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.taskexecutor.operators.batch_wait import BatchWait
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.taskexecutor.task.operator_context import OperatorContext

#: The number of rows for which no more batches are awaited.
_ENOUGH_ROWS: Final = 32_768

#: Fewer rows do not wait: they are processed one by one, which has no fixed cost.
_LEAST_ROWS: Final = 32


class GatheringOperator(KeyedRelationalOperator):
    """Processes several batches at once, and delays watermarks until their rows are processed.

    No batch waits beyond a barrier.

    Attributes:
        is_gathering: Whether batches wait for others.
    """

    is_gathering = True

    def prepare_waiting(self, context: OperatorContext) -> None:
        """Create what gathers batches; called by ``__init__``."""
        self.waiting: list[pa.RecordBatch] = []
        self.num_waiting = 0
        self.watermark = MIN_TIMESTAMP
        self.wait = BatchWait(context.processing_time, self.process_waiting)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch, which may wait for others."""
        if not self.is_gathering:
            self.process_batches([batch])
            return
        self.waiting.append(batch)
        self.num_waiting += batch.num_rows
        if self.num_waiting >= _ENOUGH_ROWS or self.num_waiting < _LEAST_ROWS:
            self.process_waiting()
        else:
            self.wait.begin()

    def process_batches(self, batches: list[pa.RecordBatch]) -> None:
        """Process batches that have rows."""
        raise NotImplementedError(type(self).__name__ + ".process_batches")

    def process_waiting(self) -> None:
        """Process the waiting batches, and emit the watermark that waits for them."""
        batches, self.waiting, self.num_waiting = self.waiting, [], 0
        if batches:
            self.process_batches(batches)
        watermark, self.watermark = self.watermark, MIN_TIMESTAMP
        if watermark != MIN_TIMESTAMP:
            super().process_watermark(watermark)

    def process_watermark(self, timestamp: int) -> None:
        """Emit a watermark behind the results of the waiting batches."""
        self.watermark = timestamp
        if timestamp == MAX_TIMESTAMP or not self.waiting:
            self.process_waiting()

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Process the waiting batches before the barrier of a checkpoint."""
        self.process_waiting()

    def finish(self) -> None:
        """Process the waiting batches."""
        self.process_waiting()

    def process_status(self, idle: bool) -> None:
        """Emit a change of idleness behind the results of the waiting batches."""
        self.process_waiting()
        super().process_status(idle)
