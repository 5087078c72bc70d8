"""Records that a function computes from numbers, at a limited rate if required."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.datagen.rate_limiters import PerCheckpoint, RateLimiter, limiter_of
from penstock.expressions.functions import bound_function
from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    MIN_TIMESTAMP,
    MORE_AVAILABLE,
    NOTHING_AVAILABLE,
    ChainingOutput,
    MapOperator,
    Output,
    StreamOperator,
)
from penstock.taskexecutor.sources.number_sequence import DividedNumberSequence
from penstock.taskexecutor.sources.source_wait import SourceWait
from penstock.taskexecutor.sources.source_watermarks import with_watermarks
from penstock.taskexecutor.task.fusion import Fusion

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_data_generator_source(
    context: OperatorContext, descriptor: operators.DataGeneratorSource
) -> StreamOperator:
    """Create the source of this subtask's records."""
    kind = GeneratedElements if descriptor.batch_size is None else GeneratedBatches
    return with_watermarks(context, descriptor, kind(descriptor))


class GeneratedElements(DividedNumberSequence):
    """Passes its numbers to a map operator, which computes the records."""

    def __init__(self, descriptor: operators.DataGeneratorSource) -> None:
        """Create the source of all numbers."""
        super().__init__(0, descriptor.count - 1)
        self.descriptor = descriptor
        function = descriptor.function
        self.generator = MapOperator(function, bound_function(function, "map"))
        self.limiter: RateLimiter | None = None
        self.wait = SourceWait()

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Set up the source and the map operator."""
        self.generator.setup(context, output)
        entry: Any = Fusion(context.evaluation).entry(self.generator)
        super().setup(context, ChainingOutput(entry))

    def open(self) -> None:
        """Create the limiter and open the function.

        Raises:
            InvalidProgramError: The job cannot apply the rate per checkpoint.
        """
        self.limiter = limiter_of(self.descriptor, self.context)
        self.generator.open()
        super().open()

    def emit_next(self, limit: int) -> int:
        """Emit at most about ``limit`` records without blocking."""
        if self.wait.cancelled:
            return END_OF_DATA
        limiter = self.limiter
        if limiter is None:
            return super().emit_next(limit)
        allowed = min(limit, limiter.available())
        left = self.end + 1 - self.next
        if allowed == 0 and left > 0:
            return NOTHING_AVAILABLE
        limiter.take(min(allowed, left))
        return super().emit_next(allowed)

    def wait_available(self, timeout_ms: int) -> None:
        """Block until a record is due, a message arrives, or the time is over."""
        due_ms = 0.0 if self.limiter is None else self.limiter.due_ms(self.next_size())
        self.wait.wait(min(timeout_ms, due_ms))

    def next_size(self) -> int:
        """Return the number of records that come next, all at once."""
        return 1

    @property
    def hears_of_completion(self) -> bool:
        """Return whether records wait for checkpoints."""
        return isinstance(self.limiter, PerCheckpoint)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the limiter, too."""
        super().notify_checkpoint_complete(checkpoint_id)
        if self.limiter is not None:
            self.limiter.notify_checkpoint_complete()

    def wakeup(self) -> None:
        """End a wait; called from another thread."""
        self.wait.wakeup()

    def cancel(self) -> None:
        """End the source early; called from any thread."""
        self.wait.cancel()

    def close(self) -> None:
        """Close the function."""
        try:
            self.generator.close()
        finally:
            self.wait.close()


class GeneratedBatches(GeneratedElements):
    """Passes ranges of its numbers to the function; positions and rates count single records.

    So a restored job may have another rate and another size of batches.
    """

    def emit_next(self, limit: int) -> int:  # noqa: ARG002
        """Emit a batch if its last record is due."""
        if self.wait.cancelled:
            return END_OF_DATA
        size = self.next_size()
        if size == 0:
            return MORE_AVAILABLE if self.begin_next() else END_OF_DATA
        if self.limiter is not None:
            if self.limiter.available() < size:
                return NOTHING_AVAILABLE
            self.limiter.take(size)
        first = self.next
        try:
            self.output.collect(range(first, first + size), MIN_TIMESTAMP)
        except BaseException:
            self.note_failure()
            raise
        self.next = first + size
        return MORE_AVAILABLE

    def next_size(self) -> int:
        """Return the size of the next batch; 0 at the end."""
        batch_size = self.descriptor.batch_size
        assert batch_size is not None, "another class has single records"
        return min(batch_size, self.end + 1 - self.next)
