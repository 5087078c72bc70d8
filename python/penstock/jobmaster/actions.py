"""Actions of the scheduler: the only way out of the state machines.

Every event method of `Scheduler` returns a list of these, to be carried out in order.  Carrying
one out may fail; the failure comes back as another event.

Events in (all take `now_ms`, a monotonic time in ms):

| event | when |
|---|---|
| `start` | the JobMaster has become leader |
| `slots_offered` | a TaskExecutor offers slots to the job |
| `executor_lost` | its connection broke, its heartbeat timed out, or it said good-bye |
| `slot_failed` | a TaskExecutor takes back one slot |
| `task_state_changed` | a TaskExecutor reports a state of an attempt |
| `deployment_failed` | a deployment was refused or not acknowledged in time |
| `cancellation_failed` | a cancellation could not be delivered, retries included |
| `cancel`, `fail`, `suspend` | the user, a global failure, loss of leadership or shutdown |
| `slots_not_available` | workers cannot be started |
| `rescale` | the user or `AskForRescaling` wants it, and the checkpoint for it is complete |
| `rescaling_refused` | it could not be done as `AskForRescaling` wanted |
| `tick` | the time of `next_deadline_ms()` has come |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.failure import Failure
    from penstock.jobmaster.states import ExecutionState, JobStatus
    from penstock.rpc.task_deployment import TaskDeploymentDescriptor


@dataclass(frozen=True)
class RequestSlots:
    """Declares how many slots the job needs now; replaces what was declared before.

    Attributes:
        required: Slots needed in total.
        missing: How many of them the pool does not have yet.
    """

    required: int
    missing: int


@dataclass(frozen=True)
class AcceptSlot:
    """Answers an offer: the slot belongs to the job now."""

    executor_id: str
    allocation_id: bytes


@dataclass(frozen=True)
class RejectSlot:
    """Answers an offer: the job does not need the slot."""

    executor_id: str
    allocation_id: bytes


@dataclass(frozen=True)
class ReleaseSlot:
    """Gives an accepted slot back to its TaskExecutor."""

    executor_id: str
    allocation_id: bytes
    reason: str


@dataclass(frozen=True)
class Deploy:
    """Sends an attempt to a TaskExecutor, with the code of its vertex if that has none yet."""

    attempt_id: ExecutionAttemptID
    executor_id: str
    deployment: TaskDeploymentDescriptor
    code: bytes


@dataclass(frozen=True)
class CancelTask:
    """Asks a TaskExecutor to cancel an attempt; it reports CANCELED when that is done."""

    attempt_id: ExecutionAttemptID
    executor_id: str


@dataclass(frozen=True)
class ReleasePartitions:
    """Asks a TaskExecutor to drop blocking partitions of ended attempts."""

    executor_id: str
    partition_ids: tuple[bytes, ...]


@dataclass(frozen=True)
class TaskStateChanged:
    """Tells listeners of a move of an attempt."""

    attempt_id: ExecutionAttemptID
    task_name: str
    old: ExecutionState
    new: ExecutionState
    at_ms: int
    failure: Failure | None = None


@dataclass(frozen=True)
class JobStatusChanged:
    """Tells listeners of a move of the job; the failure is the job's result when it FAILED."""

    old: JobStatus
    new: JobStatus
    at_ms: int
    failure: Failure | None = None


@dataclass(frozen=True)
class ScheduleRestart:
    """Tells listeners that subtasks will restart; `tick` does it at that time or later.

    Attributes:
        at_ms: Earliest time of the restart.
        subtasks: (JobVertexID, subtask index) of each.
        is_global: Whether all of the job restarts.
        failure: Why.
        repetition: What to tell of a failure that comes again and again; empty otherwise.
    """

    at_ms: int
    subtasks: frozenset[tuple[bytes, int]]
    is_global: bool
    failure: Failure
    repetition: str = ""


@dataclass(frozen=True)
class ParallelismChanged:
    """Tells listeners that the job goes on with other parallelisms; before `RestoreState`.

    Attributes:
        parallelisms: The new ones of those vertices that have another one.
    """

    parallelisms: dict[bytes, int]


@dataclass(frozen=True)
class AskForRescaling:
    """Asks for a checkpoint and then `rescale` without parallelisms, or for `rescaling_refused`."""


@dataclass(frozen=True)
class AbortCheckpoints:
    """Asks the checkpoint coordinator to abort the pending checkpoints: tasks are to restart."""

    reason: str


@dataclass(frozen=True)
class RestoreState:
    """Asks the checkpoint coordinator to assign state to the new attempts of these subtasks.

    It comes before the `Deploy` actions of those attempts, whose deployments take the state from
    their `Execution`; a failure of it is a global failure.
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
