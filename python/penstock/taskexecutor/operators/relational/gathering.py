"""Keyed operators whose batches wait a short time for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP, StreamOperator
from penstock.taskexecutor.operators.batch_wait import BatchWait
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class Gathering(StreamOperator):
    """Base of operators that process several batches at once, and watermarks behind their rows.

    No batch waits beyond a barrier.

    Attributes:
        num_inputs: The number of inputs.
        enough_rows: The number of rows for which no more batches are awaited.
        least_rows: Fewer rows do not wait.
    """

    num_inputs = 1
    enough_rows = 32_768
    least_rows = 0

    def prepare_waiting(self, context: OperatorContext) -> None:
        """Create what gathers batches; called by ``__init__``."""
        self.waiting: list[list[pa.RecordBatch]] = [[] for _ in range(self.num_inputs)]
        self.num_waiting = 0
        #: The last watermark behind the waiting batches.
        self.waiting_watermark = MIN_TIMESTAMP
        self.wait = BatchWait(context.processing_time, self.process_waiting)

    def gather(self, batch: pa.RecordBatch, input_number: int = 0) -> None:
        """Process a batch, which may wait for others."""
        self.waiting[input_number].append(batch)
        self.num_waiting += batch.num_rows
        if self.num_waiting >= self.enough_rows or self.num_waiting < self.least_rows:
            self.process_waiting()
        else:
            self.wait.begin()

    def process_gathered(self, input_number: int, batches: list[pa.RecordBatch]) -> None:
        """Process batches of one input, at least one; each has rows."""
        raise NotImplementedError(type(self).__name__ + ".process_gathered")

    def process_waiting(self) -> None:
        """Process the waiting batches, and emit the watermark that waits for them."""
        waiting, self.waiting, self.num_waiting = self.waiting, [[] for _ in self.waiting], 0
        for input_number, batches in enumerate(waiting):
            if batches:
                self.process_gathered(input_number, batches)
        watermark, self.waiting_watermark = self.waiting_watermark, MIN_TIMESTAMP
        if watermark != MIN_TIMESTAMP:
            super().process_watermark(watermark)

    def process_watermark(self, timestamp: int) -> None:
        """Emit a watermark behind the results of the waiting batches."""
        self.waiting_watermark = timestamp
        if timestamp == MAX_TIMESTAMP or not self.num_waiting:
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


class GatheringOperator(Gathering, KeyedRelationalOperator):
    """A gathering operator with one input.

    Attributes:
        is_gathering: Whether batches wait for others.
    """

    is_gathering = True

    #: They are processed one by one, which has no fixed cost.
    least_rows = 32

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch, which may wait for others."""
        if self.is_gathering:
            self.gather(batch)
        else:
            self.process_batches([batch])

    def process_gathered(self, input_number: int, batches: list[pa.RecordBatch]) -> None:
        """Process batches, at least one; each has rows."""
        del input_number
        self.process_batches(batches)

    def process_batches(self, batches: list[pa.RecordBatch]) -> None:
        """Process batches, at least one; each has rows."""
        raise NotImplementedError(type(self).__name__ + ".process_batches")
