"""A cluster for one job: driver services and workers that live as long as the job."""

from __future__ import annotations

import atexit
import logging
import sys
import sysconfig
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock import pyflink_alias
from penstock.common.options.user_code import SHIP_PROGRAM
from penstock.dependencies.declarations import Dependencies
from penstock.dependencies.program_folder import INSTALLED, program_files, program_folder
from penstock.dependencies.staging import stage
from penstock.dependencies.worker_environment import MANIFEST
from penstock.high_availability.services import HighAvailabilityServices
from penstock.jobmaster.dispatcher import Dispatcher
from penstock.jobmaster.ended_job_gateway import EndedJobGateway
from penstock.monitoring.monitoring import Monitoring

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.common.jobs.job_gateway import JobGateway
    from penstock.graph.job_graph import JobGraph
    from penstock.high_availability.job_records import JobRecords
    from penstock.jobmaster.local_job_gateway import LocalJobGateway
    from penstock.jobmaster.workers.resource_manager import DriverFactory

logger = logging.getLogger(__name__)


class PerJobCluster:
    """A cluster for one job: it ends with the job, however the job ends."""

    def __init__(
        self,
        configuration: Mapping[str, str],
        driver_factory: DriverFactory,
        *,
        ship_program: bool = False,
        prints_here: bool = False,
    ) -> None:
        """Read the configuration; nothing is started yet.

        Args:
            configuration: Options of the cluster, of its workers and of the job's code.
            driver_factory: Creates the driver that starts workers.
            ship_program: Whether workers cannot see the program's folder, so that its modules
                are sent to them.
            prints_here: Whether the workers' output is written to the streams of this process,
                because their own streams are not the user's.

        Raises:
            ConfigurationError: An option is malformed, or names a file that does not exist.
        """
        self._dependencies = Dependencies.from_configuration(configuration)
        program = program_folder()
        self._program: tuple[Path, list[Path]] | None = None
        if program is not None and ship_program and SHIP_PROGRAM.read(configuration):
            self._program = (program, program_files(program))
        extras: dict[str, object] = {
            "sys_path": module_search_path(own=self._dependencies.executable is None),
            "program_path": None if program is None else str(program),
            "as_pyflink": pyflink_alias.is_installed(),
            "forwards_printed_text": prints_here,
        }
        self._make_dispatcher = partial(
            Dispatcher, configuration, driver_factory, Monitoring, extras
        )
        self._dispatcher: Dispatcher | None = None
        self._leads: HighAvailabilityServices | None = None
        self._closer: threading.Thread | None = None

    def execute(self, job_graph: JobGraph, collect_ids: Iterable[str] = ()) -> JobGateway:
        """Submit the job; the cluster is stopped when it has ended.

        With `high-availability.type` it waits while another driver runs the job, and resumes it
        when that driver is gone.

        Raises:
            ConfigurationError: Options do not fit together.
            InvalidProgramError: The job does not fit the checkpoint that it starts from, or
                cannot be resumed in another driver.
            CheckpointStorageError: The records of a former driver cannot be read.
        """
        collect_ids = tuple(collect_ids)
        services = HighAvailabilityServices.of(
            job_graph.configuration,
            takes_checkpoints=job_graph.checkpoint_interval_ms is not None,
            collects=bool(collect_ids),
        )
        atexit.register(self.stop)
        try:
            records = None
            if services is not None:
                records = services.lead()
                self._leads = services
                job_graph.job_id = records.job_id
                result = records.results.get()
                if result is not None:
                    logger.warning(
                        "job %s is not run: %s records that the job %s was %s in a former driver; "
                        "to run it again, set another high-availability.cluster-id",
                        job_graph.name,
                        records.leadership,
                        result.name,
                        result.status,
                    )
                    self.stop()
                    return EndedJobGateway(records.job_id, result)
            return self._submit(job_graph, collect_ids, records)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the cluster; a job that still runs fails.  Idempotent."""
        if self._dispatcher is not None:
            self._dispatcher.stop()
        leads, self._leads = self._leads, None
        if leads is not None:
            leads.release()
        atexit.unregister(self.stop)

    def _submit(
        self, job_graph: JobGraph, collect_ids: Iterable[str], records: JobRecords | None
    ) -> LocalJobGateway:
        self._dispatcher = dispatcher = self._make_dispatcher()
        dispatcher.start()
        if records is not None:
            records.leadership.on_lost(dispatcher.leadership_lost)
        manifest = stage(self._dependencies, dispatcher.blobs.put, self._program)
        if not manifest.is_empty:
            dispatcher.add_launch_extras({MANIFEST: msgspec.to_builtins(manifest)})
        return dispatcher.submit(
            job_graph, collect_ids, self._job_ended, self._interrupted, records
        )

    def _interrupted(self, gateway: LocalJobGateway) -> None:
        """Handle Ctrl-C: cancel the job, and kill whatever does not end in time."""
        try:
            gateway.cancel()
            assert self._dispatcher is not None, "it runs the job"
            gateway.join(self._dispatcher.settings.shutdown_grace_ms / 1000)
        finally:
            self.stop()

    def _job_ended(self, gateway: LocalJobGateway) -> None:
        """Stop the cluster, then wake the waiting callers, who find nothing left of it."""

        def close() -> None:
            try:
                self.stop()
            finally:
                gateway.complete()

        self._closer = threading.Thread(target=close, name="cluster closer", daemon=True)
        self._closer.start()


def module_search_path(*, own: bool = True) -> list[str]:
    """Return the paths in which workers find the modules of job code, in this process's order.

    Args:
        own: Whether they run under this process's interpreter; another one has its own library
            and its own installed packages.
    """
    found = [Path(entry).absolute() for entry in sys.path if Path(entry).exists()]
    installed = () if own else [sysconfig.get_path(name) for name in INSTALLED]
    return [
        str(path) for path in found if not any(path.is_relative_to(folder) for folder in installed)
    ]
