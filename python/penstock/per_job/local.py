"""The local target: a job on a MiniCluster of this machine that lives as long as the job."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.common.options import rocksdb, state, user_code
from penstock.common.options.cluster import RUNTIME, TARGET
from penstock.errors import ConfigurationError
from penstock.per_job.local_driver import InProcessDriver, LocalDriver
from penstock.per_job.per_job_cluster import PerJobCluster
from penstock.runtime import runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.common.jobs.job_gateway import JobGateway
    from penstock.common.options.option import Option
    from penstock.graph.job_graph import JobGraph
    from penstock.jobmaster.workers.resource_manager import DriverFactory

TARGETS: dict[str, DriverFactory] = {"local": LocalDriver, "in-process": InProcessDriver}


class LocalExecutor:
    """Executes jobs on per-job clusters of this machine.

    ``execution.target`` is ``local`` (one process per TaskExecutor) or ``in-process`` (threads of
    this process, for debugging).
    """

    def execute(
        self,
        job_graph: JobGraph,
        configuration: Mapping[str, str],
        collect_ids: Iterable[str] = (),
    ) -> JobGateway:
        """Start a cluster and the job on it; return at once.

        Raises:
            ConfigurationError: an option of the cluster is malformed, or requires a worker
                process of its own, or names folders that cannot be created.
        """
        factory = driver_of(configuration)
        if factory is InProcessDriver:
            _refuse_what_needs_a_process(configuration)
            _refuse_another_runtime(configuration)
        _refuse_folders_of_databases(job_graph.configuration)
        cluster = PerJobCluster(configuration, factory)
        return cluster.execute(job_graph, collect_ids)


def _refuse_what_needs_a_process(configuration: Mapping[str, str]) -> None:
    reasons: dict[Option[Any], str] = {
        user_code.ARCHIVES: "workers unpack them to a working directory of their own",
        user_code.REQUIREMENTS: "workers import them instead of the program's own packages",
        user_code.EXECUTABLE: f"this process runs under {sys.executable}",
    }
    for option, reason in reasons.items():
        value = option.read(configuration)
        if value and value != sys.executable:
            raise ConfigurationError(
                f"{option.key} ({value}) is not available on target in-process: {reason}; "
                "use the target local"
            )


def _refuse_folders_of_databases(configuration: Mapping[str, str]) -> None:
    """Create the folders of the workers' databases as workers would, to detect errors early."""
    if state.BACKEND.read(configuration) != "rocksdb":
        return
    for folder in rocksdb.LOCAL_FOLDERS.read(configuration):
        if not Path(folder).is_absolute():
            continue  # workers may have a working directory of their own
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise ConfigurationError(
                f"{rocksdb.LOCAL_FOLDERS.key}: no database can be in {folder!r}: "
                f"{error.strerror or error}; name folders that the workers may create and write"
            ) from error


def _refuse_another_runtime(configuration: Mapping[str, str]) -> None:
    # Imported here because the environment decides which operators it loads.
    from penstock.taskexecutor.compiled import LOADED

    wanted = RUNTIME.read(configuration) or runtime()
    if wanted != LOADED:
        raise ConfigurationError(
            f"in one process there is one runtime: this one runs {LOADED!r}, {RUNTIME.key} or "
            f"PENSTOCK_RUNTIME asks for {wanted!r}; set PENSTOCK_RUNTIME before the program "
            "starts, or use the target local"
        )


def driver_of(configuration: Mapping[str, str]) -> DriverFactory:
    """Return the worker driver of the configured local target."""
    target = TARGET.read(configuration) or "local"
    factory = TARGETS.get(target)
    if factory is None:
        known = " or ".join(repr(name) for name in TARGETS)
        raise ConfigurationError(f"{TARGET.key} of a local job is {known}, not {target!r}")
    return factory
