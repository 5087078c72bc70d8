"""The JSON of a job's checkpoints (internals M69)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint_storage.storage import configured_directory
from penstock.common.options import changelog, state
from penstock.jobmaster.checkpointing.properties import Retention
from penstock.jobmaster.checkpointing.statistics import Summary, summaries
from penstock.network.events import SnapshotKind
from penstock.rest.call import RestError
from penstock.rest.figures import NAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.checkpoint_storage.handles import CheckpointMetrics
    from penstock.jobmaster.checkpointing.statistics import CheckpointRecord
    from penstock.rest.call import Call, Json

_TYPES: Final = {
    SnapshotKind.CHECKPOINT.name: "CHECKPOINT",
    SnapshotKind.FULL_CHECKPOINT.name: "CHECKPOINT",
    SnapshotKind.SAVEPOINT.name: "SAVEPOINT",
    SnapshotKind.SAVEPOINT_SUSPEND.name: "SYNC_SAVEPOINT",
    SnapshotKind.SAVEPOINT_TERMINATE.name: "SYNC_SAVEPOINT",
}
_STORAGES: Final = {True: "JobManagerCheckpointStorage", False: "FileSystemCheckpointStorage"}
_BACKENDS: Final = {"hashmap": "HashMapStateBackend", "rocksdb": "EmbeddedRocksDBStateBackend"}


def checkpoints(call: Call) -> Json:
    """Return the checkpoints of a job: counts, distributions, and the latest of each kind.

    Sizes are in bytes, ``end_to_end_duration`` in ms.
    """
    found = call.job().checkpoints
    figures = summaries(found.completed)
    latest: dict[str, Any] = {
        kind: _record(found.latest[kind], details=False) if kind in found.latest else None
        for kind in ("completed", "savepoint", "failed")
    }
    restored = found.restored
    latest["restored"] = restored and {
        "id": restored.checkpoint_id,
        "restore_timestamp": restored.restored_ms,
        "is_savepoint": restored.is_savepoint,
        "external_path": restored.external_path,
    }
    return {
        "counts": dict(found.counts),
        "summary": {
            "checkpointed_size": _summary(figures["checkpointed_size"]),
            "state_size": _summary(figures["state_size"]),
            "end_to_end_duration": _summary(figures["end_to_end_duration"]),
            "alignment_buffered": _summary(Summary.of(())),
            "processed_data": _summary(figures["processed_data"]),
            "persisted_data": _summary(figures["persisted_data"]),
        },
        "latest": latest,
        "history": [_record(record, details=False) for record in found.history],
    }


def checkpoint_config(call: Call) -> Json:
    """Return the checkpoint settings of a job.

    Without periodic checkpoints, ``interval`` is 2^63 - 1.
    """
    found = call.job()
    settings, options = found.checkpoints.settings, found.configuration
    retention = settings.retention
    tolerable = settings.tolerable_failures
    backend = state.BACKEND.read(options)
    folder = configured_directory(options)
    return {
        "mode": "exactly_once" if settings.is_exactly_once else "at_least_once",
        # Flink's number for "never".
        "interval": 2**63 - 1 if settings.interval_ms is None else settings.interval_ms,
        "timeout": settings.timeout_ms,
        "min_pause": settings.min_pause_ms,
        "max_concurrent": settings.max_concurrent,
        "externalization": {
            "enabled": retention is not Retention.NO_EXTERNALIZED_CHECKPOINTS,
            "delete_on_cancellation": retention is not Retention.RETAIN_ON_CANCELLATION,
        },
        "state_backend": _BACKENDS.get(backend, backend),
        "checkpoint_storage": _STORAGES[folder is None],
        "unaligned_checkpoints": settings.is_unaligned,
        "tolerable_failed_checkpoints": 2**31 - 1 if tolerable is None else tolerable,
        "aligned_checkpoint_timeout": settings.aligned_timeout_ms,
        "checkpoints_after_tasks_finish": settings.after_tasks_finish,
        "state_changelog_enabled": changelog.ENABLED.read(options),
        "changelog_periodic_materialization_interval": changelog.MATERIALIZE_INTERVAL.read(options),
        "changelog_storage": changelog.STORAGE.read(options),
    }


def checkpoint(call: Call) -> Json:
    """Return a checkpoint, with the figures of each vertex.

    A checkpoint that is not in the history is answered with 404.
    """
    return _record(_find(call), details=True)


def subtasks_of_checkpoint(call: Call) -> Json:
    """Return the figures of a checkpoint for each subtask of a vertex, and their distribution.

    A subtask that has not acknowledged the checkpoint is ``pending_or_failed``.
    """
    record, vertex = _find(call), call.vertex()
    reported = {index: report for (of, index), report in record.subtasks.items() if of == vertex.id}
    if vertex.id not in record.num_subtasks:
        raise RestError(404, f"There are no statistics of vertex {vertex.id.hex()}")
    shown: list[Json] = []
    # The job may have been rescaled since: a complete one has the subtasks that reported.
    is_complete = record.status == "COMPLETED"
    for index in range(1 + max(reported, default=-1) if is_complete else vertex.parallelism):
        if index in reported:
            shown.append(_subtask(index, record, *reported[index]))
        else:
            shown.append({"className": "pending", "index": index, "status": "pending_or_failed"})
    metrics = [one for _, one in reported.values()]
    acknowledged = [max(0, at_ms - record.trigger_ms) for at_ms, _ in reported.values()]
    return {
        **_of_vertex(record, vertex.id),
        "summary": {
            "checkpointed_size": _spread(one.checkpointed_bytes for one in metrics),
            "state_size": _spread(one.full_bytes for one in metrics),
            "end_to_end_duration": _spread(acknowledged),
            "checkpoint_duration": {
                "sync": _spread(one.sync_ms for one in metrics),
                "async": _spread(one.async_ms for one in metrics),
            },
            "alignment": {
                "buffered": _spread(()),
                "processed": _spread(one.processed_bytes for one in metrics),
                "persisted": _spread(one.persisted_bytes for one in metrics),
                "duration": _spread(one.alignment_ms for one in metrics),
            },
            "start_delay": _spread(one.start_delay_ms for one in metrics),
        },
        "subtasks": shown,
    }


def _find(call: Call) -> CheckpointRecord:
    found, number = call.job().checkpoints, call.number("checkpointid")
    for record in (*found.history, *found.latest.values()):
        if record.checkpoint_id == number:
            return record
    raise RestError(404, f"Could not find checkpointing statistics for checkpoint {number}.")


def _record(record: CheckpointRecord, *, details: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "className": record.status.lower(),
        "id": record.checkpoint_id,
        "status": record.status,
        "is_savepoint": record.is_savepoint,
        "savepointFormat": record.savepoint_format,
        "checkpoint_type": _TYPES[record.kind],
        "trigger_timestamp": record.trigger_ms,
        "latest_ack_timestamp": record.latest_ack_ms or -1,
        "checkpointed_size": record.total("checkpointed_bytes"),
        "state_size": record.total("full_bytes"),
        "end_to_end_duration": record.duration_ms,
        "alignment_buffered": 0,
        "processed_data": record.total("processed_bytes"),
        "persisted_data": record.total("persisted_bytes"),
        "num_subtasks": sum(record.num_subtasks.values()),
        "num_acknowledged_subtasks": len(record.subtasks),
        "tasks": {id_.hex(): _of_vertex(record, id_) for id_ in record.num_subtasks}
        if details
        else {},
    }
    if record.status == "COMPLETED":
        shown |= {"external_path": record.external_path, "discarded": record.is_discarded}
    elif record.status == "FAILED":
        shown |= {"failure_timestamp": record.end_ms, "failure_message": record.failure}
    else:
        shown["className"] = "in_progress"
    return shown


def _of_vertex(record: CheckpointRecord, vertex_id: bytes) -> dict[str, Any]:
    reports = [report for (of, _), report in record.subtasks.items() if of == vertex_id]
    last_ms = max((at_ms for at_ms, _ in reports), default=-1)
    metrics = [one for _, one in reports]
    return {
        "id": record.checkpoint_id,
        "status": record.status,
        "latest_ack_timestamp": last_ms,
        "checkpointed_size": sum(one.checkpointed_bytes for one in metrics),
        "state_size": sum(one.full_bytes for one in metrics),
        "end_to_end_duration": -1 if last_ms < 0 else max(0, last_ms - record.trigger_ms),
        "alignment_buffered": 0,
        "processed_data": sum(one.processed_bytes for one in metrics),
        "persisted_data": sum(one.persisted_bytes for one in metrics),
        "num_subtasks": record.num_subtasks[vertex_id],
        "num_acknowledged_subtasks": len(reports),
    }


def _subtask(
    index: int, record: CheckpointRecord, acknowledged_ms: int, metrics: CheckpointMetrics
) -> dict[str, Any]:
    return {
        "className": "completed",
        "index": index,
        "status": "completed",
        "ack_timestamp": acknowledged_ms,
        "end_to_end_duration": max(0, acknowledged_ms - record.trigger_ms),
        "checkpointed_size": metrics.checkpointed_bytes,
        "state_size": metrics.full_bytes,
        "checkpoint": {"sync": round(metrics.sync_ms), "async": round(metrics.async_ms)},
        "alignment": {
            "buffered": 0,
            "processed": metrics.processed_bytes,
            "persisted": metrics.persisted_bytes,
            "duration": round(metrics.alignment_ms),
        },
        "start_delay": round(metrics.start_delay_ms),
        "unaligned_checkpoint": metrics.is_unaligned,
        "aborted": False,
    }


def _spread(values: Iterable[float]) -> dict[str, Any]:
    """Return the distribution over the subtasks of one checkpoint."""
    return _summary(Summary.of(list(values)))


def _summary(summary: Summary) -> dict[str, Any]:
    def quantile(value: float) -> float | str:
        return NAN if math.isnan(value) else float(value)

    return {
        "min": round(summary.minimum),
        "max": round(summary.maximum),
        "avg": round(summary.average),
        "p50": quantile(summary.p50),
        "p90": quantile(summary.p90),
        "p95": quantile(summary.p95),
        "p99": quantile(summary.p99),
        "p999": quantile(summary.p999),
    }
