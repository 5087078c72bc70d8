"""Timestamps and watermarks that a source's strategy adds to its elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.taskexecutor.loop import ChainingOutput, Output, SourceOperator
from penstock.taskexecutor.operators.watermarks import WatermarksOperator

if TYPE_CHECKING:
    from penstock.taskexecutor.operator_context import OperatorContext


def with_watermarks(context: OperatorContext, source: SourceOperator) -> SourceOperator:
    """The source itself, or the source followed by what its watermark strategy asks for."""
    strategy = context.descriptor.arguments.get("watermark_strategy")
    if strategy is None or (
        strategy.timestamp_assigner is None
        and strategy.idle_timeout_ms is None
        and not strategy.emits_periodically
    ):
        return source
    return _SourceWithWatermarks(source, WatermarksOperator(context, strategy))


class _SourceWithWatermarks(SourceOperator):
    """Puts a watermarks operator between a source and its output."""

    def __init__(self, source: SourceOperator, watermarks: WatermarksOperator) -> None:
        super().__init__()
        self.source = source
        self.watermarks = watermarks
        self.lock = getattr(source, "lock", None)

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Sets up both; the task sees the input of the watermarks as the source's output."""
        self.watermarks.setup(context, output)
        to_watermarks = ChainingOutput(self.watermarks)
        self.source.setup(context, to_watermarks)
        super().setup(context, to_watermarks)

    def initialize_state(self) -> None:
        """Creates or restores the state."""
        self.source.initialize_state()

    def open(self) -> None:
        """Prepares for elements."""
        self.watermarks.open()
        self.source.open()

    def finish(self) -> None:
        """Emits what is still kept."""
        self.source.finish()
        self.watermarks.finish()

    def close(self) -> None:
        """Releases what was opened."""
        self.source.close()
        self.watermarks.close()

    def emit_next(self, limit: int) -> int:
        """Emits at most about ``limit`` elements without blocking."""
        try:
            return self.source.emit_next(limit)
        except BaseException as error:
            self.failed_with = error
            raise

    def wait_available(self, timeout_ms: int) -> None:
        """Blocks until there may be more, or the time is over."""
        self.source.wait_available(timeout_ms)

    def wakeup(self) -> None:
        """Ends a wait from another thread."""
        self.source.wakeup()

    def cancel(self) -> None:
        """Ends the source early, from any thread."""
        self.source.cancel()
