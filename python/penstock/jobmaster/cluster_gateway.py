"""ClusterGateway: a cluster as its watchers see it, and the gateways of its jobs.

Watchers read snapshots; all share one that is younger than `FRESH_MS`.  So the main thread creates
at most ten snapshots a second, however many watchers ask.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from penstock.common.options import cluster
from penstock.jobmaster.local_job_gateway import JobNotRunningError
from penstock.jobmaster.snapshots import ClusterSnapshot, JobSnapshot, WorkerSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from penstock.jobmaster.cluster_settings import ClusterSettings
    from penstock.jobmaster.job_master import JobMaster
    from penstock.jobmaster.local_job_gateway import LocalJobGateway
    from penstock.jobmaster.main_thread import QueueUser
    from penstock.jobmaster.workers.heartbeat_manager import HeartbeatManager
    from penstock.jobmaster.workers.inspections import Inspections
    from penstock.jobmaster.workers.log_tails import LogTails
    from penstock.jobmaster.workers.resource_manager import ResourceManager
    from penstock.metrics.store import MetricStore

FRESH_MS: Final = 100


class ClusterGateway:
    """One cluster as seen from outside; any thread may call its methods.

    Attributes:
        metrics: The metrics of workers and tasks.
        logs: The last log lines of driver and workers.
        inspections: Inspects workers.
        configuration: The options of the cluster.
        settings: The same options, parsed.
        end_session: Ends a cluster that outlives its jobs; None for a cluster of one job.
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
        """Connect to the parts of a cluster.

        Args:
            configuration: Its options.
            settings: The same options, parsed.
            metrics: Receives the workers' metrics.
            logs: Receives their logs.
            inspections: Inspects workers.
            main_thread: Creates the snapshots.
            resources: Has the registered workers.
            heartbeats: Knows when each worker was last heard.
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
        self._jobs: dict[bytes, LocalJobGateway] = {}
        self._ended: dict[bytes, JobSnapshot] = {}
        self._max_ended = cluster.MAX_ENDED_JOBS.read(configuration)
        self._lock = threading.Lock()
        self._latest: Future[ClusterSnapshot] | None = None

    # ---- for the Dispatcher, in the main thread ----------------------------------------------

    def job_started(self, master: JobMaster) -> None:
        """Register the gateway of a job that starts."""
        self._masters[master.job_id] = master
        self._jobs[master.job_id] = master.gateway

    def job_ended(self, master: JobMaster) -> None:
        """Keep the last snapshot of an ended job for watchers."""
        self._ended[master.job_id] = master.snapshot()
        del self._masters[master.job_id]
        self.outdate()
        master.gateway.master_ended()
        while len(self._ended) > self._max_ended:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self._jobs[oldest]
            self.metrics.job_forgotten(oldest)

    # ---- for watchers ------------------------------------------------------------------------

    def snapshot(self) -> Future[ClusterSnapshot]:
        """Return a snapshot of the cluster, at most `FRESH_MS` old."""
        with self._lock:
            latest = self._latest
            if latest is not None and (not latest.done() or self._is_fresh(latest)):
                return latest
            self._latest = latest = self._main_thread.submit(self._take)
            return latest

    def job(self, job_id: bytes) -> LocalJobGateway:
        """Return the gateway of a job that runs, or has ended and is still remembered.

        Raises:
            JobNotRunningError: There is no such job.
        """
        try:
            return self._jobs[job_id]
        except KeyError:
            raise JobNotRunningError(f"job {job_id.hex()} does not run") from None

    def outdate(self) -> None:
        """Discard the cached snapshot: a command has changed a job."""
        with self._lock:
            self._latest = None

    def _is_fresh(self, latest: Future[ClusterSnapshot]) -> bool:
        if latest.exception() is not None:
            return False
        return 0 <= _wall_ms() - latest.result().taken_ms < FRESH_MS

    def _take(self) -> ClusterSnapshot:
        now_ms = _wall_ms()
        jobs = [self._ended.get(id_) or self._masters[id_].snapshot() for id_ in self._jobs]
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


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
