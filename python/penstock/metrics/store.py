"""MetricStore: the last metrics that the workers of a cluster have sent, for whoever reads them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.graph.ids import ExecutionAttemptID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.job_gateway import OperatorTotals
    from penstock.metrics.values import GaugeValue, MetricValues
    from penstock.rpc.messages import TaskMetrics


@dataclass(frozen=True)
class SubtaskMetrics:
    """Last metrics of an attempt.

    Attributes:
        attempt: Its number.
        executor_id: The worker that sent it.
        received_ms: When it came, wall clock.
        task: Of the task.
        operators: Of its operators, by their names.
    """

    attempt: int
    executor_id: str
    received_ms: int
    task: MetricValues
    operators: Mapping[str, MetricValues]

    def flat(self) -> dict[str, GaugeValue]:
        """All values by name: those of an operator begin with its name, as in Flink."""
        values = self.task.flat()
        for operator, metrics in self.operators.items():
            scope = rest_name(operator)
            values |= {f"{scope}.{name}": value for name, value in metrics.flat().items()}
        return values


class MetricStore:
    """Keeps what was said last of each subtask and worker; any thread."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._subtasks: dict[bytes, dict[bytes, dict[int, SubtaskMetrics]]] = {}
        self._workers: dict[str, MetricValues] = {}

    def task_reported(self, executor_id: str, message: TaskMetrics) -> None:
        """An attempt has said what its metrics are; late words of an older one are dropped."""
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
        """A worker has said what its metrics are."""
        with self._lock:
            self._workers[executor_id] = values

    def worker_lost(self, executor_id: str) -> None:
        """A worker is gone; what its tasks said last is kept."""
        with self._lock:
            self._workers.pop(executor_id, None)

    def job_forgotten(self, job_id: bytes) -> None:
        """Nobody can ask for a job any more."""
        with self._lock:
            self._subtasks.pop(job_id, None)

    def subtasks(self, job_id: bytes, vertex_id: bytes) -> dict[int, SubtaskMetrics]:
        """Return the metrics of a vertex's subtasks, by their index."""
        with self._lock:
            return dict(self._subtasks.get(job_id, {}).get(vertex_id, {}))

    def totals(self, job_id: bytes) -> OperatorTotals:
        """Return the whole numbers that the operators of a job reported, summed over the subtasks.

        Returns:
            By vertex id and operator name, and there by the name of the metric.
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
    """A name as part of a metric's name: what would separate parts becomes an underscore."""
    return name.translate(_UNSAFE)


_UNSAFE = str.maketrans(dict.fromkeys(" .:,", "_"))
