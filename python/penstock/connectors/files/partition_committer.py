"""The committer of a FileSink with partition commit: one subtask for all writers.

Writers end the files of a partition that is due at the barrier of a checkpoint.  Watermarks arrive
here before the barrier, so when the checkpoint is complete, all files of the partitions that its
watermark has passed have their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.typeinfo import Types
from penstock.connectors.files.part_folders import folder_of
from penstock.connectors.files.partition_commit import PartitionCommitContext
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import SinkError
from penstock.serialization.versioned_form import VersionedForm
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.sinks.committer import CommitterOperator

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.committer import (
        CommittableWithLineage,
        Committer,
        CommitterInitContext,
    )
    from penstock.connectors.files.partition_commit import PartitionCommit
    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_STATE: Final = "pending-partitions"

_FORM: Final = VersionedForm("partitions to be committed", ("watermark", "since_ms"))


class PartitionCommitterOperator(CommitterOperator):
    """Commits files, and then the partitions whose trigger fires."""

    def __init__(
        self,
        context: OperatorContext,
        create: Callable[[CommitterInitContext], Committer[Any]],
        partition_commit: PartitionCommit,
    ) -> None:
        """Create the operator.

        Args:
            context: The context of the operator.
            create: Creates the committer of files.
            partition_commit: The trigger and the policies.
        """
        super().__init__(create)
        self._commit_of = partition_commit
        self._folder = folder_of(partition_commit.base_path, context.environment)
        self._now = context.processing_time.now
        self._watermark = MIN_TIMESTAMP
        # The watermark at each checkpoint that is not known to be complete.
        self._watermarks: dict[int, int] = {}
        # The time of the first file of each partition that has files since its last commit.
        self._since_ms: dict[str, int] = {}
        self._partition_state: Any = None
        self._is_finished = False

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the partitions and the watermark of a checkpoint."""
        super().initialize_state(context)
        self._partition_state = context.get_operator_state_store().get_list_state(
            ListStateDescriptor(_STATE, Types.PICKLED_BYTE_ARRAY())
        )
        restored_id = context.get_restored_checkpoint_id()
        for watermark, since_ms in map(_FORM.read, self._partition_state.get()):
            self._since_ms.update(since_ms)
            self._watermarks[restored_id or 0] = watermark

    def process_watermark(self, timestamp: int) -> None:
        """Record the event time that all writers have reached."""
        self._watermark = timestamp

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store the partitions that are not committed, and the watermark."""
        super().snapshot_state(context)
        self._watermarks[context.get_checkpoint_id()] = self._watermark
        self._partition_state.update([_FORM.write(self._watermark, dict(self._since_ms))])

    def finish(self) -> None:
        """Commit the rest, with the last checkpoint or now."""
        self._is_finished = True
        super().finish()
        # Without a last checkpoint the files are committed by now.
        if not self._pending:
            self._commit_partitions(self._watermark)

    def _commit_up_to(self, checkpoint_id: int) -> None:
        super()._commit_up_to(checkpoint_id)
        reached = [number for number in self._watermarks if number <= checkpoint_id]
        if reached:
            watermark = self._watermarks[max(reached)]
            for number in reached:
                del self._watermarks[number]
            self._commit_partitions(watermark)

    def _commit(self, due: list[CommittableWithLineage[Any]]) -> None:
        super()._commit(due)
        now_ms = self._now()
        for held in due:
            partition = self._folder.bucket_of(held.committable.final_path)
            self._since_ms.setdefault("" if partition == "." else partition, now_ms)

    def _commit_partitions(self, watermark: int) -> None:
        now_ms, trigger = self._now(), self._commit_of.trigger
        due = [
            partition
            for partition, since_ms in self._since_ms.items()
            if self._is_finished or trigger.is_due(partition, since_ms, now_ms, watermark)
        ]
        files = self.context.environment.files
        for partition in due:
            path = f"{self._commit_of.base_path.rstrip('/')}/{partition}".rstrip("/")
            context = PartitionCommitContext(partition, path, files)
            for policy in self._commit_of.policies:
                try:
                    policy.commit(context)
                except SinkError:
                    raise
                except Exception as error:
                    raise SinkError(
                        f"{self.context.name} cannot commit the partition {path}: "
                        f"{type(error).__name__}: {error}"
                    ) from error
            del self._since_ms[partition]
