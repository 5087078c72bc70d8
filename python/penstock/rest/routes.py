"""Every path of the interface, with its handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from penstock.rest import (
    checkpoint_views,
    cluster_views,
    flame_graphs,
    inspection_views,
    job_views,
    metric_views,
    operations,
    savepoint_disposal,
)
from penstock.rest.call import Call, Json, Text

Handler = Callable[[Call], Json | Text | Awaitable[Json]]


@dataclass(frozen=True)
class Endpoint:
    """One method of one path.

    Attributes:
        method: The HTTP method.
        path: The path behind ``/v1``; parts in braces vary.
        handler: Returns the answer.
        status: The HTTP status of an answer.
        query: The parameters of the query.
        body: The fields of the body, with descriptions.
        takes_any_body: Whether the body may have any fields.
    """

    method: str
    path: str
    handler: Handler
    status: int = 200
    query: tuple[str, ...] = ()
    body: tuple[tuple[str, str], ...] = ()
    takes_any_body: bool = False

    @property
    def changes(self) -> bool:
        """Return whether it changes a job."""
        return self.method != "GET"

    @property
    def is_archived(self) -> bool:
        """Return whether its answer is archived when a job has ended."""
        last = self.path.rpartition("/")[2]
        return not self.changes and self.path.startswith(_JOB) and last not in _OF_RUNNING_JOBS


_OF_RUNNING_JOBS: Final = frozenset(
    {"metrics", "jm-operator-metrics", "flamegraph", "records", "state", "{triggerid}"}
)
"""Ends of the paths whose answers depend on a query, or are given by tasks."""

_JOB: Final = "/jobs/{jobid}"
_VERTEX: Final = f"{_JOB}/vertices/{{vertexid}}"
_SUBTASK: Final = f"{_VERTEX}/subtasks/{{subtaskindex}}"
_ATTEMPT: Final = f"{_SUBTASK}/attempts/{{attempt}}"
_WORKER: Final = "/taskmanagers/{taskmanagerid}"
_GET: Final = ("get",)
_SINCE: Final = ("since",)
_AGGREGATED: Final = ("get", "agg")
_FORMAT: Final = ("formatType", "string")
_TRIGGER: Final = ("triggerId", "string")

#: Literal parts come before variable ones that would match them.
ENDPOINTS: Final = (
    Endpoint("GET", "/overview", cluster_views.overview),
    Endpoint("GET", "/config", cluster_views.config),
    Endpoint("GET", "/jobs", job_views.jobs),
    Endpoint("GET", "/jobs/overview", job_views.jobs_overview),
    Endpoint("GET", "/jobs/metrics", metric_views.jobs_metrics, query=(*_AGGREGATED, "jobs")),
    Endpoint("GET", _JOB, job_views.job),
    Endpoint("PATCH", _JOB, operations.cancel, 202, query=("mode",)),
    Endpoint("GET", f"{_JOB}/status", job_views.status),
    Endpoint("GET", f"{_JOB}/plan", job_views.plan),
    Endpoint("GET", f"{_JOB}/config", job_views.config),
    Endpoint("GET", f"{_JOB}/execution-result", job_views.execution_result),
    Endpoint("GET", f"{_JOB}/resource-requirements", job_views.resource_requirements),
    Endpoint(
        "PUT", f"{_JOB}/resource-requirements", operations.require_resources, takes_any_body=True
    ),
    Endpoint("PATCH", f"{_JOB}/rescaling", operations.rescale, 202, query=("parallelism",)),
    Endpoint("GET", f"{_JOB}/rescaling/{{triggerid}}", operations.rescaling_status),
    Endpoint("POST", "/jobs", operations.no_submission, takes_any_body=True),
    Endpoint("DELETE", "/cluster", operations.end_cluster),
    Endpoint(
        "POST",
        "/savepoint-disposal",
        savepoint_disposal.dispose,
        body=(("savepoint-path", "string"), _TRIGGER),
    ),
    Endpoint("GET", "/savepoint-disposal/{triggerid}", savepoint_disposal.disposal_status),
    Endpoint("GET", f"{_JOB}/exceptions", job_views.exceptions, query=("maxExceptions",)),
    Endpoint("GET", f"{_JOB}/accumulators", job_views.accumulators),
    Endpoint("GET", f"{_JOB}/metrics", metric_views.job_metrics_of, query=_GET),
    Endpoint("GET", f"{_JOB}/jobmanager/config", job_views.cluster_config),
    Endpoint("GET", f"{_JOB}/jobmanager/environment", job_views.cluster_environment),
    Endpoint("GET", f"{_JOB}/checkpoints", checkpoint_views.checkpoints),
    Endpoint(
        "POST",
        f"{_JOB}/checkpoints",
        operations.trigger_checkpoint,
        202,
        body=(("checkpointType", "string"), _TRIGGER),
    ),
    Endpoint("GET", f"{_JOB}/checkpoints/config", checkpoint_views.checkpoint_config),
    Endpoint("GET", f"{_JOB}/checkpoints/details/{{checkpointid}}", checkpoint_views.checkpoint),
    Endpoint(
        "GET",
        f"{_JOB}/checkpoints/details/{{checkpointid}}/subtasks/{{vertexid}}",
        checkpoint_views.subtasks_of_checkpoint,
    ),
    Endpoint("GET", f"{_JOB}/checkpoints/{{triggerid}}", operations.checkpoint_status),
    Endpoint(
        "POST",
        f"{_JOB}/savepoints",
        operations.trigger_savepoint,
        202,
        body=(
            ("target-directory", "string"),
            ("cancel-job", "boolean"),
            _FORMAT,
            _TRIGGER,
        ),
    ),
    Endpoint("GET", f"{_JOB}/savepoints/{{triggerid}}", operations.savepoint_status),
    Endpoint(
        "POST",
        f"{_JOB}/stop",
        operations.stop,
        202,
        body=(("targetDirectory", "string"), ("drain", "boolean"), _FORMAT, _TRIGGER),
    ),
    Endpoint("GET", _VERTEX, job_views.vertex),
    Endpoint("GET", f"{_VERTEX}/subtasktimes", job_views.subtask_times),
    Endpoint("GET", f"{_VERTEX}/taskmanagers", job_views.vertex_workers),
    Endpoint("GET", f"{_VERTEX}/accumulators", job_views.vertex_accumulators),
    Endpoint("GET", f"{_VERTEX}/backpressure", metric_views.backpressure),
    Endpoint("GET", f"{_VERTEX}/watermarks", metric_views.watermarks),
    Endpoint(
        "GET",
        f"{_VERTEX}/flamegraph",
        flame_graphs.flame_graph,
        query=("type", "subtaskindex"),
    ),
    Endpoint(
        "GET",
        f"{_VERTEX}/records",
        inspection_views.records,
        query=("edge", "subtask", "count"),
    ),
    Endpoint(
        "GET",
        f"{_JOB}/state",
        inspection_views.state,
        query=("operator", "state", "key"),
    ),
    Endpoint(
        "GET",
        f"{_JOB}/state/scan",
        inspection_views.state_scan,
        query=("operator", "state", "where", "limit", "cursor"),
    ),
    Endpoint("GET", f"{_VERTEX}/metrics", metric_views.vertex_metrics, query=_GET),
    Endpoint("GET", f"{_VERTEX}/jm-operator-metrics", metric_views.coordinator_metrics),
    Endpoint(
        "GET",
        f"{_VERTEX}/subtasks/metrics",
        metric_views.subtasks_metrics,
        query=(*_AGGREGATED, "subtasks"),
    ),
    Endpoint("GET", f"{_VERTEX}/subtasks/accumulators", job_views.subtask_accumulators),
    Endpoint("GET", _SUBTASK, job_views.subtask),
    Endpoint("GET", f"{_SUBTASK}/metrics", metric_views.subtask_metrics, query=_GET),
    Endpoint("GET", _ATTEMPT, job_views.attempt),
    Endpoint("GET", f"{_ATTEMPT}/accumulators", job_views.attempt_accumulators),
    Endpoint("GET", "/taskmanagers", cluster_views.workers),
    Endpoint(
        "GET",
        "/taskmanagers/metrics",
        metric_views.workers_metrics,
        query=(*_AGGREGATED, "taskmanagers"),
    ),
    Endpoint("GET", "/taskmanagers/{taskmanagerid}", cluster_views.worker),
    Endpoint(
        "GET", "/taskmanagers/{taskmanagerid}/metrics", metric_views.worker_metrics, query=_GET
    ),
    Endpoint("GET", f"{_WORKER}/thread-dump", inspection_views.worker_threads),
    Endpoint("GET", f"{_WORKER}/log", inspection_views.worker_log, query=_SINCE),
    Endpoint("GET", f"{_WORKER}/logs", inspection_views.worker_logs),
    Endpoint(
        "GET", f"{_WORKER}/logs/{{filename}}", inspection_views.worker_log_named, query=_SINCE
    ),
    Endpoint("GET", f"{_WORKER}/stdout", inspection_views.no_stdout),
    Endpoint("GET", "/jobmanager/config", cluster_views.driver_config),
    Endpoint("GET", "/jobmanager/environment", cluster_views.environment),
    Endpoint("GET", "/jobmanager/metrics", metric_views.driver_metrics, query=_GET),
    Endpoint("GET", "/jobmanager/thread-dump", inspection_views.driver_threads),
    Endpoint("GET", "/jobmanager/log", inspection_views.driver_log, query=_SINCE),
    Endpoint("GET", "/jobmanager/logs", inspection_views.driver_logs),
    Endpoint("GET", "/jobmanager/logs/{filename}", inspection_views.driver_log_named, query=_SINCE),
    Endpoint("GET", "/jobmanager/stdout", inspection_views.no_stdout),
)
