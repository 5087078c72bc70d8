"""Records that a function makes of numbers, at a limited rate if that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.datagen.rate_limiters import PerCheckpoint, RateLimiter, limiter_of
from penstock.expressions.functions import bound_function
from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    NOTHING_AVAILABLE,
    ChainingOutput,
    MapOperator,
    Output,
    StreamOperator,
)
from penstock.taskexecutor.sources.number_sequence import DividedNumberSequence
from penstock.taskexecutor.sources.source_watermarks import with_watermarks
from penstock.taskexecutor.sources.wait import SourceWait
from penstock.taskexecutor.task.fusion import Fusion

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.task.operator_context import OperatorContext


def create_data_generator_source(
    context: OperatorContext, descriptor: operators.DataGeneratorSource
) -> StreamOperator:
    """Return the records of this subtask's numbers."""
    return with_watermarks(context, descriptor, GeneratedElements(descriptor))


class GeneratedElements(DividedNumberSequence):
    """Hands its numbers to a map operator, which makes the elements."""

    def __init__(self, descriptor: operators.DataGeneratorSource) -> None:
        """Creates the source of all numbers."""
        super().__init__(0, descriptor.count - 1)
        self.descriptor = descriptor
        function = descriptor.function
        self.generator = MapOperator(function, bound_function(function, "map"))
        self.limiter: RateLimiter | None = None
        self.wait = SourceWait()

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Sets up both."""
        self.generator.setup(context, output)
        entry: Any = Fusion(context.evaluation).entry(self.generator)
        super().setup(context, ChainingOutput(entry))

    def open(self) -> None:
        """Prepares for records.

        Raises:
            InvalidProgramError: The rate per checkpoint is one that this job cannot keep.
        """
        self.limiter = limiter_of(self.descriptor, self.context)
        self.generator.open()
        super().open()

    def emit_next(self, limit: int) -> int:
        """Emits at most about ``limit`` records without blocking."""
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
        """Blocks until a record is due, a message came, or the time is over."""
        due_ms = 0.0 if self.limiter is None else self.limiter.due_ms()
        self.wait.wait(min(timeout_ms, due_ms))

    @property
    def hears_of_completion(self) -> bool:
        """Return whether records wait for checkpoints."""
        return isinstance(self.limiter, PerCheckpoint)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is complete."""
        super().notify_checkpoint_complete(checkpoint_id)
        if self.limiter is not None:
            self.limiter.notify_checkpoint_complete()

    def wakeup(self) -> None:
        """Ends a wait from another thread."""
        self.wait.wakeup()

    def cancel(self) -> None:
        """Ends the source early, from any thread."""
        self.wait.cancel()

    def close(self) -> None:
        """Closes the function."""
        try:
            self.generator.close()
        finally:
            self.wait.close()
