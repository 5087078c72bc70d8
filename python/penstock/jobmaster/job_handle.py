"""The handle of a submitted job: what the program that submitted it holds on to."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.common.job_progress import JobProgress
from penstock.errors import JobCancelledError, JobExecutionError
from penstock.jobmaster.checkpointing.savepoints import SavepointRequest
from penstock.jobmaster.states import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock.common.job_client import OperatorTotals, SavepointWish
    from penstock.high_availability.job_records import JobResult
    from penstock.jobmaster.collect import CollectResults


def ended_job(
    job_id: bytes,
    result: JobResult,
    anew: str = "another high-availability.cluster-id runs it anew",
) -> JobHandle:
    """The handle of a job that has ended in a former driver.

    Args:
        job_id: Its id.
        result: How it has ended.
        anew: What to do to have it run once more, of one that has failed.
    """

    def nothing(*_: object) -> Any:
        raise AssertionError("it has ended, and collects nothing")

    handle = JobHandle(job_id, result.name, nothing, nothing, nothing, nothing, nothing)
    status = JobStatus(result.status)
    error: BaseException | None = None
    if status is JobStatus.CANCELED:
        error = JobCancelledError(result.error)
    elif status is JobStatus.FAILED:
        error = JobExecutionError(
            f"job {result.name!r} has failed in a former driver, which is not done again: "
            f"{result.error}; {anew}"
        )
    handle.set_result(status, error, result.accumulators, result.runtime_ms)
    handle.complete()
    return handle


class JobHandle:
    """Follows one job from its submission to its end.  All methods may be called by any thread.

    Args:
        cancel: asks the JobMaster to cancel.
        accumulators: asks it for the current values.
        on_interrupt: ends the job and everything of it, when waiting is interrupted by Ctrl-C.
        collect: the results of a registered collect sink.
        take_savepoint: asks the JobMaster for a savepoint.
        progress: how far the job is; None for one that has ended already.
        operator_totals: the counts that its operators reported last, also after its end.
    """

    def __init__(
        self,
        job_id: bytes,
        job_name: str,
        cancel: Callable[[], None],
        accumulators: Callable[[], dict[str, Any]],
        on_interrupt: Callable[[JobHandle], None],
        collect: Callable[[str], CollectResults],
        take_savepoint: Callable[[SavepointRequest], None],
        progress: Callable[[], JobProgress | None] | None = None,
        operator_totals: Callable[[], OperatorTotals] = dict,
    ) -> None:
        self.job_id = job_id
        self.job_name = job_name
        self._cancel = cancel
        self._accumulators = accumulators
        self._on_interrupt = on_interrupt
        self._collect = collect
        self._take_savepoint = take_savepoint
        self._read_progress = progress
        self._operator_totals = operator_totals
        self._last_progress = JobProgress(job_name, JobStatus.INITIALIZING.value, 0)
        self._status = JobStatus.INITIALIZING
        self._started_s = time.monotonic()
        self._runtime_ms: int | None = None
        self._error: BaseException | None = None
        self._final_accumulators: dict[str, Any] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[JobHandle], None]] = []

    def status(self) -> JobStatus:
        """The job's status."""
        return self._status

    def cancel(self) -> None:
        """Asks for cancellation and returns; `wait` tells when it is done."""
        if not self._ended.is_set():
            self._cancel()

    def take_savepoint(self, wish: SavepointWish) -> Future[str]:
        """Asks for a savepoint; the future gives its path, or fails with a `CheckpointError`."""
        request = SavepointRequest(wish, self.job_name)
        if not self._ended.is_set():
            self._take_savepoint(request)
        # Whatever is not answered by then: the main thread may be gone before it hears of it.
        self.add_done_callback(lambda _: request.job_ended(self._status.value))
        return request.future

    def done(self) -> bool:
        """Return whether the job has ended and its cluster, if it had one of its own, is gone."""
        return self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end; returns whether it came in time.

        An interruption (Ctrl-C) cancels the job and ends every worker before it is passed on.
        """
        try:
            return self._ended.wait(timeout_s)
        except BaseException:
            self._on_interrupt(self)
            raise

    def join(self, timeout_s: float) -> bool:
        """As `wait`, but an interruption is nothing special."""
        return self._ended.wait(timeout_s)

    def result(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Waits for the end and returns the accumulators.

        Raises:
            TimeoutError: the job did not end in time; it goes on.
            JobCancelledError: the job was cancelled.
            Exception: the job failed: the exception of the user's function as itself, or a
                `JobExecutionError`.
        """
        if not self.wait(timeout_s):
            raise TimeoutError(f"job {self.job_name!r} did not end within {timeout_s} s")
        if self._error is not None:
            raise self._error
        return self._final_accumulators

    def exception(self) -> BaseException | None:
        """Return the exception that `result` raises for a job that has ended."""
        return self._error

    def accumulators(self) -> dict[str, Any]:
        """The accumulators as they are now."""
        values = {} if self._has_result else self._accumulators()
        # Once the job has ended there is nobody to ask, though its cluster may still be closing.
        return self._final_accumulators if self._has_result else values

    @property
    def _has_result(self) -> bool:
        return self._runtime_ms is not None

    def collect(self, collect_id: str) -> CollectResults:
        """The results of one of the job's collect sinks.

        Raises:
            KeyError: the job was not submitted with this collect id.
        """
        return self._collect(collect_id)

    def runtime_ms(self) -> int:
        """Time since the submission, or from it to the end."""
        if self._runtime_ms is not None:
            return self._runtime_ms
        return int((time.monotonic() - self._started_s) * 1000)

    def progress(self) -> JobProgress:
        """The job's progress; after its end the last that was read."""
        if self._read_progress is not None and not self._ended.is_set():
            # It may be busy, or end at this moment.
            with contextlib.suppress(TimeoutError):
                self._last_progress = self._read_progress() or self._last_progress
        last = self._last_progress
        share = 1.0 if self._status is JobStatus.FINISHED and last.share is not None else last.share
        return replace(last, status=self._status.value, runtime_ms=self.runtime_ms(), share=share)

    def operator_totals(self) -> OperatorTotals:
        """Return what the job's operators counted, as they reported it last."""
        return self._operator_totals()

    def add_done_callback(self, callback: Callable[[JobHandle], None]) -> None:
        """Calls back once the job has ended: from the ending thread, or at once."""
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    # ---- for the JobMaster and its cluster ---------------------------------------------------

    def set_status(self, status: JobStatus) -> None:
        """Notes a status; the end is told by `complete`."""
        self._status = status

    def set_result(
        self,
        status: JobStatus,
        error: BaseException | None,
        accumulators: dict[str, Any],
        runtime_ms: int | None = None,
    ) -> None:
        """Notes how the job ended, before `complete` tells of it; now unless it took less time."""
        self._status = status
        self._error = error
        self._final_accumulators = accumulators
        self._runtime_ms = self.runtime_ms() if runtime_ms is None else runtime_ms

    def complete(self) -> None:
        """Lets the waiting callers go on."""
        with self._lock:
            self._ended.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)
