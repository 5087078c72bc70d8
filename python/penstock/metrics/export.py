"""All metrics of a cluster with their scopes, for reporters (internals M70)."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.metrics.derived import driver_metrics, job_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from penstock.jobmaster.snapshots import ClusterSnapshot, JobSnapshot
    from penstock.metrics.scope_formats import ScopeFormats
    from penstock.metrics.store import MetricStore, SubtaskMetrics
    from penstock.metrics.values import MetricValues


@dataclass(frozen=True)
class Scope:
    """Job, vertex, subtask and operator of the metrics.

    Attributes:
        logical: Names of the enclosing scopes, outermost first: ``("taskmanager", "job")``.
        identifier: The parts of its name, outermost first.
        variables: By name, without brackets.
    """

    logical: tuple[str, ...]
    identifier: tuple[str, ...]
    variables: Mapping[str, str]


def scoped_metrics(
    cluster: ClusterSnapshot,
    store: MetricStore,
    driver_process: Mapping[str, Any],
    formats: ScopeFormats,
) -> Iterator[tuple[Scope, MetricValues]]:
    """Yield all metrics to report, outer scopes before inner ones.

    Args:
        cluster: The cluster.
        store: The metrics of its workers.
        driver_process: Gauges of the driver's process.
        formats: The formats of scope names.
    """

    def scope(logical: tuple[str, ...], variables: Mapping[str, str]) -> Scope:
        return Scope(logical, formats.identifier(logical, variables), variables)

    now_ms = time.time_ns() // 1_000_000
    of_driver = {"host": socket.gethostname()}
    yield scope(("jobmanager",), of_driver), driver_metrics(cluster, driver_process)
    for job in cluster.jobs:
        variables = {**of_driver, "job_id": job.id.hex(), "job_name": job.name}
        yield scope(("jobmanager", "job"), variables), job_metrics(job, now_ms)
    hosts = {worker.executor_id: worker.address[0] for worker in cluster.workers}
    for executor_id, values in store.workers().items():
        of_worker = {"host": hosts.get(executor_id, ""), "tm_id": executor_id}
        yield scope(("taskmanager",), of_worker), values
    task = ("taskmanager", "job", "task")
    for job in cluster.jobs:
        for of_task, metrics in _of_job(job, store, hosts):
            yield scope(task, of_task), metrics.task
            for operator, values in metrics.operators.items():
                yield scope((*task, "operator"), {**of_task, "operator_name": operator}), values


def _of_job(
    job: JobSnapshot, store: MetricStore, hosts: Mapping[str, str]
) -> Iterator[tuple[dict[str, str], SubtaskMetrics]]:
    for vertex in job.vertices:
        for index, metrics in sorted(store.subtasks(job.id, vertex.id).items()):
            variables = {
                "host": hosts.get(metrics.executor_id, ""),
                "tm_id": metrics.executor_id,
                "job_id": job.id.hex(),
                "job_name": job.name,
                "task_id": vertex.id.hex(),
                "task_name": vertex.name,
                "subtask_index": str(index),
                "task_attempt_num": str(metrics.attempt),
            }
            yield variables, metrics
