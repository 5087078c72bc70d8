"""The states of a job and of one execution attempt, and the transitions between them."""

from __future__ import annotations

from enum import Enum
from typing import Final


class ExecutionState(Enum):
    """State of one attempt of one subtask."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    RECONCILING = "RECONCILING"

    # Members are compared by identity; Enum's own hash costs a Python call per lookup.
    __hash__ = object.__hash__

    def __init__(self, name: str) -> None:
        #: Whether the attempt has ended for good.
        self.is_terminal = name in ("FINISHED", "CANCELED", "FAILED")


#: Transitions of an attempt; RECONCILING exists for its name and is never entered.
EXECUTION_TRANSITIONS: Final[dict[ExecutionState, frozenset[ExecutionState]]] = {
    ExecutionState.CREATED: frozenset(
        {
            ExecutionState.SCHEDULED,
            ExecutionState.DEPLOYING,
            ExecutionState.CANCELED,
            ExecutionState.FAILED,
        }
    ),
    ExecutionState.SCHEDULED: frozenset(
        {ExecutionState.DEPLOYING, ExecutionState.CANCELED, ExecutionState.FAILED}
    ),
    ExecutionState.DEPLOYING: frozenset(
        {
            ExecutionState.INITIALIZING,
            ExecutionState.RUNNING,
            ExecutionState.FINISHED,
            ExecutionState.CANCELING,
            ExecutionState.FAILED,
        }
    ),
    ExecutionState.INITIALIZING: frozenset(
        {
            ExecutionState.RUNNING,
            ExecutionState.FINISHED,
            ExecutionState.CANCELING,
            ExecutionState.FAILED,
        }
    ),
    ExecutionState.RUNNING: frozenset(
        {ExecutionState.FINISHED, ExecutionState.CANCELING, ExecutionState.FAILED}
    ),
    ExecutionState.CANCELING: frozenset({ExecutionState.CANCELED}),
    ExecutionState.FINISHED: frozenset(),
    ExecutionState.CANCELED: frozenset(),
    ExecutionState.FAILED: frozenset(),
    ExecutionState.RECONCILING: frozenset(),
}


class JobStatus(Enum):
    """Status of a job."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"

    @property
    def is_globally_terminal(self) -> bool:
        """Return whether the job has ended everywhere and for good."""
        return self in _GLOBALLY_TERMINAL

    @property
    def is_terminal(self) -> bool:
        """Return whether this JobMaster has finished; another may resume a suspended job."""
        return self.is_globally_terminal or self is JobStatus.SUSPENDED


_GLOBALLY_TERMINAL: Final = frozenset({JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED})

JOB_TRANSITIONS: Final[dict[JobStatus, frozenset[JobStatus]]] = {
    JobStatus.INITIALIZING: frozenset({JobStatus.CREATED, JobStatus.SUSPENDED}),
    JobStatus.CREATED: frozenset(
        {JobStatus.RUNNING, JobStatus.FAILING, JobStatus.CANCELLING, JobStatus.SUSPENDED}
    ),
    JobStatus.RUNNING: frozenset(
        {
            JobStatus.FINISHED,
            JobStatus.RESTARTING,
            JobStatus.FAILING,
            JobStatus.CANCELLING,
            JobStatus.SUSPENDED,
        }
    ),
    JobStatus.RESTARTING: frozenset(
        {JobStatus.RUNNING, JobStatus.FAILING, JobStatus.CANCELLING, JobStatus.SUSPENDED}
    ),
    JobStatus.FAILING: frozenset({JobStatus.FAILED, JobStatus.CANCELLING, JobStatus.SUSPENDED}),
    JobStatus.CANCELLING: frozenset({JobStatus.CANCELED, JobStatus.SUSPENDED}),
    JobStatus.FINISHED: frozenset(),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELED: frozenset(),
    JobStatus.SUSPENDED: frozenset(),
}
