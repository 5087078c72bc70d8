"""MetricStore: the last metrics received from the workers of a cluster."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.graph.ids import ExecutionAttemptID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.jobs.job_gateway import OperatorTotals
    from penstock.metrics.values import GaugeValue, MetricValues
    from penstock.rpc.messages import TaskMetrics


@dataclass(frozen=True)
class SubtaskMetrics:
    """Last metrics of an attempt.

    Attributes:
        attempt: Its number.
        executor_id: The worker that sent it.
        received_ms: When it was received, wall clock.
        task: The task's metrics.
        operators: The metrics of its operators, by their names.
    """

    attempt: int
    executor_id: str
    received_ms: int
    task: MetricValues
    operators: Mapping[str, MetricValues]

    def flat(self) -> dict[str, GaugeValue]:
        """Return all values by name: those of an operator start with its name, as in Flink.

        A comma in the name of a user's metric becomes an underscore: it separates names in
        requests.
        """
        values = self.task.flat()
        for operator, metrics in self.operators.items():
            scope = rest_name(operator)
            values |= {
                f"{scope}.{name.replace(',', '_')}": value for name, value in metrics.flat().items()
            }
        return values


class MetricStore:
    """Stores the last metrics of each subtask and worker; any thread."""

    def __init__(self) -> None:
        """Create an empty store."""
        self._lock = threading.Lock()
        self._subtasks: dict[bytes, dict[bytes, dict[int, SubtaskMetrics]]] = {}
        self._workers: dict[str, MetricValues] = {}

    def task_reported(self, executor_id: str, message: TaskMetrics) -> None:
        """Store an attempt's metrics; drop late ones of an older attempt."""
        attempt = ExecutionAttemptID.from_bytes(message.attempt_id)
        found = SubtaskMetrics(
            attempt.attempt,
            executor_id,
            time.time_ns() // 1_000_000,
            message.task,
            message.operators,
        )
        with self._lock:
            job = self._subtasks.setdefault(message.job_id, {})
            subtasks = job.setdefault(attempt.vertex_id, {})
            known = subtasks.get(attempt.subtask)
            if known is None or known.attempt <= found.attempt:
                subtasks[attempt.subtask] = found

    def worker_reported(self, executor_id: str, values: MetricValues) -> None:
        """Store a worker's metrics."""
        with self._lock:
            self._workers[executor_id] = values

    def worker_lost(self, executor_id: str) -> None:
        """Remove a lost worker's metrics; those of its tasks are kept."""
        with self._lock:
            self._workers.pop(executor_id, None)

    def job_forgotten(self, job_id: bytes) -> None:
        """Remove the metrics of a job that is forgotten."""
        with self._lock:
            self._subtasks.pop(job_id, None)

    def subtasks(self, job_id: bytes, vertex_id: bytes) -> dict[int, SubtaskMetrics]:
        """Return the metrics of a vertex's subtasks, by their index."""
        with self._lock:
            return dict(self._subtasks.get(job_id, {}).get(vertex_id, {}))

    def totals(self, job_id: bytes) -> OperatorTotals:
        """Return the integers that the operators of a job reported, summed over the subtasks.

        Returns:
            By vertex id, operator name and metric name.
        """
        found: dict[tuple[bytes, str], dict[str, int]] = {}
        with self._lock:
            for vertex_id, subtasks in self._subtasks.get(job_id, {}).items():
                for subtask in subtasks.values():
                    for operator, values in subtask.operators.items():
                        totals = found.setdefault((vertex_id, operator), {})
                        for name, value in (values.counters | values.gauges).items():
                            if isinstance(value, int):
                                totals[name] = totals.get(name, 0) + value
        return found

    def workers(self) -> dict[str, MetricValues]:
        """Return the metrics of the workers, by their ids."""
        with self._lock:
            return dict(self._workers)


def rest_name(name: str) -> str:
    """Return a name as part of a metric's name: separators are replaced by underscores."""
    return name.translate(_UNSAFE)


_UNSAFE = str.maketrans(dict.fromkeys(" .:,", "_"))
