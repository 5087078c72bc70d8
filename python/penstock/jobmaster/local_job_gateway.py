"""LocalJobGateway: the gateway to a job whose JobMaster runs in this process."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from penstock.common.jobs.job_gateway import JobGateway
from penstock.common.jobs.job_progress import JobProgress
from penstock.errors import StateReadError
from penstock.jobmaster.checkpointing.savepoints import SavepointRequest
from penstock.jobmaster.scheduling.states import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.common.jobs.job_gateway import (
        OperatorTotals,
        SavepointWish,
        StateAnswer,
        StateQuestion,
    )
    from penstock.jobmaster.checkpointing.completed_store import CompletedCheckpoint
    from penstock.jobmaster.collect import CollectResults, CollectService
    from penstock.jobmaster.main_thread import QueueUser
    from penstock.metrics.store import MetricStore

CALL_TIMEOUT_S: Final = 10.0


class JobNotRunningError(Exception):
    """The cluster has no such job, or it has ended."""


class JobCommands(Protocol):
    """Commands of a JobMaster; they run in the main thread."""

    def cancel(self) -> None:
        """Cancel the job, unless it has ended."""

    def take_savepoint(self, request: SavepointRequest) -> None:
        """Take a savepoint, unless the job has ended."""

    def take_checkpoint(self, *, full: bool) -> Future[CompletedCheckpoint]:
        """Take a checkpoint beside the periodic ones."""

    def rescale(self, wish: int | Mapping[bytes, int]) -> Future[None]:
        """Continue with another parallelism."""

    def accumulators(
        self, vertex_id: bytes | None = None, subtask: int | None = None
    ) -> dict[str, object]:
        """Return the merged accumulators of the job, of a vertex or of a subtask."""


class LocalJobGateway(JobGateway):
    """Reaches a job's JobMaster over the main thread.  All methods may be called by any thread."""

    def __init__(
        self,
        job_id: bytes,
        job_name: str,
        calls: QueueUser,
        collect: CollectService,
        metrics: MetricStore,
        read_progress: Callable[[], JobProgress | None],
        on_interrupt: Callable[[LocalJobGateway], object] | None = None,
        on_change: Callable[[], None] = lambda: None,
        read_state: Callable[[StateQuestion], StateAnswer] | None = None,
    ) -> None:
        """Create a gateway; `attach` connects its JobMaster before the first request.

        Args:
            job_id: The job's id.
            job_name: Its name.
            calls: Posts commands to the main thread.
            collect: Has the results of its collect sinks.
            metrics: Has the counts of its operators.
            read_progress: Returns the job's progress; None if the cluster does not know the job.
            on_interrupt: Ends the job and its workers when Ctrl-C interrupts waiting; `cancel` by
                default.
            on_change: Called when a command has changed the job, so that snapshots are outdated.
            read_state: Asks the job's tasks for keyed state.
        """
        super().__init__(job_id, job_name)
        self._calls = calls
        self._collect = collect
        self._metrics = metrics
        self._read_progress = read_progress
        self._on_interrupt = on_interrupt or LocalJobGateway.cancel
        self._on_change = on_change
        self._read_state = read_state
        self._last_progress = JobProgress(job_name, JobStatus.INITIALIZING.value, 0)
        self._status = JobStatus.INITIALIZING
        self._master: JobCommands | None = None
        self._is_over = False
        self._watched: list[SavepointRequest] = []

    # ---- for the program, and for a session on its behalf ------------------------------------

    def status(self) -> JobStatus:
        """Return the job's status."""
        return self._status

    def cancel(self) -> Future[None]:
        """Request cancellation; a job that has ended stays as it is."""
        begun: Future[None] = Future()

        def cancel() -> None:
            try:
                if not self._is_over:
                    self._commands.cancel()
                    self._on_change()
            finally:
                begun.set_result(None)

        if self._ended.is_set():
            begun.set_result(None)
        else:
            self._calls.post(cancel)
        return begun

    def take_savepoint(self, wish: SavepointWish) -> Future[str]:
        """Request a savepoint; the job's end is answered once its cluster is gone as well."""
        request = self._request(wish)
        if not self._ended.is_set():
            self._calls.post(lambda: self._commands.take_savepoint(request))
        # Covers requests that the main thread never sees because it has ended.
        self.add_done_callback(lambda _: request.job_ended(self._status.value))
        return request.future

    def accumulators(self) -> dict[str, object]:
        """Return the present accumulators."""
        values = {} if self._has_result else self.ask_accumulators().result(CALL_TIMEOUT_S)
        # After the job's end there is nobody to ask, though its cluster may still be closing.
        return self._final_accumulators if self._has_result else values

    def read_state(self, question: StateQuestion) -> StateAnswer:
        """Return entries of a keyed state, as tasks have them now.

        Raises:
            StateReadError: The job does not run, has no such state, or does not answer.
        """
        if self._read_state is None or self._is_over or self._ended.is_set():
            raise StateReadError(f"job {self.job_name!r} does not run")
        return self._read_state(question)

    def collect(self, collect_id: str) -> CollectResults:
        """Return the results of one of the job's collect sinks.

        Raises:
            KeyError: The job was not submitted with this collect id.
        """
        return self._collect.results(self.job_id, collect_id)

    def progress(self) -> JobProgress:
        """Return the job's progress; after its end the last known one."""
        if not self._ended.is_set():
            # It may be busy, or end at this moment.
            with contextlib.suppress(TimeoutError):
                self._last_progress = self._read_progress() or self._last_progress
        last = self._last_progress
        share = 1.0 if self._status is JobStatus.FINISHED and last.share is not None else last.share
        return replace(last, status=self._status.value, runtime_ms=self.runtime_ms(), share=share)

    def operator_totals(self) -> OperatorTotals:
        """Return the counts that the job's operators reported last."""
        return self._metrics.totals(self.job_id)

    def _interrupted(self) -> None:
        self._on_interrupt(self)

    # ---- for the REST interface --------------------------------------------------------------

    def take_watched_savepoint(self, wish: SavepointWish) -> Future[str]:
        """Request a savepoint as `take_savepoint` does, but answer before the cluster closes.

        Then a client of the REST interface can still fetch the answer.
        """
        request = self._request(wish)

        def take() -> None:
            if self._is_over:
                request.job_ended(self._status.value)
                return
            self._watched = [one for one in self._watched if not one.future.done()]
            self._watched.append(request)
            self._commands.take_savepoint(request)

        self._calls.post(take)
        return request.future

    def take_checkpoint(self, *, full: bool) -> Future[int]:
        """Request a checkpoint; the future returns its id, or fails."""
        answer: Future[int] = Future()
        answer.add_done_callback(lambda _: self._on_change())

        def tell(done: Future[CompletedCheckpoint]) -> None:
            error = done.exception()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(done.result().checkpoint_id)

        def take() -> None:
            try:
                self._running().take_checkpoint(full=full).add_done_callback(tell)
            except Exception as error:
                answer.set_exception(error)

        self._calls.post(take)
        return answer

    def rescale(self, wish: int | Mapping[bytes, int]) -> Future[Future[None]]:
        """Request another parallelism.

        Args:
            wish: The parallelism of the job's vertices; see `parallelisms_for`.

        Returns:
            A future that fails with a `RescalingError` if the request is rejected.  Else its result
            is a future that is done when all tasks run with that parallelism.
        """

        def rescale() -> Future[None]:
            done = self._running().rescale(wish)
            done.add_done_callback(lambda _: self._on_change())
            return done

        return self._calls.submit(rescale)

    def ask_accumulators(
        self, vertex_id: bytes | None = None, subtask: int | None = None
    ) -> Future[dict[str, object]]:
        """Request the accumulators of the job, of one of its vertices or subtasks, by name.

        After the job has ended these are the last ones.
        """
        return self._calls.submit(lambda: self._commands.accumulators(vertex_id, subtask))

    # ---- for the JobMaster and its cluster ---------------------------------------------------

    def attach(self, master: JobCommands) -> None:
        """Connect the job's JobMaster."""
        self._master = master

    def master_ended(self) -> None:
        """Answer open requests of watchers: the JobMaster has ended.  In the main thread."""
        self._is_over = True
        watched, self._watched = self._watched, []
        for request in watched:
            request.job_ended(self._status.value)

    def set_status(self, status: JobStatus) -> None:
        """Set the status; `complete` reports the end."""
        self._status = status

    def set_result(
        self, status: JobStatus, error: BaseException | None, accumulators: dict[str, object]
    ) -> None:
        """Set the result of a job that ends now, before `complete`."""
        self._status = status
        self._note_end(error, accumulators, None)

    def _request(self, wish: SavepointWish) -> SavepointRequest:
        request = SavepointRequest(wish, self.job_name)
        request.future.add_done_callback(lambda _: self._on_change())
        return request

    @property
    def _commands(self) -> JobCommands:
        assert self._master is not None, "attached before the job was started"
        return self._master

    def _running(self) -> JobCommands:
        if self._is_over:
            raise JobNotRunningError(f"job {self.job_id.hex()} does not run")
        return self._commands
