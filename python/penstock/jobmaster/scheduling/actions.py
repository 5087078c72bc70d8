"""Actions of the scheduler: the only way out of the state machines.

Every event method of `Scheduler` returns a list of these, to be executed in order.  If an action
fails, the failure is reported as another event.

Events (each takes `now_ms`, a monotonic time in ms):

| event | when |
|---|---|
| `start` | the JobMaster has become leader |
| `slots_offered` | a TaskExecutor offers slots to the job |
| `executor_lost` | its connection broke, its heartbeat timed out, or it disconnected |
| `slot_failed` | a TaskExecutor withdraws one slot |
| `task_state_changed` | a TaskExecutor reports a state of an attempt |
| `deployment_failed` | a deployment was refused or not acknowledged in time |
| `cancellation_failed` | a cancellation could not be delivered, retries included |
| `cancel`, `fail`, `suspend` | the user, a global failure, loss of leadership or shutdown |
| `slots_not_available` | workers cannot be started |
| `rescale` | the user or `AskForRescaling` requested it, and its checkpoint is complete |
| `rescaling_refused` | the rescaling that `AskForRescaling` requested was not possible |
| `tick` | the time of `next_deadline_ms()` has come |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.scheduling.failure import Failure
    from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus
    from penstock.rpc.task_deployment import TaskDeploymentDescriptor


@dataclass(frozen=True)
class RequestSlots:
    """Declare how many slots the job needs now; this replaces the previous declaration.

    Attributes:
        required: Slots needed in total.
        missing: How many of them the pool does not have yet.
    """

    required: int
    missing: int


@dataclass(frozen=True)
class AcceptSlot:
    """Accept an offer: the slot now belongs to the job."""

    executor_id: str
    allocation_id: bytes


@dataclass(frozen=True)
class RejectSlot:
    """Reject an offer: the job does not need the slot."""

    executor_id: str
    allocation_id: bytes


@dataclass(frozen=True)
class ReleaseSlot:
    """Return an accepted slot to its TaskExecutor."""

    executor_id: str
    allocation_id: bytes
    reason: str


@dataclass(frozen=True)
class Deploy:
    """Deploy an attempt to a TaskExecutor, with the code of its vertex if that is missing there."""

    attempt_id: ExecutionAttemptID
    executor_id: str
    deployment: TaskDeploymentDescriptor
    code: bytes


@dataclass(frozen=True)
class CancelTask:
    """Ask a TaskExecutor to cancel an attempt; it reports CANCELED when that is done."""

    attempt_id: ExecutionAttemptID
    executor_id: str


@dataclass(frozen=True)
class ReleasePartitions:
    """Ask a TaskExecutor to drop blocking partitions of ended attempts."""

    executor_id: str
    partition_ids: tuple[bytes, ...]


@dataclass(frozen=True)
class TaskStateChanged:
    """Notify listeners that an attempt changed its state."""

    attempt_id: ExecutionAttemptID
    task_name: str
    old: ExecutionState
    new: ExecutionState
    at_ms: int
    failure: Failure | None = None


@dataclass(frozen=True)
class JobStatusChanged:
    """Notify listeners that the job changed its status; if FAILED, the failure is its result."""

    old: JobStatus
    new: JobStatus
    at_ms: int
    failure: Failure | None = None


@dataclass(frozen=True)
class ScheduleRestart:
    """Notify listeners that subtasks will restart, in a `tick` at or after ``at_ms``.

    Attributes:
        at_ms: Earliest time of the restart.
        subtasks: (JobVertexID, subtask index) of each.
        is_global: Whether the whole job restarts.
        failure: The cause.
        repetition: The message about a failure that repeats; empty otherwise.
    """

    at_ms: int
    subtasks: frozenset[tuple[bytes, int]]
    is_global: bool
    failure: Failure
    repetition: str = ""


@dataclass(frozen=True)
class ParallelismChanged:
    """Notify listeners that the job continues with other parallelisms; before `RestoreState`.

    Attributes:
        parallelisms: The new parallelism of each vertex that changed.
    """

    parallelisms: dict[bytes, int]


@dataclass(frozen=True)
class AskForRescaling:
    """Request a checkpoint and then `rescale` without parallelisms, or `rescaling_refused`."""


@dataclass(frozen=True)
class AbortCheckpoints:
    """Ask the checkpoint coordinator to abort pending checkpoints: tasks will restart."""

    reason: str


@dataclass(frozen=True)
class RestoreState:
    """Ask the checkpoint coordinator to assign state to the new attempts of these subtasks.

    It precedes the `Deploy` actions of those attempts, whose deployments read the state from
    their `Execution`; if it fails, that is a global failure.
    """

    subtasks: frozenset[tuple[bytes, int]]
    is_global: bool


Action = (
    RequestSlots
    | AcceptSlot
    | RejectSlot
    | ReleaseSlot
    | Deploy
    | CancelTask
    | ReleasePartitions
    | TaskStateChanged
    | JobStatusChanged
    | ScheduleRestart
    | ParallelismChanged
    | AskForRescaling
    | AbortCheckpoints
    | RestoreState
)
