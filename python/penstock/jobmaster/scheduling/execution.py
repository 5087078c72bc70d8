"""One subtask and its attempts: the state machine of an `Execution`.

The machine decides what a report or a request means in its state and returns the transition;
`Scheduler` turns transitions into actions.  Terminal states never change: later reports are
dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from penstock.graph.ids import ExecutionAttemptID
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.states import EXECUTION_TRANSITIONS, ExecutionState

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobVertex
    from penstock.jobmaster.slots.slots import SlotOffer
    from penstock.rpc.task_deployment import RestoredState

#: Number of ended attempts that are kept per subtask.
MAX_PRIOR_ATTEMPTS: Final = 16

_PROGRESS: Final = (
    ExecutionState.CREATED,
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)
_ON_WORKER: Final = frozenset(
    {ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING}
)


class IllegalExecutionStateError(RuntimeError):
    """A transition that the execution's state does not allow; a defect of the caller."""


class Cancellation(Enum):
    """Outcome of a request to cancel."""

    IGNORED = auto()
    """The attempt has ended, or is being cancelled already."""
    IMMEDIATE = auto()
    """The execution never reached a worker and is CANCELED."""
    REQUESTED = auto()
    """The execution is CANCELING; its worker must be notified."""


@dataclass
class Execution:
    """One attempt.

    Attributes:
        attempt_id: Its identity.
        state: Its state.
        timestamps: Time at which each state was entered, ms.
        slot: Its slot, once assigned.
        failure: Why it failed, if it did.
        restored: Its initial state, from the assignment until the deployment takes it.
        restored_from: Id of the checkpoint that it starts from.
    """

    attempt_id: ExecutionAttemptID
    task_name: str
    created_ms: int
    state: ExecutionState = ExecutionState.CREATED
    timestamps: dict[ExecutionState, int] = field(default_factory=dict)
    slot: SlotOffer | None = None
    failure: Failure | None = None
    restored: RestoredState | None = None
    restored_from: int | None = None

    def __post_init__(self) -> None:
        self.timestamps[self.state] = self.created_ms

    def schedule(self, now_ms: int) -> None:
        """Start to wait for a slot."""
        self._move(ExecutionState.SCHEDULED, now_ms)

    def assign_slot(self, slot: SlotOffer) -> bool:
        """Assign a slot to the attempt; return False if it already has one or has ended."""
        if self.slot is not None or self.state not in (
            ExecutionState.CREATED,
            ExecutionState.SCHEDULED,
        ):
            return False
        self.slot = slot
        return True

    def assign_state(self, restored: RestoredState) -> None:
        """Assign the attempt's part of a checkpoint."""
        self.restored = restored
        self.restored_from = restored.checkpoint_id

    def take_state(self) -> RestoredState | None:
        """Return the initial state for the deployment; the worker keeps it from then on."""
        restored, self.restored = self.restored, None
        return restored

    def deploy(self, now_ms: int) -> None:
        """Start the deployment to its worker.

        Raises:
            IllegalExecutionStateError: If it has no slot or was deployed already.
        """
        if self.slot is None:
            raise IllegalExecutionStateError(f"{self.task_name} has no slot to be deployed to")
        self._move(ExecutionState.DEPLOYING, now_ms)

    def cancel(self, now_ms: int) -> Cancellation:
        """Ask the attempt to end."""
        if self.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
            self._move(ExecutionState.CANCELED, now_ms)
            return Cancellation.IMMEDIATE
        if self.state in _ON_WORKER:
            self._move(ExecutionState.CANCELING, now_ms)
            return Cancellation.REQUESTED
        return Cancellation.IGNORED

    def report(
        self, state: ExecutionState, now_ms: int, failure: Failure | None = None
    ) -> ExecutionState | None:
        """Apply a report of the worker; return the state entered, or None if it was late.

        An attempt that reports CANCELED without having been cancelled has failed.
        """
        if self.state.is_terminal:
            return None
        if self.state is ExecutionState.CANCELING:
            if state.is_terminal:
                return self._move(ExecutionState.CANCELED, now_ms)
            return None
        if state is ExecutionState.FAILED:
            return self.fail(failure or _unexplained(self.task_name), now_ms)
        if state is ExecutionState.CANCELED:
            return self.fail(
                Failure(
                    "penstock.errors.JobExecutionError",
                    f"{self.task_name} was cancelled on its worker without having been asked to",
                    task_name=self.task_name,
                ),
                now_ms,
            )
        if state is ExecutionState.FINISHED:
            if self.state in _ON_WORKER:
                return self._move(ExecutionState.FINISHED, now_ms)
            return None
        if (
            state in (ExecutionState.INITIALIZING, ExecutionState.RUNNING)
            and self.state in _ON_WORKER
            and _PROGRESS.index(state) > _PROGRESS.index(self.state)
        ):
            return self._move(state, now_ms)
        return None

    def fail(self, failure: Failure, now_ms: int) -> ExecutionState | None:
        """Fail the attempt; if it is being cancelled, it ends CANCELED instead.

        Return the state entered, or None if it had already ended.
        """
        if self.state.is_terminal:
            return None
        if self.state is ExecutionState.CANCELING:
            return self._move(ExecutionState.CANCELED, now_ms)
        self.failure = failure
        return self._move(ExecutionState.FAILED, now_ms)

    def end_cancellation(self, now_ms: int) -> bool:
        """End a CANCELING attempt without a report; return False if it was not CANCELING."""
        if self.state is not ExecutionState.CANCELING:
            return False
        self._move(ExecutionState.CANCELED, now_ms)
        return True

    def _move(self, new: ExecutionState, now_ms: int) -> ExecutionState:
        if new not in EXECUTION_TRANSITIONS[self.state]:
            raise IllegalExecutionStateError(
                f"{self.task_name} cannot go from {self.state.name} to {new.name}"
            )
        self.state = new
        self.timestamps[new] = now_ms
        return new


class ExecutionVertex:
    """One subtask: its current attempt and the ended ones before it.

    Attributes:
        job_vertex: Its vertex.
        subtask: Its index.
        current: The current attempt.
        prior: The last ended attempts, oldest first.
        version: Increased by each event that makes a pending allocation or restart stale.
    """

    def __init__(
        self,
        job_vertex: JobVertex,
        subtask: int,
        graph_id: bytes,
        now_ms: int,
        first_attempt: int = 0,
    ) -> None:
        self.job_vertex = job_vertex
        self.subtask = subtask
        self.version = 0
        self.prior: deque[Execution] = deque(maxlen=MAX_PRIOR_ATTEMPTS)
        self._graph_id = graph_id
        self.current = self._new_attempt(first_attempt, now_ms)

    @property
    def id(self) -> tuple[bytes, int]:
        """JobVertexID and subtask index."""
        return self.job_vertex.id, self.subtask

    @property
    def task_name(self) -> str:
        """Name of the vertex with the subtask's number from 1: "Map (2/4)"."""
        return f"{self.job_vertex.name} ({self.subtask + 1}/{self.job_vertex.parallelism})"

    @property
    def state(self) -> ExecutionState:
        """State of the current attempt."""
        return self.current.state

    def reset(self, now_ms: int) -> Execution:
        """Start a new attempt.

        Raises:
            IllegalExecutionStateError: If the current one has not ended.
        """
        if not self.current.state.is_terminal:
            raise IllegalExecutionStateError(
                f"{self.task_name} cannot be reset while it is {self.current.state.name}"
            )
        self.prior.append(self.current)
        self.current = self._new_attempt(self.current.attempt_id.attempt + 1, now_ms)
        return self.current

    def _new_attempt(self, attempt: int, now_ms: int) -> Execution:
        attempt_id = ExecutionAttemptID(self._graph_id, self.job_vertex.id, self.subtask, attempt)
        return Execution(attempt_id, self.task_name, now_ms)


def _unexplained(task_name: str) -> Failure:
    return Failure(
        "penstock.errors.JobExecutionError",
        f"{task_name} failed and its worker gave no reason",
        task_name=task_name,
    )
