"""JobClient: the handle of a job that was submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.common.completable_future import CompletableFuture
    from penstock.common.job_execution_result import JobExecutionResult
    from penstock.common.job_id import JobID
    from penstock.common.job_status import JobStatus


class JobClient:
    """The handle of a job.

    Each execution target has its own subclass; this base names what every one must offer.
    """

    def __init__(self, job_id: JobID) -> None:
        """Makes a handle of the job with that id."""
        self._job_id = job_id

    def get_job_id(self) -> JobID:
        """The id of the job."""
        return self._job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Asks for the state of the job."""
        raise NotImplementedError(f"{type(self).__name__}.get_job_status")

    def cancel(self) -> CompletableFuture[None]:
        """Cancels the job; the future is done when the cancellation was accepted."""
        raise NotImplementedError(f"{type(self).__name__}.cancel")

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stops the job after a savepoint; the result is the savepoint's path.

        Args:
            advance_to_end_of_event_time: Whether all event-time timers fire before.
            savepoint_directory: Where to write; the configured directory when None.
        """
        raise NotImplementedError(f"{type(self).__name__}.stop_with_savepoint")

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Writes a savepoint of the running job; the result is its path."""
        raise NotImplementedError(f"{type(self).__name__}.trigger_savepoint")

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Asks for the accumulators as they are now."""
        raise NotImplementedError(f"{type(self).__name__}.get_accumulators")

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result of the job, there when it has finished."""
        raise NotImplementedError(f"{type(self).__name__}.get_job_execution_result")
