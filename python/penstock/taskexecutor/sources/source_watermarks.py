"""Timestamps and watermarks that a source's strategy adds to its records."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from penstock.taskexecutor.compiled import (
    NOTHING_AVAILABLE,
    ChainingOutput,
    Output,
    SourceOperator,
)
from penstock.taskexecutor.operators.watermarks import WatermarkEmitter, WatermarksOperator
from penstock.taskexecutor.sources.alignment import AlignedReader
from penstock.taskexecutor.sources.split_state import SplitState
from penstock.taskexecutor.state.state_handler import hears_of_completion

if TYPE_CHECKING:
    from penstock.common.watermark_strategy import WatermarkAlignment
    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.graph.operators import SourceDescriptor
    from penstock.rpc.messages import FromCoordinator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: Records between two checks of the alignment's limit.
_ALIGNED_STEP: Final = 64


def with_watermarks(
    context: OperatorContext, descriptor: SourceDescriptor, source: SourceOperator
) -> SourceOperator:
    """Return the source, followed by the watermarks operator if its strategy needs one."""
    strategy = descriptor.watermark_strategy
    if strategy is None or (
        strategy.timestamp_assigner is None
        and strategy.idle_timeout_ms is None
        and strategy.alignment is None
        and not strategy.emits_periodically
    ):
        return source
    return SourceWithWatermarks(source, WatermarksOperator(context, strategy), strategy.alignment)


class SourceWithWatermarks(SourceOperator):
    """Puts a watermarks operator between a source and its output."""

    def __init__(
        self,
        source: SourceOperator,
        watermarks: WatermarksOperator,
        alignment: WatermarkAlignment | None,
    ) -> None:
        super().__init__()
        self.source = source
        self.watermarks = watermarks
        self.asked_alignment = alignment
        self.lock = getattr(source, "lock", None)
        self.stop = getattr(source, "stop", None)
        self.alignment: AlignedReader | None = None
        #: Emitter of the source that was read before this one, if there was one.
        self.former_emitter: WatermarkEmitter | None = None
        self.woken = threading.Event()
        self.cancelled = False

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Set up both; the task sees the input of the watermarks as the source's output."""
        self.watermarks.setup(context, output)
        to_watermarks = ChainingOutput(self.watermarks)
        self.source.setup(context, to_watermarks)
        if hasattr(self.source, "side_output"):
            # Watermarks do not concern side outputs.
            self.source.side_output = output
        if isinstance(self.source, SplitState):
            self.source.next_split = self.watermarks.begin_split
        super().setup(context, to_watermarks)

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the source's state."""
        self.source.initialize_state(context)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Let the source emit records before the barrier."""
        self.source.prepare_snapshot_pre_barrier(checkpoint_id)

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store the source's state; watermarks have none."""
        self.source.snapshot_state(context)

    @property
    def hears_of_completion(self) -> bool:
        """Return whether the source acts on complete checkpoints."""
        return hears_of_completion(self.source)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the source of a complete checkpoint."""
        self.source.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the source of an aborted checkpoint."""
        self.source.notify_checkpoint_aborted(checkpoint_id)

    def open(self) -> None:
        """Open the watermarks, the alignment and the source."""
        self.watermarks.open()
        if self.former_emitter is not None:
            self.watermarks.emitter = self.former_emitter
        alignment = self.asked_alignment
        if alignment is not None:
            emitter = self.watermarks.emitter
            self.alignment = AlignedReader(
                self.context, alignment, lambda: emitter.watermark, lambda: emitter.idle
            )
            self.alignment.start()
            aligned = self.alignment
            self.watermarks.is_held = lambda: not aligned.may_read
        self.source.open()

    def finish(self) -> None:
        """Finish the source and emit the last watermark."""
        self.source.finish()
        self.watermarks.finish()
        if self.alignment is not None:
            self.alignment.finish()

    def close(self) -> None:
        """Close the source and stop the alignment."""
        if self.alignment is not None:
            self.alignment.stop()
        self.source.close()
        self.watermarks.close()

    def give_way(self) -> WatermarkEmitter:
        """Emit the last watermark and end; return the emitter for the source that follows."""
        self.watermarks.finish()
        self.watermarks.stop()
        self.close()
        emitter: WatermarkEmitter = self.watermarks.emitter
        return emitter

    def emit_next(self, limit: int) -> int:
        """Emit about ``limit`` records at most, without blocking."""
        if self.alignment is None:
            return self.source.emit_next(limit)
        if not self.alignment.may_read and not self.cancelled:
            return NOTHING_AVAILABLE
        return self.source.emit_next(min(limit, _ALIGNED_STEP))

    def wait_available(self, timeout_ms: int) -> None:
        """Block until more records may be available, or the time is over."""
        if self.alignment is None or self.alignment.may_read:
            self.source.wait_available(timeout_ms)
            return
        if not self.cancelled:
            self.woken.wait(timeout_ms / 1000)
            self.woken.clear()

    def wakeup(self) -> None:
        """End a wait; any thread."""
        self.woken.set()
        self.source.wakeup()

    def cancel(self) -> None:
        """End the source early; any thread."""
        self.cancelled = True
        self.woken.set()
        self.source.cancel()

    def handle_operator_event(self, message: FromCoordinator) -> None:
        """Handle a message of the source's coordinator."""
        if self.alignment is not None:
            self.alignment.handle(message)
