"""Metrics of a job and of the driver, derived from a snapshot of the cluster: Flink's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus
from penstock.metrics.values import MetricValues, read_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from penstock.jobmaster.snapshots import ClusterSnapshot, JobSnapshot
    from penstock.metrics.values import GaugeValue

_TIMED: Final = (
    JobStatus.INITIALIZING,
    JobStatus.CREATED,
    JobStatus.RUNNING,
    JobStatus.RESTARTING,
    JobStatus.FAILING,
    JobStatus.CANCELLING,
)


def job_metrics(job: JobSnapshot, now_ms: int) -> MetricValues:
    """Return the run time, restarts and checkpoints of a job.

    Args:
        job: The job.
        now_ms: The wall clock.
    """
    running_ms = now_ms - job.timestamps[job.status]
    is_running = job.status is JobStatus.RUNNING
    is_down = job.status in (JobStatus.FAILING, JobStatus.RESTARTING)
    gauges: dict[str, GaugeValue] = {
        "uptime": running_ms if is_running else 0,
        "downtime": running_ms if is_down else 0,
        "numRestarts": job.num_restarts,
    }
    for status in _TIMED:
        gauges[f"{status.value.lower()}Time"] = running_ms if job.status is status else 0
    states = [subtask.current.state for vertex in job.vertices for subtask in vertex.subtasks]
    gauges["deployingState"] = int(ExecutionState.DEPLOYING in states)
    return MetricValues(gauges=gauges | _checkpoint_gauges(job))


def _checkpoint_gauges(job: JobSnapshot) -> dict[str, GaugeValue]:
    checkpoints = job.checkpoints
    last = checkpoints.latest.get("completed")
    savepoint = checkpoints.latest.get("savepoint")
    if last is None or (savepoint is not None and savepoint.checkpoint_id > last.checkpoint_id):
        last = savepoint
    restored = checkpoints.restored
    return {
        "totalNumberOfCheckpoints": checkpoints.counts["total"],
        "numberOfInProgressCheckpoints": checkpoints.counts["in_progress"],
        "numberOfCompletedCheckpoints": checkpoints.counts["completed"],
        "numberOfFailedCheckpoints": checkpoints.counts["failed"],
        "lastCheckpointRestoreTimestamp": -1 if restored is None else restored.restored_ms,
        "lastCompletedCheckpointId": -1 if last is None else last.checkpoint_id,
        "lastCheckpointSize": -1 if last is None else last.total("checkpointed_bytes"),
        "lastCheckpointFullSize": -1 if last is None else last.total("full_bytes"),
        "lastCheckpointDuration": -1 if last is None else last.duration_ms,
        "lastCheckpointProcessedData": -1 if last is None else last.total("processed_bytes"),
        "lastCheckpointPersistedData": -1 if last is None else last.total("persisted_bytes"),
        "lastCheckpointCompletedTimestamp": -1 if last is None else last.end_ms or -1,
        "lastCheckpointExternalPath": "n/a" if last is None else last.external_path or "n/a",
    }


def driver_metrics(cluster: ClusterSnapshot, process: Mapping[str, Any]) -> MetricValues:
    """Return the workers, slots and jobs of a cluster, and the gauges of the driver's process.

    Args:
        cluster: The cluster.
        process: Gauges by their names.
    """
    values = read_metrics(process, "the driver")
    return MetricValues(
        counters=values.counters,
        gauges={
            **values.gauges,
            "numRegisteredTaskManagers": len(cluster.workers),
            "numRunningJobs": sum(not job.status.is_globally_terminal for job in cluster.jobs),
            "taskSlotsTotal": sum(worker.slots for worker in cluster.workers),
            "taskSlotsAvailable": sum(worker.free_slots for worker in cluster.workers),
        },
    )
