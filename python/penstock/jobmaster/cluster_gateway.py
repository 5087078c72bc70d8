"""ClusterGateway: what watchers and operators of a cluster see of it and may ask of it.

Watchers read snapshots; one that is younger than `FRESH_MS` serves everybody, so that however
many ask, the main thread takes a picture ten times a second at the most.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import cluster
from penstock.jobmaster.checkpointing.savepoints import SavepointRequest
from penstock.jobmaster.snapshots import ClusterSnapshot, JobSnapshot, WorkerSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.common.job_client import SavepointWish
    from penstock.jobmaster.checkpointing.completed_store import CompletedCheckpoint
    from penstock.jobmaster.cluster_settings import ClusterSettings
    from penstock.jobmaster.heartbeat_manager import HeartbeatManager
    from penstock.jobmaster.inspections import Inspections
    from penstock.jobmaster.job_handle import JobHandle
    from penstock.jobmaster.job_master import JobMaster
    from penstock.jobmaster.log_tails import LogTails
    from penstock.jobmaster.main_thread import QueueUser
    from penstock.jobmaster.resource_manager import ResourceManager
    from penstock.metrics.store import MetricStore

FRESH_MS: Final = 100


class JobNotRunningError(Exception):
    """The cluster has no such job, or it has ended."""


class ClusterGateway:
    """One cluster as seen from outside; all methods may be called by any thread.

    Attributes:
        metrics: What the workers say of themselves and their tasks.
        logs: What driver and workers have logged lately.
        inspections: Asks workers what they are at.
        configuration: The options of the cluster.
        settings: The same, read.
        end_session: Has the cluster end that does not end with its job; None where it does.
    """

    def __init__(
        self,
        configuration: Mapping[str, str],
        settings: ClusterSettings,
        metrics: MetricStore,
        logs: LogTails,
        inspections: Inspections,
        main_thread: QueueUser,
        resources: ResourceManager,
        heartbeats: HeartbeatManager,
    ) -> None:
        """Connects to the parts of a cluster.

        Args:
            configuration: Its options.
            settings: The same, read.
            metrics: Where the workers' metrics arrive.
            logs: Where their logs do.
            inspections: Asks workers what they are at.
            main_thread: Where pictures are taken.
            resources: Knows the workers.
            heartbeats: Knows when they were heard last.
        """
        self.configuration = dict(configuration)
        self.settings = settings
        self.metrics = metrics
        self.logs = logs
        self.inspections = inspections
        self._main_thread = main_thread
        self._resources = resources
        self._heartbeats = heartbeats
        self._masters: dict[bytes, JobMaster] = {}
        self.end_session: Callable[[], None] | None = None
        self._handles: dict[bytes, JobHandle] = {}
        self._ended: dict[bytes, JobSnapshot] = {}
        self._ended_masters: dict[bytes, JobMaster] = {}
        self._max_ended = cluster.MAX_ENDED_JOBS.read(configuration)
        self._savepoints: dict[bytes, list[SavepointRequest]] = {}
        self._lock = threading.Lock()
        self._latest: Future[ClusterSnapshot] | None = None

    # ---- for the Dispatcher, in the main thread ----------------------------------------------

    def job_started(self, master: JobMaster) -> None:
        """A job has begun."""
        self._masters[master.job_id] = master
        self._handles[master.job_id] = master.handle

    def job_ended(self, master: JobMaster) -> None:
        """A job has ended; what it was at last stays to be seen."""
        self._ended[master.job_id] = master.snapshot()
        self._ended_masters[master.job_id] = self._masters.pop(master.job_id)
        self._outdate()
        for request in self._savepoints.pop(master.job_id, ()):
            request.job_ended(master.handle.status().value)
        while len(self._ended) > self._max_ended:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self._ended_masters[oldest], self._handles[oldest]
            self.metrics.job_forgotten(oldest)

    # ---- for watchers ------------------------------------------------------------------------

    def snapshot(self) -> Future[ClusterSnapshot]:
        """The cluster as it is now, or was a moment ago."""
        with self._lock:
            latest = self._latest
            if latest is not None and (not latest.done() or self._is_fresh(latest)):
                return latest
            self._latest = latest = self._main_thread.submit(self._take)
            return latest

    def _outdate(self, _: object = None) -> None:
        """Something has come of what somebody asked for: who looks next sees it."""
        with self._lock:
            self._latest = None

    def _is_fresh(self, latest: Future[ClusterSnapshot]) -> bool:
        if latest.exception() is not None:
            return False
        return 0 <= _wall_ms() - latest.result().taken_ms < FRESH_MS

    def _take(self) -> ClusterSnapshot:
        now_ms = _wall_ms()
        jobs = [self._ended.get(id_) or self._masters[id_].snapshot() for id_ in self._handles]
        workers = [
            WorkerSnapshot(
                executor_id=executor.executor_id,
                address=executor.address,
                pid=executor.pid,
                free_slots=len(executor.free_slots),
                allocations=tuple((id_, job) for id_, (job, _) in executor.allocations.items()),
                last_heard_ms=now_ms
                - round(self._heartbeats.silence_s(executor.executor_id) * 1000),
            )
            for executor in self._resources.executors.values()
        ]
        return ClusterSnapshot(now_ms, tuple(workers), tuple(jobs))

    def accumulators(
        self, job_id: bytes, vertex_id: bytes | None = None, subtask: int | None = None
    ) -> Future[dict[str, Any]]:
        """The accumulators of a job, of one of its vertices or subtasks, merged by name.

        Those of a job that has ended are the last ones.
        """

        def get() -> dict[str, Any]:
            master = self._ended_masters.get(job_id) or self._master(job_id)
            return master.accumulators(vertex_id, subtask)

        return self._main_thread.submit(get)

    # ---- for operators -----------------------------------------------------------------------

    def cancel(self, job_id: bytes) -> Future[None]:
        """Has a job cancelled; one that has ended stays as it is."""

        def cancel() -> None:
            master = self._masters.get(job_id)
            if master is not None:
                master.cancel()
                self._outdate()

        return self._main_thread.submit(cancel)

    def take_savepoint(self, job_id: bytes, wish: SavepointWish) -> Future[str]:
        """Asks a job for a savepoint.

        The future gives its path when it is complete, of a savepoint that ends the job when the
        job has ended; it fails with a `CheckpointError`.
        """
        handle = self._handles[job_id]
        request = SavepointRequest(wish, handle.job_name)
        request.future.add_done_callback(self._outdate)

        def take() -> None:
            master = self._masters.get(job_id)
            if master is None:
                request.job_ended(handle.status().value)
                return
            waiting = self._savepoints.setdefault(job_id, [])
            waiting[:] = [one for one in waiting if not one.future.done()]
            waiting.append(request)
            master.take_savepoint(request)

        self._main_thread.post(take)
        return request.future

    def take_checkpoint(self, job_id: bytes, *, full: bool) -> Future[int]:
        """Asks a job for a checkpoint; the future gives its number, or fails."""
        answer: Future[int] = Future()
        answer.add_done_callback(self._outdate)

        def tell(done: Future[CompletedCheckpoint]) -> None:
            error = done.exception()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(done.result().checkpoint_id)

        def take() -> None:
            try:
                self._master(job_id).take_checkpoint(full=full).add_done_callback(tell)
            except Exception as error:
                answer.set_exception(error)

        self._main_thread.post(take)
        return answer

    def rescale(self, job_id: bytes, wish: int | Mapping[bytes, int]) -> Future[Future[None]]:
        """Asks a job to go on with another parallelism.

        Args:
            job_id: The job.
            wish: That of its vertices; see `parallelisms_for`.

        Returns:
            What fails with a `RescalingError` when that is refused, and else gives a future that
            is done when all tasks run so.
        """

        def rescale() -> Future[None]:
            done = self._master(job_id).rescale(wish)
            done.add_done_callback(self._outdate)
            return done

        return self._main_thread.submit(rescale)

    def _master(self, job_id: bytes) -> JobMaster:
        master = self._masters.get(job_id)
        if master is None:
            raise JobNotRunningError(f"job {job_id.hex()} does not run")
        return master


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
