"""The life cycle of one operator's state: restore, snapshot, notifications of checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.datastream.functions.checkpointed import CheckpointedFunction, CheckpointListener
from penstock.taskexecutor.compiled import StreamOperator
from penstock.taskexecutor.state.function_state import InitializationContext, SnapshotContext

if TYPE_CHECKING:
    from penstock.taskexecutor.state.backends.keyed_state_backend import KeyedBase, LogBase
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot, RunningSnapshot
    from penstock.taskexecutor.task.operator_context import TaskOperatorContext


class StreamOperatorStateHandler:
    """Calls an operator, its user function and its backends in order for each checkpoint.

    Attributes:
        operator: The operator.
    """

    def __init__(self, operator: StreamOperator, context: TaskOperatorContext) -> None:
        """Handle the state of ``operator``, which is set up with ``context``."""
        self.operator = operator
        self._context = context
        self._function = context.descriptor.user_function
        self._is_checkpointed = isinstance(self._function, CheckpointedFunction)
        overridden = type(operator).snapshot_state
        self._takes_part = self._is_checkpointed or overridden is not StreamOperator.snapshot_state

    def initialize_state(self, restored: OperatorSnapshot | None) -> None:
        """Restore the backends, then initialise operator and function; called before ``open``.

        Args:
            restored: The snapshot to start from; None to start without state.
        """
        if restored is not None:
            self._context.restore(restored)
        context = InitializationContext(self._context, restored)
        self.operator.initialize_state(context)
        if isinstance(self._function, CheckpointedFunction):
            self._context.leave_key(self._function, "initialize_state")
            self._function.initialize_state(context)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Let the operator emit records before the barrier."""
        self.operator.prepare_snapshot_pre_barrier(checkpoint_id)

    def snapshot_state(
        self, checkpoint_id: int, timestamp_ms: int, base: KeyedBase | LogBase | None = None
    ) -> RunningSnapshot | None:
        """Open a snapshot: call operator and function first, then snapshot the backends.

        None means no state, as for most operators of most jobs.

        Args:
            checkpoint_id: The checkpoint.
            timestamp_ms: The time at which it was triggered.
            base: The keyed state that an earlier checkpoint has, or None.
        """
        if not self._takes_part and not self._context.has_state:
            return None
        context = SnapshotContext(checkpoint_id, timestamp_ms, self._context.key_groups)
        self.operator.snapshot_state(context)
        if self._is_checkpointed:
            self._context.leave_key(self._function, "snapshot_state")
            self._function.snapshot_state(context)
        if not (context.has_raw_state or self._context.has_state):
            return None
        return self._context.snapshot(
            checkpoint_id, context.raw_key_groups(), context.raw_partitions(), base
        )

    @property
    def hears_of_completion(self) -> bool:
        """Return whether operator or function act on completed checkpoints."""
        return isinstance(self._function, CheckpointListener) or hears_of_completion(self.operator)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify operator and function of a completed checkpoint."""
        self.operator.notify_checkpoint_complete(checkpoint_id)
        if isinstance(self._function, CheckpointListener):
            self._context.leave_key(self._function, "notify_checkpoint_complete")
            self._function.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify operator and function of an aborted checkpoint."""
        self.operator.notify_checkpoint_aborted(checkpoint_id)
        if isinstance(self._function, CheckpointListener):
            self._context.leave_key(self._function, "notify_checkpoint_aborted")
            self._function.notify_checkpoint_aborted(checkpoint_id)


def hears_of_completion(operator: StreamOperator) -> bool:
    """Return whether an open operator acts on completed checkpoints.

    An operator that does so only sometimes has a property of this name.
    """
    overridden = type(operator).notify_checkpoint_complete
    if overridden is StreamOperator.notify_checkpoint_complete:
        return False
    return bool(getattr(operator, "hears_of_completion", True))
