"""All metrics of a cluster with their scopes, as reporters want them (SEMANTICS H3)."""

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
    from penstock.metrics.store import MetricStore
    from penstock.metrics.values import MetricValues


@dataclass(frozen=True)
class Scope:
    """Whose metrics they are.

    Attributes:
        logical: Names of the enclosing things, outermost first: ``("taskmanager", "job")``.
        identifier: Flink's default scope: the values that distinguish it, outermost first.
        variables: By name, without brackets.
    """

    logical: tuple[str, ...]
    identifier: tuple[str, ...]
    variables: Mapping[str, str]


def scoped_metrics(
    cluster: ClusterSnapshot, store: MetricStore, driver_process: Mapping[str, Any]
) -> Iterator[tuple[Scope, MetricValues]]:
    """Everything there is to report, outer scopes before inner ones.

    Args:
        cluster: The cluster.
        store: What its workers said.
        driver_process: Gauges of the driver's process.
    """
    now_ms = time.time_ns() // 1_000_000
    host = socket.gethostname()
    driver = Scope(("jobmanager",), (host, "jobmanager"), {"host": host})
    yield driver, driver_metrics(cluster, driver_process)
    for job in cluster.jobs:
        variables = {**driver.variables, "job_id": job.id.hex(), "job_name": job.name}
        scope = Scope(("jobmanager", "job"), (*driver.identifier, job.name), variables)
        yield scope, job_metrics(job, now_ms)
    hosts = {worker.executor_id: worker.host for worker in cluster.workers}
    for executor_id, values in store.workers().items():
        yield _worker_scope(hosts.get(executor_id, ""), executor_id), values
    for job in cluster.jobs:
        yield from _of_job(job, store, hosts)


def _worker_scope(host: str, executor_id: str) -> Scope:
    return Scope(
        ("taskmanager",),
        (host, "taskmanager", executor_id),
        {"host": host, "tm_id": executor_id},
    )


def _of_job(
    job: JobSnapshot, store: MetricStore, hosts: Mapping[str, str]
) -> Iterator[tuple[Scope, MetricValues]]:
    for vertex in job.vertices:
        for index, metrics in sorted(store.subtasks(job.id, vertex.id).items()):
            worker = _worker_scope(hosts.get(metrics.executor_id, ""), metrics.executor_id)
            inner = (*worker.identifier, job.name)
            of_task = {
                **worker.variables,
                "job_id": job.id.hex(),
                "job_name": job.name,
                "task_id": vertex.id.hex(),
                "task_name": vertex.name,
                "subtask_index": str(index),
                "task_attempt_num": str(metrics.attempt),
            }
            logical = ("taskmanager", "job", "task")
            yield Scope(logical, (*inner, vertex.name, str(index)), of_task), metrics.task
            for operator, values in metrics.operators.items():
                yield (
                    Scope(
                        (*logical, "operator"),
                        (*inner, operator, str(index)),
                        {**of_task, "operator_name": operator},
                    ),
                    values,
                )
