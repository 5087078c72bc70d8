"""JobListener: calls in the program when its jobs are submitted and have ended."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Final

from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.common.job_client import JobClient
    from penstock.common.job_execution_result import JobExecutionResult

__all__ = ["JobListener", "JobListeners"]


class JobListener(ABC):  # noqa: B024 (both methods are optional)
    """Listener for the jobs of a program, registered in an environment (beyond PyFlink).

    Its methods run in the thread that starts the job, and their exceptions reach that call; a job
    that was submitted runs on.
    """

    def on_job_submitted(  # noqa: B027
        self, job_client: JobClient | None, error: BaseException | None
    ) -> None:
        """Handle the submission of a job, by any method that starts one.

        Args:
            job_client: The job; None if the submission failed.
            error: The failure of the submission; None if the job was submitted.
        """

    def on_job_executed(  # noqa: B027
        self, job_execution_result: JobExecutionResult | None, error: BaseException | None
    ) -> None:
        """Handle the end of a job that ``execute`` waits for.

        Args:
            job_execution_result: The result; None if the job failed.
            error: The failure of the job; None if it has a result.
        """


#: Listeners of all environments of this process, of the command that runs its program.
PROCESS_LISTENERS: Final[list[JobListener]] = []


class JobListeners:
    """The listeners of an environment, in the order of their registration.

    Those of the process are notified behind them, and are no part of them.
    """

    def __init__(self) -> None:
        """Start without listeners."""
        self._listeners: list[JobListener] = []

    def __iter__(self) -> Iterator[JobListener]:
        return iter(self._listeners)

    def register(self, listener: JobListener) -> None:
        """Add a listener.

        Raises:
            WrongArgumentError: The argument is not a JobListener.
        """
        given: object = listener
        if not isinstance(given, JobListener):
            raise WrongArgumentError(f"register_job_listener takes a JobListener, got {given!r}")
        self._listeners.append(given)

    def clear(self) -> None:
        """Remove all listeners."""
        self._listeners.clear()

    def notify_submitted(self, client: JobClient | None, error: BaseException | None) -> None:
        """Call `JobListener.on_job_submitted` of each listener, with the same arguments."""
        for listener in (*self._listeners, *PROCESS_LISTENERS):
            listener.on_job_submitted(client, error)

    def notify_executed(
        self, result: JobExecutionResult | None, error: BaseException | None
    ) -> None:
        """Call `JobListener.on_job_executed` of each listener, with the same arguments."""
        for listener in (*self._listeners, *PROCESS_LISTENERS):
            listener.on_job_executed(result, error)
