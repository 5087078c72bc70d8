"""Purpose of a checkpoint, which decides how it is taken and when it is deleted (M62)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from penstock.network.events import SavepointFormat, SnapshotKind


class Retention(enum.Enum):
    """Retention of completed checkpoints when the job ends."""

    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"


@dataclass(frozen=True)
class CheckpointProperties:
    """Properties of one checkpoint.

    Attributes:
        kind: Checkpoint or savepoint, and whether the job stops with it.
        forced: Taken even if others are pending.
        savepoint_format: The format of a savepoint.
        target: Directory of a savepoint; None for the job's own.
        discard_subsumed: Deleted once enough later ones are complete.
        discard_finished: Deleted when the job finishes.
        discard_cancelled: Deleted when the job is cancelled.
        discard_failed: Deleted when the job fails.
        discard_suspended: Deleted when the job is suspended.
        ends_job: Whether the job ends with it, so that no other may be taken meanwhile.
        overtakes: Whether its barriers may overtake data, which it then holds.
    """

    kind: SnapshotKind
    forced: bool = False
    savepoint_format: SavepointFormat = SavepointFormat.CANONICAL
    target: str | None = None
    discard_subsumed: bool = True
    discard_finished: bool = True
    discard_cancelled: bool = True
    discard_failed: bool = True
    discard_suspended: bool = True
    ends_job: bool = False
    overtakes: bool = True

    @property
    def is_savepoint(self) -> bool:
        """Return whether the user owns it."""
        return self.kind.is_savepoint

    @property
    def is_told(self) -> bool:
        """Return whether tasks are notified of its completion, and then commit."""
        return not self.is_savepoint or self.is_synchronous

    @property
    def is_synchronous(self) -> bool:
        """Return whether the tasks wait for its completion and then end."""
        return self.kind in (SnapshotKind.SAVEPOINT_SUSPEND, SnapshotKind.SAVEPOINT_TERMINATE)

    @classmethod
    def checkpoint(
        cls,
        retention: Retention,
        *,
        full: bool = False,
        forced: bool = False,
        overtakes: bool = True,
    ) -> CheckpointProperties:
        """Return the properties of a checkpoint with this retention."""
        return cls(
            SnapshotKind.FULL_CHECKPOINT if full else SnapshotKind.CHECKPOINT,
            forced=forced,
            discard_cancelled=retention is not Retention.RETAIN_ON_CANCELLATION,
            discard_failed=retention is Retention.NO_EXTERNALIZED_CHECKPOINTS,
            discard_suspended=retention is not Retention.RETAIN_ON_CANCELLATION,
            overtakes=overtakes,
        )

    @classmethod
    def savepoint(
        cls,
        kind: SnapshotKind,
        savepoint_format: SavepointFormat,
        target: str | None,
        *,
        cancels_job: bool = False,
    ) -> CheckpointProperties:
        """Return the properties of a savepoint, which only the user deletes.

        Args:
            kind: A savepoint, and whether the tasks stop with it.
            savepoint_format: Its format.
            target: The parent of its directory.
            cancels_job: Whether the job is cancelled once a plain savepoint is complete.
        """
        ends_job = cancels_job or kind is not SnapshotKind.SAVEPOINT
        return cls(
            kind, True, savepoint_format, target, False, False, False, False, False, ends_job
        )
