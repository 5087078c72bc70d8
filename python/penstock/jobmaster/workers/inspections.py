"""Inspections: requests of watchers to the workers of a cluster, and the answers."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from penstock.rpc.inspection_messages import ReportMetrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.jobmaster.main_thread import QueueUser
    from penstock.jobmaster.workers.resource_manager import ResourceManager
    from penstock.rpc.inspection_messages import Inspected, Inspection

ANSWER_TIMEOUT_S: Final = 60.0
MAX_PENDING: Final = 1000


class InspectionError(Exception):
    """A worker could not be inspected; says why."""


class Inspections:
    """Sends requests to workers and passes each answer to its caller; any thread."""

    def __init__(self, main_thread: QueueUser, resources: ResourceManager) -> None:
        """Create the service.

        Args:
            main_thread: Runs the lookup of workers.
            resources: Has the registered workers.
        """
        self._main_thread = main_thread
        self._resources = resources
        self._numbers = itertools.count(1)
        self._pending: dict[int, tuple[str, Future[Inspected]]] = {}
        self._lock = threading.Lock()

    def ask(self, executor_id: str, request: Callable[[int], Inspection]) -> Future[Inspected]:
        """Send a request to a worker.

        Args:
            executor_id: The worker.
            request: Creates the message, given its number.

        Returns:
            A future of the answer; it fails with an `InspectionError`.
        """
        future: Future[Inspected] = Future()
        future.set_running_or_notify_cancel()  # a caller that gives up does not prevent the answer
        number = next(self._numbers)
        with self._lock:
            if len(self._pending) >= MAX_PENDING:
                text = f"{MAX_PENDING} inspections are already pending: try again later"
                future.set_exception(InspectionError(text))
                return future
            self._pending[number] = executor_id, future

        def send() -> None:
            executor = self._resources.executors.get(executor_id)
            if executor is None or not executor.connection.send(request(number)):
                self._fail(number, "the TaskExecutor is gone")

        late = self._main_thread.schedule(
            ANSWER_TIMEOUT_S, lambda: self._fail(number, "the TaskExecutor did not answer in time")
        )
        future.add_done_callback(lambda _: late.cancel())
        self._main_thread.post(send)
        return future

    def have_metrics_sent(self) -> None:
        """Request metrics from all workers now."""

        def send() -> None:
            for executor in self._resources.executors.values():
                executor.connection.send(ReportMetrics())

        self._main_thread.post(send)

    def answered(self, executor_id: str, answer: Inspected) -> None:
        """Pass on a worker's answer, unless the request went to another worker."""
        with self._lock:
            asked, future = self._pending.get(answer.request_id, ("", None))
            if future is None or asked != executor_id:
                return
            del self._pending[answer.request_id]
        if answer.error:
            future.set_exception(InspectionError(answer.error))
        else:
            future.set_result(answer)

    def worker_lost(self, executor_id: str) -> None:
        """Fail the open requests to a lost worker."""
        with self._lock:
            numbers = [n for n, (asked, _) in self._pending.items() if asked == executor_id]
        for number in numbers:
            self._fail(number, "the TaskExecutor is lost")

    def _fail(self, number: int, reason: str) -> None:
        with self._lock:
            _, future = self._pending.pop(number, ("", None))
        if future is not None:
            future.set_exception(InspectionError(reason))
