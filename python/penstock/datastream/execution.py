"""The one seam between programs and the targets that run them.

A target is imported when a job is executed and not before: a program that is only built needs
neither a JobMaster nor Spark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.common.completable_future import CompletableFuture
from penstock.common.configuration import Configuration
from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobGraph

T = TypeVar("T")

TARGET_OPTION = "execution.target"
TARGET_VARIABLE = "PENSTOCK_EXECUTION_TARGET"


class JobHandle(Protocol):
    """What a target gives for a job that it took."""

    job_id: bytes

    def status(self) -> Any:
        """The job's state; its name is that of a JobStatus."""

    def cancel(self) -> None:
        """Asks for cancellation and returns."""

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

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end; whether it came in time."""


class CollectResults(Protocol):
    """The results of one collect sink."""

    def take(self, timeout_s: float | None = None) -> bytes | None:
        """The next batch, None at the end: elements as [length, i32 big-endian][codec bytes]."""

    def close(self) -> None:
        """Takes no more results."""


class Executor(Protocol):
    """An execution target."""

    def execute(
        self,
        job_graph: JobGraph,
        configuration: Mapping[str, str],
        collect_ids: Iterable[str] = (),
    ) -> JobHandle:
        """Starts a job and returns at once."""


def execute_job(
    job_graph: JobGraph, configuration: Configuration, collect_ids: Iterable[str] = ()
) -> ExecutedJobClient:
    """Starts a job on the target that the configuration, the process or Spark suggests.

    Args:
        job_graph: What to run.
        configuration: The job's configuration.
        collect_ids: The names of the job's collect sinks.

    Raises:
        ConfigurationError: The target is unknown.
    """
    target = execution_target(configuration)
    options = configuration.to_dict() | {TARGET_OPTION: target}
    return ExecutedJobClient(_executor(target).execute(job_graph, options, collect_ids))


def execution_target(configuration: Configuration) -> str:
    """The target's name: option, else environment variable, else Spark if one is active here."""
    chosen = configuration.get_string(TARGET_OPTION, None) or os.environ.get(TARGET_VARIABLE)
    if chosen:
        return chosen
    return "spark" if _spark_session_is_active() else "local"


def _spark_session_is_active() -> bool:
    # Asked without importing: a process that never loaded pyspark cannot have a session.
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and sql.SparkSession.getActiveSession() is not None


def _executor(target: str) -> Executor:
    if target in ("local", "in-process"):
        from penstock.jobmaster import local

        executor: Executor = local.LocalExecutor()
        return executor
    if target == "spark":
        from penstock import spark

        spark_executor: Executor = spark.SparkExecutor()
        return spark_executor
    raise ConfigurationError(
        f"unknown execution target {target!r}: {TARGET_OPTION} or {TARGET_VARIABLE} must be "
        "local, in-process or spark"
    )


class ExecutedJobClient(JobClient):
    """The client of a job that a target runs."""

    def __init__(self, handle: JobHandle) -> None:
        """Wraps the target's handle."""
        super().__init__(JobID(handle.job_id))
        self.handle = handle

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """The state of the job; a job that is being set up counts as created."""
        name = self.handle.status().name
        return CompletableFuture.completed(JobStatus.__members__.get(name, JobStatus.CREATED))

    def cancel(self) -> CompletableFuture[None]:
        """Asks for cancellation; the future is done at once."""
        self.handle.cancel()
        return CompletableFuture.completed(None)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """The accumulators as they are now."""
        return CompletableFuture.completed(self.handle.accumulators())

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result of the job, there when it has finished."""
        future: Future[JobExecutionResult] = Future()
        self.handle.add_done_callback(lambda handle: _settle(future, handle))
        return CompletableFuture(future)

    def wait_for_result(self) -> JobExecutionResult:
        """Waits in this thread, so that an interruption reaches the job.

        Raises:
            Exception: What made the job fail.
        """
        accumulators = self.handle.result()
        return JobExecutionResult(self.get_job_id(), self.handle.runtime_ms(), accumulators)


def _settle(future: Future[JobExecutionResult], handle: JobHandle) -> None:
    error = handle.exception()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(
            JobExecutionResult(JobID(handle.job_id), handle.runtime_ms(), handle.result())
        )
