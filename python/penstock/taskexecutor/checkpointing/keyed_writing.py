"""Snapshots of keyed state: full, incremental, or as a log."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.common.options import changelog
from penstock.common.options.checkpointing import INCREMENTAL, SNAPSHOT_COMPRESSION
from penstock.common.options.rocksdb import TRANSFER_THREADS
from penstock.network.events import SnapshotKind
from penstock.taskexecutor.checkpointing.changelog_states import ChangelogStates
from penstock.taskexecutor.checkpointing.incremental_states import IncrementalStates
from penstock.taskexecutor.checkpointing.materialization import PeriodicMaterialization
from penstock.taskexecutor.checkpointing.uploaded_files import UploadedFiles
from penstock.taskexecutor.state.keyed_state_backend import no_base

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.checkpoint_storage.handles import IncrementalKeyGroupsHandle
    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.network.events import CheckpointBarrier
    from penstock.taskexecutor.state.snapshot import OperatorSnapshot, RunningSnapshot
    from penstock.taskexecutor.task.task_environment import TaskEnvironment

_Handles = tuple["IncrementalKeyGroupsHandle", ...]


class KeyedWriting:
    """State written by a task's checkpoints, to which later ones refer.

    ``write`` and ``failed`` run in the thread that writes, the rest in the task's.
    """

    def __init__(self, environment: TaskEnvironment) -> None:
        """Starts without: as the job's configuration says."""
        configuration = environment.configuration
        compresses = SNAPSHOT_COMPRESSION.read(configuration)
        self._configuration = configuration
        self._task_name = environment.task_name
        self._logged: ChangelogStates | None = None
        self._increments: IncrementalStates | None = None
        self._files: UploadedFiles | None = None
        self._materialization: PeriodicMaterialization | None = None
        if changelog.ENABLED.read(configuration):
            self._logged = ChangelogStates(environment.files, configuration, compresses=compresses)
        elif INCREMENTAL.read(configuration):
            self._increments = IncrementalStates(environment.files, compresses=compresses)
            self._files = UploadedFiles(environment.files, TRANSFER_THREADS.read(configuration))
        kinds = (self._files, self._increments, self._logged)
        self._kinds = [kind for kind in kinds if kind is not None]

    @property
    def refers(self) -> bool:
        """Return whether checkpoints refer to earlier ones."""
        return bool(self._kinds)

    def materialize(self, **how: Any) -> None:
        """Has state written as a whole from time to time, if that is wanted.

        Args:
            how: What `PeriodicMaterialization` is given beside.
        """
        if self._logged is not None and changelog.MATERIALIZE.read(self._configuration):
            self._materialization = PeriodicMaterialization(
                self._logged, self._configuration, self._task_name, **how
            )

    def begin(self, barrier: CheckpointBarrier) -> Callable[[bytes], Any]:
        """A checkpoint is about to be taken; gives what it may refer to of an operator, or None."""
        is_full = _is_full(barrier)
        if barrier.kind.is_savepoint:
            return no_base
        if self._logged is not None:
            return self._logged.begin(barrier.checkpoint_id, is_full=is_full).get
        if self._increments is not None:
            return self._increments.begin(barrier.checkpoint_id, is_full=is_full).of
        return no_base

    def write(
        self,
        barrier: CheckpointBarrier,
        operator_id: bytes,
        operator: RunningSnapshot,
        base: Any,
        open_stream: Callable[..., StateOutputStream],
    ) -> tuple[OperatorSnapshot, _Handles | None, int]:
        """Writes the keyed state of an operator, unless that is left to who writes all of it.

        Args:
            barrier: Of the checkpoint.
            operator_id: The operator.
            operator: Its state.
            base: What ``begin`` gave of it; None for nothing.
            open_stream: Opens a stream of the checkpoint; see the classes that are given it.

        Returns:
            The snapshot, the handles of what is written or None, and the bytes referred to.

        Raises:
            OSError: A stream cannot be written.
        """
        if not self._kinds or barrier.kind.is_savepoint:
            return operator.finished(), None, 0
        folder = operator.database_files()
        finished = operator.finished()
        if self._logged is not None:
            written = self._logged.write(operator_id, finished, folder, base, open_stream)
        elif folder is not None and self._files is not None:
            written = self._files.write(
                finished.checkpoint_id,
                operator_id,
                folder,
                open_stream,
                is_full=_is_full(barrier),
            )
        else:
            assert self._increments is not None, "there is one of them"
            written = self._increments.write(operator_id, finished, base, open_stream)
        return finished, *written

    def completed(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: later ones may refer to it."""
        for kind in self._kinds:
            kind.completed(checkpoint_id)
        if self._materialization is not None:
            self._materialization.checkpoint_completed()

    def failed(self, checkpoint_id: int) -> None:
        """A checkpoint could not be written to its end: deletes what nobody will hear of."""
        for kind in self._kinds:
            with suppress(Exception):
                # What cannot be written cannot be deleted, perhaps; the error is the first.
                kind.failed(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        """A checkpoint will not be complete."""
        for kind in self._kinds:
            kind.aborted(checkpoint_id)

    def close(self) -> None:
        """Begins nothing more, and deletes what no checkpoint has."""
        if self._materialization is not None:
            self._materialization.close()
        if self._logged is not None:
            self._logged.close()


def _is_full(barrier: CheckpointBarrier) -> bool:
    """Return whether the user wants a checkpoint that refers to no file of another one."""
    return barrier.kind is SnapshotKind.FULL_CHECKPOINT
