"""EndedJobGateway: the gateway to a job that ended in a former driver."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from penstock.common.jobs.job_gateway import JobGateway
from penstock.common.jobs.job_progress import JobProgress
from penstock.errors import JobCancelledError, JobExecutionError, StateReadError
from penstock.jobmaster.checkpointing.savepoints import SavepointRequest
from penstock.jobmaster.scheduling.states import JobStatus

if TYPE_CHECKING:
    from penstock.common.jobs.job_gateway import (
        OperatorTotals,
        SavepointWish,
        StateAnswer,
        StateQuestion,
    )
    from penstock.high_availability.job_result_store import JobResult
    from penstock.jobmaster.collect import CollectResults


class EndedJobGateway(JobGateway):
    """Reports how a job ended, from its record; there is no JobMaster to command."""

    def __init__(
        self,
        job_id: bytes,
        result: JobResult,
        anew: str = "to run it again, set another high-availability.cluster-id",
    ) -> None:
        """Read the record.

        Args:
            job_id: The job's id.
            result: How the job ended.
            anew: How to run a failed job once more, for its error.
        """
        super().__init__(job_id, result.name)
        self._status = JobStatus(result.status)
        error: BaseException | None = None
        if self._status is JobStatus.CANCELED:
            error = JobCancelledError(result.error)
        elif self._status is JobStatus.FAILED:
            error = JobExecutionError(
                f"job {result.name!r} has failed in a former driver and is not run again: "
                f"{result.error}; {anew}"
            )
        self._note_end(error, result.accumulators, result.runtime_ms)
        self.complete()

    def status(self) -> JobStatus:
        """Return the status in which the job ended."""
        return self._status

    def cancel(self) -> Future[None]:
        """Leave the job as it is."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def take_savepoint(self, wish: SavepointWish) -> Future[str]:
        """Return a future that has failed with a `CheckpointError`."""
        request = SavepointRequest(wish, self.job_name)
        request.job_ended(self._status.value)
        return request.future

    def accumulators(self) -> dict[str, object]:
        """Return the last accumulators."""
        return self._final_accumulators

    def progress(self) -> JobProgress:
        """Return the status and the running time; the record has nothing else."""
        return JobProgress(self.job_name, self._status.value, self.runtime_ms())

    def operator_totals(self) -> OperatorTotals:
        """Return no counts: the record has none."""
        return {}

    def read_state(self, question: StateQuestion) -> StateAnswer:
        """Refuse: nothing runs.

        Raises:
            StateReadError: Always.
        """
        raise StateReadError(
            f"the job is {self._status.value}, so {question.operator!r} does not run: read a "
            "savepoint with penstock.state_processor"
        )

    def collect(self, collect_id: str) -> CollectResults:
        """Refuse: a job with collect sinks is not recorded.

        Raises:
            KeyError: Always.
        """
        raise KeyError(collect_id)

    def _interrupted(self) -> None:
        """Do nothing: the job has ended."""
