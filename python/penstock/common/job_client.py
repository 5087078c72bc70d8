"""JobClient: the program's hold on a job that was submitted."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from penstock.common.completable_future import CompletableFuture
from penstock.common.job_execution_result import (
    DetachedJobExecutionResult,
    JobExecutionResult,
)
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.common.missing_methods import NoJavaMembers
from penstock.common.names import checked_size
from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.common.job_progress import JobProgress

__all__ = [
    "JobClient",
]


OperatorTotals: TypeAlias = "Mapping[tuple[bytes, str], Mapping[str, int]]"
"""Sums over the subtasks: by vertex id and operator name, and there by the name of the metric."""

SavepointFormatType = Literal["CANONICAL", "NATIVE"]
"""Format of a savepoint; both produce the same bytes."""


@dataclass(frozen=True)
class SavepointWish:
    """Request for a savepoint of a job.

    Attributes:
        directory: The savepoint's own directory is made in it; None for the configured one.
        savepoint_format: How it is written.
        end: Whether the job ends with it: not, by coming to its end, or by being cancelled.
        drains: Whether a job that stops comes to the end of its event time before.
    """

    directory: str | None
    savepoint_format: SavepointFormatType
    end: Literal["", "stop", "cancel"] = ""
    drains: bool = False

    def __post_init__(self) -> None:
        directory: object = self.directory
        if not isinstance(directory, str | None) or directory == "":
            raise WrongArgumentError(
                f"the directory of a savepoint is a path or URL, not {directory!r}"
            )
        if directory is not None:
            checked_size("the directory of a savepoint", directory)
        if self.savepoint_format not in ("CANONICAL", "NATIVE"):
            raise WrongArgumentError(
                f"a savepoint's format is 'CANONICAL' or 'NATIVE', not {self.savepoint_format!r}"
            )


class JobHandle(Protocol):
    """Handle of a job that an execution target accepted."""

    job_id: bytes
    job_name: str

    def status(self) -> Any:
        """The job's state; its name is that of a JobStatus."""

    def cancel(self) -> None:
        """Asks for cancellation and returns."""

    def take_savepoint(self, wish: SavepointWish) -> Future[str]:
        """Asks for a savepoint; the future gives its path."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end; whether it came in time."""

    def result(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Waits for the end; the accumulators, or raises what made the job fail."""

    def exception(self) -> BaseException | None:
        """Return the exception that `result` raises for a job that has ended."""

    def accumulators(self) -> dict[str, Any]:
        """The accumulators as they are now."""

    def runtime_ms(self) -> int:
        """The running time in ms."""

    def progress(self) -> JobProgress:
        """The job's progress."""

    def operator_totals(self) -> OperatorTotals:
        """Return what the job's operators counted, as they reported it last."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Calls back once the job has ended."""

    def collect(self, collect_id: str) -> CollectResults:
        """The results of one of the job's collect sinks."""


class CollectResults(Protocol):
    """The results of one collect sink."""

    def take(self, timeout_s: float | None = None) -> bytes | None:
        """The next batch, None at the end: records as [length, i32 big-endian][codec bytes]."""

    def close(self) -> None:
        """Takes no more results."""


class JobClient(NoJavaMembers):
    """The program's hold on a job, made by `StreamExecutionEnvironment.execute_async`."""

    def __init__(self, handle: JobHandle) -> None:
        """Wraps the execution target's handle."""
        self._handle = handle

    def __repr__(self) -> str:
        status = self._handle.status().name
        return f"<JobClient of job {self._handle.job_name!r} ({self.get_job_id()}): {status}>"

    def _ipython_display_(self) -> None:
        """Show the job's progress in a notebook until it ends, with a button to stop it."""
        from penstock.notebooks.job_cell import show

        show(self)

    @property
    def handle(self) -> JobHandle:
        """The execution target's handle."""
        return self._handle

    def get_job_id(self) -> JobID:
        """The id of the job."""
        return JobID(self._handle.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """The state of the job; a job that is being set up counts as created."""
        name = self._handle.status().name
        return CompletableFuture.completed(JobStatus.__members__.get(name, JobStatus.CREATED))

    def cancel(self) -> CompletableFuture[None]:
        """Asks for cancellation; the future is done at once, the job ends soon after."""
        self._handle.cancel()
        return CompletableFuture.completed(None)

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = "CANONICAL",
    ) -> CompletableFuture[str]:
        """Has the sources stop, takes a savepoint behind their last records, and ends the job.

        Args:
            advance_to_end_of_event_time: Whether event time comes to its end before, so that all
                timers fire, windows close and functions finish.  A job that is to go on from the
                savepoint wants False.
            savepoint_directory: The savepoint's own directory is made in it; None takes
                `execution.checkpointing.savepoint-dir`.
            format_type: `CANONICAL` or `NATIVE`, which are the same (beyond PyFlink).

        Returns:
            A future of the savepoint's path, done when the job has ended.  It fails with a
            `CheckpointError` when there is no savepoint, or when the job did not end with it.

        Raises:
            WrongArgumentError: The directory or the format is none.
        """
        drains: object = advance_to_end_of_event_time
        if not isinstance(drains, bool):
            raise WrongArgumentError(
                f"advance_to_end_of_event_time is True or False, not {drains!r}"
            )
        return self._savepoint(SavepointWish(savepoint_directory, format_type, "stop", drains))

    def trigger_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = "CANONICAL",
    ) -> CompletableFuture[str]:
        """Takes a savepoint while the job goes on.

        Args:
            savepoint_directory: As of `stop_with_savepoint`.
            format_type: As of `stop_with_savepoint`.

        Returns:
            A future of the savepoint's path; it fails with a `CheckpointError` when there is none.

        Raises:
            WrongArgumentError: The directory or the format is none.
        """
        return self._savepoint(SavepointWish(savepoint_directory, format_type))

    def cancel_with_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = "CANONICAL",
    ) -> CompletableFuture[str]:
        """Takes a savepoint and cancels the job once it is complete (beyond PyFlink).

        What the job does between the two is done again by a job that starts from the savepoint;
        `stop_with_savepoint` leaves no such gap.

        Args:
            savepoint_directory: As of `stop_with_savepoint`.
            format_type: As of `stop_with_savepoint`.

        Returns:
            A future of the savepoint's path.  When there is none it fails with a
            `CheckpointError`, and the job goes on.

        Raises:
            WrongArgumentError: The directory or the format is none.
        """
        return self._savepoint(SavepointWish(savepoint_directory, format_type, "cancel"))

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """The accumulators as they are now."""
        return CompletableFuture.completed(self._handle.accumulators())

    def get_progress(self) -> JobProgress:
        """Return the job's progress (beyond PyFlink), as its TaskExecutors last reported it."""
        return self._handle.progress()

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result of the job, there when it has finished."""
        future: Future[JobExecutionResult] = Future()
        self._handle.add_done_callback(lambda _: self._settle(future))
        return CompletableFuture(future)

    def wait_for_result(self) -> JobExecutionResult:
        """Waits in this thread, so that an interruption reaches the job (beyond PyFlink).

        Raises:
            Exception: What made the job fail.
        """
        accumulators = self._handle.result()
        return JobExecutionResult(self.get_job_id(), self._handle.runtime_ms(), accumulators)

    def detached_result(self) -> JobExecutionResult:
        """Return the result of `execute` for a job that it does not wait for."""
        return DetachedJobExecutionResult(self.get_job_id())

    def _savepoint(self, wish: SavepointWish) -> CompletableFuture[str]:
        return CompletableFuture(self._handle.take_savepoint(wish))

    def _settle(self, future: Future[JobExecutionResult]) -> None:
        error = self._handle.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(self.wait_for_result())
