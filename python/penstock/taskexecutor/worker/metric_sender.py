"""MetricSender: reports a worker's metrics to the driver if they are read there.

A thread wakes at the interval, reads the registered metrics and sends one message for each task and
one for the worker.  It skips a turn if the connection has a backlog: task states come first.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

import psutil

from penstock.metrics.gauges import GAUGES_TIME_S
from penstock.metrics.process import process_metrics
from penstock.metrics.values import MetricValues, read_metrics
from penstock.rpc.messages import TaskMetrics, WorkerMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.rpc.connection import Connection
    from penstock.rpc.network_buffer_needs import NetworkBufferNeeds
    from penstock.taskexecutor.task.task import Task
    from penstock.taskexecutor.worker.job_networks import JobNetworks
    from penstock.taskexecutor.worker.slot_resources import SlotResources

logger = logging.getLogger(__name__)

MAX_WAITING_MESSAGES: Final = 16
CLOSE_TIMEOUT_S: Final = 2.0


class MetricSender:
    """Sends the metrics of one worker until it is closed."""

    def __init__(
        self,
        interval_ms: int,
        connection: Connection,
        tasks: Callable[[], Iterable[Task]],
        networks: JobNetworks,
        segment_bytes: int,
        promised_segments: Callable[[], NetworkBufferNeeds],
        resources: SlotResources,
    ) -> None:
        """Create a sender; `start` starts it.

        Args:
            interval_ms: Interval between two messages about the same task; 0 to send only on
                request.
            connection: Connection to the driver.
            tasks: Returns the running tasks.
            networks: The worker's buffers.
            segment_bytes: Size of a buffer.
            promised_segments: Returns the buffers promised to the running tasks.
            resources: The worker's managed memory.
        """
        self._interval_s = interval_ms / 1000 or None
        self._connection = connection
        self._tasks = tasks
        self._worker = worker_metrics(networks, segment_bytes, promised_segments, resources)
        self._closed = threading.Event()
        self._wanted = threading.Event()
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="metric sender", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._wanted.set()
        self._thread.join(CLOSE_TIMEOUT_S)

    def report_soon(self) -> None:
        """Send the metrics now: a client is waiting for them."""
        self._wanted.set()

    def task_ends(self, task: Task) -> None:
        """Send a task's last metrics before its end is reported; raises nothing."""
        self._tell(self._send_task, task)

    def _run(self) -> None:
        # The first message soon, so that a job that has just started shows figures.
        pause_s = None if self._interval_s is None else min(0.5, self._interval_s)
        while True:
            self._wanted.wait(pause_s)
            if self._closed.is_set():
                return
            self._wanted.clear()
            pause_s = self._interval_s
            if self._connection.waiting >= MAX_WAITING_MESSAGES:
                continue
            for task in self._tasks():
                self._tell(self._send_task, task)
            self._tell(self._send_worker)

    def _tell(self, send: Callable[..., None], *of: Task) -> None:
        try:
            send(*of)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                logger.exception("some metrics of this worker are not reported")

    def _send_worker(self) -> None:
        self._connection.send(WorkerMetrics(read_metrics(self._worker, "the worker")))

    def _send_task(self, task: Task) -> None:
        environment = task.environment
        if environment is None:
            return  # it is being created
        descriptor = task.descriptor
        operators: dict[str, MetricValues] = {}
        until_s = time.monotonic() + GAUGES_TIME_S
        for (_, name), metrics in list(environment.operator_metrics.items()):
            if metrics:
                operators[name] = read_metrics(metrics, f"{name} of {task.name}", until_s)
        self._connection.send(
            TaskMetrics(
                descriptor.job_id,
                descriptor.attempt_id,
                read_metrics(environment.metrics, task.name),
                operators,
            )
        )


def worker_metrics(
    networks: JobNetworks,
    segment_bytes: int,
    promised_segments: Callable[[], NetworkBufferNeeds],
    resources: SlotResources,
) -> dict[str, object]:
    """Return gauges of a worker's process and buffers, under the names that Flink's tools expect.

    Where Flink reports a JVM's heap, this is the resident memory of the process.
    """

    def used() -> int:
        return networks.total_segments - networks.available_segments

    def requested_percent() -> int:
        """Return promised buffers in percent; above 100, tasks wait for each other's buffers."""
        total = networks.total_segments
        return 100 * promised_segments().total // total if total else 0

    return {
        **process_metrics(psutil.Process()),
        "Status.Flink.Memory.Managed.Total": lambda: resources.managed_bytes,
        "Status.Flink.Memory.Managed.Used": lambda: resources.used_managed_bytes,
        "Status.Shuffle.Netty.TotalMemorySegments": lambda: networks.total_segments,
        "Status.Shuffle.Netty.AvailableMemorySegments": lambda: networks.available_segments,
        "Status.Shuffle.Netty.UsedMemorySegments": used,
        "Status.Shuffle.Netty.TotalMemory": lambda: networks.total_segments * segment_bytes,
        "Status.Shuffle.Netty.AvailableMemory": lambda: networks.available_segments * segment_bytes,
        "Status.Shuffle.Netty.RequestedMemoryUsage": requested_percent,
        "Status.Shuffle.Netty.RequestedMemorySegments.Partitions": (
            lambda: promised_segments().partitions
        ),
        "Status.Shuffle.Netty.RequestedMemorySegments.Channels": (
            lambda: promised_segments().channels
        ),
        "Status.Shuffle.Netty.RequestedMemorySegments.Gates": lambda: promised_segments().gates,
        "Status.Shuffle.Netty.UsedMemory": lambda: used() * segment_bytes,
    }
