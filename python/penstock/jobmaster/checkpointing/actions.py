"""Actions of the checkpoint coordinator, and their answers.

| action | answering event of `CheckpointCoordinator` |
|---|---|
| `CreateLocation` | `location_created` or `storage_failed` |
| `SnapshotCoordinators` | `coordinators_snapshotted` or `coordinators_failed` |
| `TriggerTasks` | `acknowledged` or `declined` of each task that takes part |
| `AskTasks` | `standings_reported` of each worker |
| `StoreMetadata` | `metadata_stored` or `storage_failed` |
| `DiscardCheckpoint` | `discarded`, whether or not it succeeded |
| the others | none |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata
    from penstock.checkpoint_storage.handles import FileHandle, TaskStateSnapshot
    from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason
    from penstock.jobmaster.checkpointing.completed_store import CompletedCheckpoint
    from penstock.jobmaster.checkpointing.plan import Participant
    from penstock.jobmaster.checkpointing.properties import CheckpointProperties
    from penstock.network.events import Alignment


@dataclass(frozen=True)
class CreateLocation:
    """Create the directory of a checkpoint."""

    checkpoint_id: int
    properties: CheckpointProperties


@dataclass(frozen=True)
class SnapshotCoordinators:
    """Snapshot the states of the operators' coordinators."""

    checkpoint_id: int


@dataclass(frozen=True)
class TriggerTasks:
    """Trigger a checkpoint in tasks.

    Attributes:
        checkpoint_id: The checkpoint.
        timestamp_ms: When it was triggered, wall clock.
        properties: Its purpose.
        alignment: How the tasks align their channels.
        aligned_timeout_ms: After this time aligned barriers overtake data.
        location: The directory that `location_created` named.
        tasks: The tasks to trigger.
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
    """Ask the workers of tasks how far these are with a checkpoint that is about to expire."""

    checkpoint_id: int
    tasks: tuple[Participant, ...]


@dataclass(frozen=True)
class StoreMetadata:
    """Publish the metadata of a checkpoint: from then on it can be restored.

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
    """Notify tasks and coordinators that a checkpoint is complete, and durable."""

    checkpoint_id: int
    tasks: tuple[Participant, ...]


@dataclass(frozen=True)
class NotifyAborted:
    """Notify tasks and coordinators that a checkpoint is aborted.

    Attributes:
        latest_completed_id: The id of the latest complete checkpoint; -1 if there is none.
    """

    checkpoint_id: int
    tasks: tuple[Participant, ...]
    latest_completed_id: int


@dataclass(frozen=True)
class DiscardState:
    """Delete the files that a task wrote for a checkpoint that is no longer pending."""

    checkpoint_id: int
    state: TaskStateSnapshot


@dataclass(frozen=True)
class DiscardPending:
    """Delete the directory of an aborted checkpoint; ``location`` may be unknown yet.

    Attributes:
        checkpoint_id: The checkpoint.
        location: Its directory.
        states: The reported states, whose files are deleted.
        unused: Further files to delete, which no other checkpoint uses any more.
    """

    checkpoint_id: int
    location: str | None
    states: tuple[TaskStateSnapshot, ...]
    unused: tuple[FileHandle, ...] = ()


@dataclass(frozen=True)
class DiscardCheckpoint:
    """Delete a completed checkpoint.

    Attributes:
        checkpoint: Its files and its directory are deleted.
        unused: Further files to delete, which no other checkpoint uses any more.
    """

    checkpoint: CompletedCheckpoint
    unused: tuple[FileHandle, ...] = ()


@dataclass(frozen=True)
class RequestCompleted:
    """Answer `request`: the checkpoint is complete."""

    number: int
    checkpoint: CompletedCheckpoint


@dataclass(frozen=True)
class RequestFailed:
    """Answer `request`: the checkpoint failed."""

    number: int
    reason: CheckpointFailureReason
    detail: str


@dataclass(frozen=True)
class FailJob:
    """Fail the job, which may restart."""

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
