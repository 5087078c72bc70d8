"""MiniCluster: a job's cluster on this machine, which lives as long as the job."""

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
    from collections.abc import Mapping

    from penstock.common.options.option import Option
    from penstock.jobmaster.workers.resource_manager import DriverFactory

TARGETS: dict[str, DriverFactory] = {"local": LocalDriver, "in-process": InProcessDriver}


class MiniCluster(PerJobCluster):
    """A cluster for one job whose TaskExecutors are on this machine.

    ``execution.target`` is ``local`` (one process per TaskExecutor) or ``in-process`` (threads of
    this process, for debugging).
    """

    def __init__(self, configuration: Mapping[str, str], of_job: Mapping[str, str]) -> None:
        """Check the options; nothing is started yet.

        Args:
            configuration: Options of the cluster, of its workers and of the job's code.
            of_job: Options of the job.

        Raises:
            ConfigurationError: An option is malformed, or requires a worker process of its own, or
                names folders that cannot be created.
        """
        factory = driver_of(configuration)
        if factory is InProcessDriver:
            _refuse_what_needs_a_process(configuration)
            _refuse_another_runtime(configuration)
        _refuse_folders_of_databases(of_job)
        super().__init__(configuration, factory)


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
