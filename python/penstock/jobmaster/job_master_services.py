"""JobMasterServices: the shared services of a process, and factories for the parts of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.checkpoint_storage.storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    configured_directory,
    log_base,
)
from penstock.common.options import checkpointing
from penstock.jobmaster.adaptive.scheduler_factory import create_scheduler
from penstock.jobmaster.shared_services import JobManagerSharedServices

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.graph.job_graph import JobGraph
    from penstock.jobmaster.scheduling.scheduler import Scheduler


def configured_storage(job_graph: JobGraph) -> CheckpointStorage:
    """Return the storage of a job's checkpoints that its configuration names.

    Raises:
        ConfigurationError: A folder has an unknown scheme; detected now, not by the first
            savepoint or segment.
    """
    configuration = job_graph.configuration
    directory, logs = configured_directory(configuration), log_base(configuration)
    files = FileSystems(configuration)
    for folder in (checkpointing.SAVEPOINT_FOLDER.read(configuration), logs):
        if folder is not None:
            files.of(folder)
    if directory is None:
        return CheckpointStorage(job_graph.job_id, files, logs)
    return FileSystemCheckpointStorage(directory, job_graph.job_id, files, logs)


@dataclass(frozen=True)
class JobMasterServices(JobManagerSharedServices):
    """Time, threads and chance, and factories of a job's scheduler and storage.

    Attributes:
        new_scheduler: Creates the scheduler of a job, given its timeout for slots and the time.
        new_storage: Creates the storage of a job's checkpoints.
    """

    new_scheduler: Callable[[JobGraph, int, int], Scheduler] = create_scheduler
    new_storage: Callable[[JobGraph], CheckpointStorage] = configured_storage
