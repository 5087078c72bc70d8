"""The local target: a job on a MiniCluster of this machine that lives as long as the job."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError
from penstock.jobmaster.collect import CollectResults
from penstock.jobmaster.dispatcher import Dispatcher
from penstock.jobmaster.local_driver import InProcessDriver, LocalDriver

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobGraph
    from penstock.jobmaster.job_handle import JobHandle
    from penstock.jobmaster.resource_manager import DriverFactory

TARGETS: dict[str, DriverFactory] = {"local": LocalDriver, "in-process": InProcessDriver}


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

    def execute(self, job_graph: JobGraph) -> JobHandle:
        """Submits the job; the cluster is stopped when it has ended."""
        self._dispatcher.start()
        atexit.register(self.stop)
        try:
            return self._dispatcher.submit(job_graph, self._job_ended, self.stop)
        except BaseException:
            self.stop()
            raise

    def collect(self, job_graph: JobGraph, collect_id: str) -> CollectResults:
        """The results of one of the job's collect sinks."""
        return self._dispatcher.collect.results(job_graph.job_id, collect_id)

    def stop(self) -> None:
        """Ends everything; a job that still runs fails.  Idempotent."""
        self._dispatcher.stop()
        atexit.unregister(self.stop)

    def _job_ended(self, handle: JobHandle) -> None:
        """Stops the cluster, then lets the waiting callers go on: so they find nothing left."""

        def close() -> None:
            try:
                self.stop()
            finally:
                handle.complete()

        self._closer = threading.Thread(target=close, name="cluster closer", daemon=True)
        self._closer.start()


class LocalExecutor:
    """Executes jobs on per-job clusters of this machine.

    ``execution.target`` is ``local`` (one process per TaskExecutor) or ``in-process`` (threads of
    this process, for debugging).
    """

    def execute(self, job_graph: JobGraph, configuration: Mapping[str, str]) -> JobHandle:
        """Starts a cluster and the job on it."""
        return self.start(job_graph, configuration)[0]

    def start(
        self, job_graph: JobGraph, configuration: Mapping[str, str]
    ) -> tuple[JobHandle, PerJobCluster]:
        """As `execute`; also returns the cluster, for the results of collect sinks.

        Raises:
            ConfigurationError: an option of the cluster is malformed.
        """
        cluster = PerJobCluster(configuration, driver_of(configuration))
        return cluster.execute(job_graph), cluster


def driver_of(configuration: Mapping[str, str]) -> DriverFactory:
    """What starts workers for the configured local target."""
    target = configuration.get("execution.target", "local")
    if configuration.get("penstock.local.in-process", "false").lower() == "true":
        target = "in-process"
    factory = TARGETS.get(target)
    if factory is None:
        known = " or ".join(repr(name) for name in TARGETS)
        raise ConfigurationError(f"execution.target of a local job is {known}, not {target!r}")
    return factory


def module_search_path() -> list[str]:
    """Where workers find the modules that job code refers to: where this process finds them."""
    return [os.path.abspath(entry) for entry in sys.path if os.path.exists(entry or ".")]
