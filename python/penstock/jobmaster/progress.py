"""ProgressReader: the progress of a job, from the snapshots and metrics that all watchers read."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.common.jobs.job_progress import JobProgress
from penstock.jobmaster.scheduling.states import ExecutionState

if TYPE_CHECKING:
    from penstock.jobmaster.cluster_gateway import ClusterGateway
    from penstock.jobmaster.snapshots import JobSnapshot, VertexSnapshot
    from penstock.metrics.store import SubtaskMetrics

SNAPSHOT_TIMEOUT_S: Final = 10.0
RATE_WINDOW_MS: Final = 10_000
ASK_EVERY_S: Final = 0.5
"""Shortest interval between requests to workers, however often progress is read."""
_MEASURES: Final = ("Records", "Bytes")


class ProgressReader:
    """Reads the progress of one job; one thread at a time."""

    def __init__(self, gateway: ClusterGateway, job_id: bytes) -> None:
        """Create a reader.

        Args:
            gateway: The job's cluster.
            job_id: The job.
        """
        self._gateway = gateway
        self._job_id = job_id
        self._ask_s = 0.0
        self._seen: deque[tuple[int, int]] = deque()
        #: The greatest number of records known of each source: a new attempt knows fewer.
        self._assigned: dict[bytes, int] = {}

    def read(self) -> JobProgress | None:
        """Return the job's progress as its workers last reported it, and request a new report.

        Returns:
            None if the cluster does not know the job.

        Raises:
            TimeoutError: The driver is busy.
        """
        now_s = time.monotonic()
        if now_s >= self._ask_s:
            self._ask_s = now_s + ASK_EVERY_S
            self._gateway.inspections.have_metrics_sent()
        job = self._gateway.snapshot().result(SNAPSHOT_TIMEOUT_S).job(self._job_id)
        if job is None:
            return None
        records = self._records(job)
        counts, latest = job.checkpoints.counts, job.checkpoints.latest.get("completed")
        end_ms = job.end_ms if job.end_ms >= 0 else job.taken_ms
        return JobProgress(
            name=job.name,
            status=job.status.value,
            runtime_ms=max(0, end_ms - job.start_ms),
            share=self._share(job),
            records=records,
            records_per_s=self._rate(job.taken_ms, records),
            restarts=job.num_restarts,
            checkpoints=counts["completed"],
            failed_checkpoints=counts["failed"],
            last_checkpoint_ms=None if latest is None else latest.duration_ms,
        )

    def _share(self, job: JobSnapshot) -> float | None:
        """Return the lowest share read of any source; None if one of them is unknown."""
        shares = [self._share_of(job, v) for v in job.vertices if not v.inputs]
        known = [share for share in shares if share is not None]
        return min(known) if known and len(known) == len(shares) else None

    def _share_of(self, job: JobSnapshot, vertex: VertexSnapshot) -> float | None:
        if vertex.state is ExecutionState.FINISHED:
            return 1.0
        metrics = self._gateway.metrics.subtasks(job.id, vertex.id)
        assigned = pending = told = 0
        for one in vertex.subtasks:
            found = metrics.get(one.index)
            own = None if found is None else _own(found, "assigned")
            if found is not None and found.attempt == one.current.attempt and own is not None:
                told += 1
                assigned += own
                pending += _own(found, "pending") or 0
            elif one.current.state is not ExecutionState.FINISHED:
                return None
        # A subtask that ended before its first report counts as an average one.
        assigned += assigned // told * (len(vertex.subtasks) - told) if told else 0
        whole = self._assigned[vertex.id] = max(assigned, self._assigned.get(vertex.id, 0))
        return None if whole == 0 else min(1.0, max(0.0, 1 - pending / whole))

    def _records(self, job: JobSnapshot) -> int | None:
        readers = {producer for vertex in job.vertices for producer, _, _ in vertex.inputs}
        found: list[int] = []
        for vertex in job.vertices:
            if not vertex.inputs:
                metrics = self._gateway.metrics.subtasks(job.id, vertex.id).values()
                given = (_given(one, has_readers=vertex.id in readers) for one in metrics)
                found += [records for records in given if records is not None]
        return sum(found) if found else None

    def _rate(self, now_ms: int, records: int | None) -> float | None:
        if records is None:
            return None
        seen = self._seen
        if seen and records < seen[-1][1]:
            seen.clear()  # it restarted from a checkpoint
        seen.append((now_ms, records))
        while len(seen) > 2 and seen[1][0] <= now_ms - RATE_WINDOW_MS:
            seen.popleft()
        since_ms, before = seen[0]
        return None if now_ms <= since_ms else (records - before) * 1000 / (now_ms - since_ms)


def _own(metrics: SubtaskMetrics, what: str) -> int | None:
    """Return the figures of a task's sources; None if they report none."""
    found = [
        int(values.gauges[f"{what}{measure}"])
        for values in metrics.operators.values()
        for measure in _MEASURES
        if f"{what}{measure}" in values.gauges
    ]
    return sum(found) if found else None


def _given(metrics: SubtaskMetrics, *, has_readers: bool) -> int | None:
    """Return the number of records a source has emitted; a chain with a sink counts none."""
    assigned = [v for v in metrics.operators.values() if "assignedRecords" in v.gauges]
    if assigned:
        return sum(
            int(v.gauges["assignedRecords"]) - int(v.gauges.get("pendingRecords", 0))
            for v in assigned
        )
    return metrics.task.counters.get("numRecordsOut") if has_readers else None
