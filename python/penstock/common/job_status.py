"""JobStatus: the states of a job as a whole."""

from enum import Enum

__all__ = [
    "JobStatus",
]


class JobStatus(Enum):
    """The states of a job."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Return whether the job can never run again."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Return whether the job ended here, though another master might resume it."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED
