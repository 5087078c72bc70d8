"""JobClient: the program's handle of a submitted job."""

from __future__ import annotations

from concurrent.futures import Future
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.completable_future import CompletableFuture
from penstock.common.job_execution_result import (
    DetachedJobExecutionResult,
    JobExecutionResult,
)
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.common.jobs.job_gateway import SavepointWish
from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from penstock.common.jobs.job_gateway import JobGateway, SavepointFormatType
    from penstock.common.jobs.job_progress import JobProgress
    from penstock.common.jobs.live_state import LiveState

__all__ = [
    "JobClient",
]


class JobClient(MissingMethods):
    """Handle of a submitted job; `StreamExecutionEnvironment.execute_async` returns one."""

    def __init__(self, handle: JobGateway) -> None:
        """Wrap the handle of the execution target."""
        self._handle = handle

    def __repr__(self) -> str:
        status = self._handle.status().name
        return f"<JobClient of job {self._handle.job_name!r} ({self.get_job_id()}): {status}>"

    def _ipython_display_(self) -> None:
        """Show the job's progress in a notebook until it ends, with a button to stop it."""
        from penstock.notebooks.job_cell import show

        show(self)

    @property
    def handle(self) -> JobGateway:
        """Return the execution target's handle."""
        return self._handle

    def get_job_id(self) -> JobID:
        """Return the id of the job."""
        return JobID(self._handle.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the state of the job; a job that is being set up counts as created."""
        name = self._handle.status().name
        return CompletableFuture.completed(JobStatus.__members__.get(name, JobStatus.CREATED))

    def cancel(self) -> CompletableFuture[None]:
        """Request cancellation; the future completes at once, and the job ends soon after."""
        self._handle.cancel()
        return CompletableFuture.completed(None)

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = "CANONICAL",
    ) -> CompletableFuture[str]:
        """Stop the sources, take a savepoint after their last records, and finish the job.

        Args:
            advance_to_end_of_event_time: True to end event time first, so that all timers fire,
                windows close and functions finish.  Pass False if a job is to continue from the
                savepoint.
            savepoint_directory: The directory in which the savepoint gets its own directory; by
                default `execution.checkpointing.savepoint-dir`.
            format_type: `CANONICAL` or `NATIVE`, which are the same (beyond PyFlink).

        Returns:
            A future of the savepoint's path, which completes when the job has ended.  It fails with
            a `CheckpointError` if the savepoint fails, or the job does not end with it.

        Raises:
            WrongArgumentError: The directory or the format is invalid.
        """
        drains: object = advance_to_end_of_event_time
        if not isinstance(drains, bool):
            raise WrongArgumentError(
                f"advance_to_end_of_event_time must be True or False, got {drains!r}"
            )
        return self._savepoint(SavepointWish(savepoint_directory, format_type, "stop", drains))

    def trigger_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = "CANONICAL",
    ) -> CompletableFuture[str]:
        """Take a savepoint while the job continues.

        Args:
            savepoint_directory: See `stop_with_savepoint`.
            format_type: See `stop_with_savepoint`.

        Returns:
            A future of the savepoint's path.  It fails with a `CheckpointError` if the savepoint
            fails.

        Raises:
            WrongArgumentError: The directory or the format is invalid.
        """
        return self._savepoint(SavepointWish(savepoint_directory, format_type))

    def cancel_with_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = "CANONICAL",
    ) -> CompletableFuture[str]:
        """Take a savepoint and cancel the job once it is complete (beyond PyFlink).

        A job that starts from the savepoint repeats the work between savepoint and cancellation;
        `stop_with_savepoint` leaves no such gap.

        Args:
            savepoint_directory: See `stop_with_savepoint`.
            format_type: See `stop_with_savepoint`.

        Returns:
            A future of the savepoint's path.  If the savepoint fails, it fails with a
            `CheckpointError`, and the job continues.

        Raises:
            WrongArgumentError: The directory or the format is invalid.
        """
        return self._savepoint(SavepointWish(savepoint_directory, format_type, "cancel"))

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the current values of the accumulators."""
        return CompletableFuture.completed(self._handle.accumulators())

    def get_progress(self) -> JobProgress:
        """Return the job's progress (beyond PyFlink), as its TaskExecutors last reported it."""
        return self._handle.progress()

    def state(self, operator: str, name: str) -> LiveState:
        """Return a keyed state of the running job, to read it (beyond PyFlink).

        Args:
            operator: The uid, id or unique name of the operator.
            name: The name of the state's descriptor.  The names are checked when the state is read,
                as tasks register states when they run.

        Raises:
            WrongArgumentError: A name is not a string.
        """
        # Imported by name: the room of state depends on all others, and this one on none.
        room = import_module("penstock.state_processor.live_state")
        state: LiveState = room.StateOfTasks(self._handle, operator, name)
        return state

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return a future of the job's result, which completes when the job has finished."""
        future: Future[JobExecutionResult] = Future()
        self._handle.add_done_callback(lambda _: self._settle(future))
        return CompletableFuture(future)

    def wait_for_result(self) -> JobExecutionResult:
        """Wait in this thread, so that an interruption reaches the job (beyond PyFlink).

        Raises:
            Exception: The cause of the job's failure.
        """
        accumulators = self._handle.result()
        return JobExecutionResult(self.get_job_id(), self._handle.runtime_ms(), accumulators)

    def detached_result(self) -> JobExecutionResult:
        """Return the result of `execute` for a detached job."""
        return DetachedJobExecutionResult(self.get_job_id())

    def _savepoint(self, wish: SavepointWish) -> CompletableFuture[str]:
        return CompletableFuture(self._handle.take_savepoint(wish))

    def _settle(self, future: Future[JobExecutionResult]) -> None:
        if not future.set_running_or_notify_cancel():
            return  # The program has cancelled the future, which takes no result any more.
        error = self._handle.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(self.wait_for_result())
