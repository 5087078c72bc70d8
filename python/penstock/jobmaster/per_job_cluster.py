"""A cluster for one job: driver services and workers that live as long as the job."""

from __future__ import annotations

import atexit
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.jobmaster.dispatcher import Dispatcher

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.graph.job_graph import JobGraph
    from penstock.jobmaster.job_handle import JobHandle
    from penstock.jobmaster.resource_manager import DriverFactory


class PerJobCluster:
    """A cluster for one job: it ends with the job, in whatever way the job ends."""

    def __init__(
        self,
        configuration: Mapping[str, str],
        driver_factory: DriverFactory,
        launch_extras: Mapping[str, object] | None = None,
    ) -> None:
        extras: dict[str, object] = {"sys_path": module_search_path()}
        self._dispatcher = Dispatcher(
            configuration, driver_factory, extras | dict(launch_extras or {})
        )
        self._closer: threading.Thread | None = None

    def execute(self, job_graph: JobGraph, collect_ids: Iterable[str] = ()) -> JobHandle:
        """Submits the job; the cluster is stopped when it has ended."""
        self._dispatcher.start()
        atexit.register(self.stop)
        try:
            return self._dispatcher.submit(
                job_graph, collect_ids, self._job_ended, self._interrupted
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends everything; a job that still runs fails.  Idempotent."""
        self._dispatcher.stop()
        atexit.unregister(self.stop)

    def _interrupted(self, handle: JobHandle) -> None:
        """Ctrl-C: the job is cancelled, and whatever does not end in time is killed."""
        try:
            handle.cancel()
            handle.join(self._dispatcher.settings.shutdown_grace_ms / 1000)
        finally:
            self.stop()

    def _job_ended(self, handle: JobHandle) -> None:
        """Stops the cluster, then lets the waiting callers go on: so they find nothing left."""

        def close() -> None:
            try:
                self.stop()
            finally:
                handle.complete()

        self._closer = threading.Thread(target=close, name="cluster closer", daemon=True)
        self._closer.start()


def module_search_path() -> list[str]:
    """Where workers find the modules that job code refers to: where this process finds them."""
    return [str(Path(entry).absolute()) for entry in sys.path if Path(entry).exists()]
