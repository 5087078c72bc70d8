"""JobClient: the program's hold on a job that was submitted."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from penstock.common.completable_future import CompletableFuture
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "JobClient",
]


class JobHandle(Protocol):
    """What an execution target gives for a job that it took."""

    job_id: bytes
    job_name: str

    def status(self) -> Any:
        """The job's state; its name is that of a JobStatus."""

    def cancel(self) -> None:
        """Asks for cancellation and returns."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end; whether it came in time."""

    def result(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Waits for the end; the accumulators, or raises what made the job fail."""

    def exception(self) -> BaseException | None:
        """What `result` raises, of a job that has ended."""

    def accumulators(self) -> dict[str, Any]:
        """The accumulators as they are now."""

    def runtime_ms(self) -> int:
        """The running time in ms."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Calls back once the job has ended."""

    def collect(self, collect_id: str) -> CollectResults:
        """The results of one of the job's collect sinks."""


class CollectResults(Protocol):
    """The results of one collect sink."""

    def take(self, timeout_s: float | None = None) -> bytes | None:
        """The next batch, None at the end: elements as [length, i32 big-endian][codec bytes]."""

    def close(self) -> None:
        """Takes no more results."""


class JobClient:
    """The program's hold on a job, made by `StreamExecutionEnvironment.execute_async`."""

    def __init__(self, handle: JobHandle) -> None:
        """Wraps the execution target's handle."""
        self._handle = handle

    def __repr__(self) -> str:
        status = self._handle.status().name
        return f"<JobClient of job {self._handle.job_name!r} ({self.get_job_id()}): {status}>"

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
        advance_to_end_of_event_time: bool,  # noqa: ARG002
        savepoint_directory: str | None = None,  # noqa: ARG002
    ) -> CompletableFuture[str]:
        """Refused until the runtime takes checkpoints.

        Args:
            advance_to_end_of_event_time: Whether all event-time timers fire before.
            savepoint_directory: Where to write; the configured directory when None.

        Raises:
            ConfigurationError: Always.
        """
        _no_savepoints("stop_with_savepoint")

    def trigger_savepoint(
        self,
        savepoint_directory: str | None = None,  # noqa: ARG002
    ) -> CompletableFuture[str]:
        """Refused until the runtime takes checkpoints.

        Raises:
            ConfigurationError: Always.
        """
        _no_savepoints("trigger_savepoint")

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """The accumulators as they are now."""
        return CompletableFuture.completed(self._handle.accumulators())

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

    def _settle(self, future: Future[JobExecutionResult]) -> None:
        error = self._handle.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(self.wait_for_result())


def _no_savepoints(call: str) -> NoReturn:
    raise ConfigurationError(f"{call}: this version of penstock takes no checkpoints or savepoints")
