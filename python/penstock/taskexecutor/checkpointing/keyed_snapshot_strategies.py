"""Snapshots of keyed state: full, incremental, or with a change log."""

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
from penstock.taskexecutor.state.backends.keyed_state_backend import no_base

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.checkpoint_storage.handles import IncrementalKeyGroupsHandle
    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.network.events import CheckpointBarrier
    from penstock.taskexecutor.state.backends.keyed_state_backend import KeyedBase, LogBase
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot, RunningSnapshot
    from penstock.taskexecutor.task.task_environment import TaskEnvironment

_Handles = tuple["IncrementalKeyGroupsHandle", ...]


class KeyedSnapshotStrategies:
    """State written by a task's checkpoints, to which later ones refer.

    ``write`` and ``failed`` run in the writing thread, the rest in the task's.
    """

    def __init__(self, environment: TaskEnvironment) -> None:
        """Choose the snapshot strategies that the job configures."""
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
        """Start periodic materialization if it is configured.

        Args:
            how: The remaining arguments of `PeriodicMaterialization`.
        """
        if self._logged is not None and changelog.MATERIALIZE.read(self._configuration):
            self._materialization = PeriodicMaterialization(
                self._logged, self._configuration, self._task_name, **how
            )

    def begin(self, barrier: CheckpointBarrier) -> Callable[[bytes], KeyedBase | LogBase | None]:
        """Begin a checkpoint and return a function from operator to base, or None."""
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
        """Write an operator's keyed state, unless the snapshot writer writes it with the rest.

        Args:
            barrier: The checkpoint's barrier.
            operator_id: The operator.
            operator: Its state.
            base: The base from ``begin``, if there is one.
            open_stream: Opens a stream of the checkpoint; see the classes that receive it.

        Returns:
            The snapshot, the written handles or None, and the bytes referred to.

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
        """Note a complete checkpoint, to which later ones may refer."""
        for kind in self._kinds:
            kind.completed(checkpoint_id)
        if self._materialization is not None:
            self._materialization.checkpoint_completed()

    def failed(self, checkpoint_id: int) -> None:
        """Delete the files of a checkpoint that could not be written completely."""
        for kind in self._kinds:
            with suppress(Exception):
                # If writing failed, deleting may fail too; the first error counts.
                kind.failed(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        """Handle a checkpoint that will not complete."""
        for kind in self._kinds:
            kind.aborted(checkpoint_id)

    def close(self) -> None:
        """Stop materialization and delete full snapshots that no checkpoint contains."""
        if self._materialization is not None:
            self._materialization.close()
        if self._logged is not None:
            self._logged.close()


def _is_full(barrier: CheckpointBarrier) -> bool:
    """Return whether the user asked for a checkpoint that refers to no other one's files."""
    return barrier.kind is SnapshotKind.FULL_CHECKPOINT
