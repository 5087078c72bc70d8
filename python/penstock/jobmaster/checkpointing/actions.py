"""Actions of the checkpoint coordinator, and their answers.

| action | answering event of `CheckpointCoordinator` |
|---|---|
| `CreateLocation` | `location_created` or `storage_failed` |
| `SnapshotCoordinators` | `coordinators_snapshotted` or `coordinators_failed` |
| `TriggerTasks` | `acknowledged` or `declined` of each task that takes part |
| `AskTasks` | `standings_reported` of each worker |
| `StoreMetadata` | `metadata_stored` or `storage_failed` |
| `DiscardCheckpoint` | `discarded`, whether or not it went well |
| the others | none |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata
    from penstock.checkpoint_storage.handles import FileHandle, TaskStateSnapshot
    from penstock.common.checkpoint_failure_reason import CheckpointFailureReason
    from penstock.jobmaster.checkpointing.completed_store import CompletedCheckpoint
    from penstock.jobmaster.checkpointing.plan import Participant
    from penstock.jobmaster.checkpointing.properties import CheckpointProperties
    from penstock.network.events import Alignment


@dataclass(frozen=True)
class CreateLocation:
    """Makes the directory of a checkpoint."""

    checkpoint_id: int
    properties: CheckpointProperties


@dataclass(frozen=True)
class SnapshotCoordinators:
    """Takes the states of the operators' coordinators."""

    checkpoint_id: int


@dataclass(frozen=True)
class TriggerTasks:
    """Has tasks begin a checkpoint.

    Attributes:
        checkpoint_id: The checkpoint.
        timestamp_ms: When it was triggered, wall clock.
        properties: What it is for.
        alignment: How the tasks bring their channels to one point.
        aligned_timeout_ms: After how long aligned barriers overtake data.
        location: Directory that `location_created` named.
        tasks: Those that begin.
    """

    checkpoint_id: int
    timestamp_ms: int
    properties: CheckpointProperties
    alignment: Alignment
    aligned_timeout_ms: int
    location: str
    tasks: tuple[Participant, ...]


@dataclass(frozen=True)
class AskTasks:
    """Asks the workers of tasks how far these are with a checkpoint that is about to expire."""

    checkpoint_id: int
    tasks: tuple[Participant, ...]


@dataclass(frozen=True)
class StoreMetadata:
    """Publishes the metadata of a checkpoint: from then on it can be restored.

    Attributes:
        metadata: The metadata.
        location: The checkpoint's directory.
        is_restored_from: Whether the job itself restarts from it, unlike from a savepoint.
    """

    metadata: CheckpointMetadata
    location: str
    is_restored_from: bool


@dataclass(frozen=True)
class NotifyComplete:
    """Tells tasks and coordinators that a checkpoint is complete, and durable."""

    checkpoint_id: int
    tasks: tuple[Participant, ...]


@dataclass(frozen=True)
class NotifyAborted:
    """Tells tasks and coordinators that a checkpoint will not be complete.

    Attributes:
        latest_completed_id: The last one that is; -1 when there is none.
    """

    checkpoint_id: int
    tasks: tuple[Participant, ...]
    latest_completed_id: int


@dataclass(frozen=True)
class DiscardState:
    """Deletes what a task has written for a checkpoint that nobody waits for."""

    checkpoint_id: int
    state: TaskStateSnapshot


@dataclass(frozen=True)
class DiscardPending:
    """Deletes the directory of a checkpoint that was given up; ``location`` may be unknown yet.

    Attributes:
        checkpoint_id: The checkpoint.
        location: Its directory.
        states: What was reported, whose files go.
        unused: So do these files, which no other checkpoint uses any more.
    """

    checkpoint_id: int
    location: str | None
    states: tuple[TaskStateSnapshot, ...]
    unused: tuple[FileHandle, ...] = ()


@dataclass(frozen=True)
class DiscardCheckpoint:
    """Deletes a completed checkpoint.

    Attributes:
        checkpoint: Its files and its directory go.
        unused: So do these files, which no other checkpoint uses any more.
    """

    checkpoint: CompletedCheckpoint
    unused: tuple[FileHandle, ...] = ()


@dataclass(frozen=True)
class RequestCompleted:
    """Answers `request`: the checkpoint is complete."""

    number: int
    checkpoint: CompletedCheckpoint


@dataclass(frozen=True)
class RequestFailed:
    """Answers `request`: there will be no such checkpoint."""

    number: int
    reason: CheckpointFailureReason
    detail: str


@dataclass(frozen=True)
class FailJob:
    """Fails the job, which may restart."""

    message: str


CheckpointAction = (
    CreateLocation
    | SnapshotCoordinators
    | TriggerTasks
    | AskTasks
    | StoreMetadata
    | NotifyComplete
    | NotifyAborted
    | DiscardState
    | DiscardPending
    | DiscardCheckpoint
    | RequestCompleted
    | RequestFailed
    | FailJob
)
