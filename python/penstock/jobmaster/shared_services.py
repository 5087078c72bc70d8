"""JobManagerSharedServices: what JobMasters take from their process, injected.

The time, threads and chance are the only things that make two runs of a JobMaster differ.  A
simulation gives its own of each, and so runs the JobMaster and CheckpointService of production.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.checkpoint_storage.storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    configured_directory,
    log_base,
)
from penstock.common.options import checkpointing
from penstock.jobmaster.main_thread import MainThread
from penstock.jobmaster.scheduler_factory import create_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.graph.job_graph import JobGraph
    from penstock.jobmaster.scheduler import Scheduler


class Clock(Protocol):
    """The time of a process."""

    def now_ms(self) -> int:
        """Return the monotonic time that the state machines are given."""

    def wall_ms(self) -> int:
        """Return the time since the epoch."""


class SystemClock:
    """The time of this machine."""

    def now_ms(self) -> int:
        """Return the monotonic time that the state machines are given."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Return the time since the epoch."""
        return time.time_ns() // 1_000_000


def _new_thread(name: str) -> MainThread:
    # Steps of checkpoints answer for their own errors.
    return MainThread(name, lambda _: None)


def configured_storage(job_graph: JobGraph) -> CheckpointStorage:
    """Return the storage of a job's checkpoints that its configuration names.

    Raises:
        ConfigurationError: A folder has a scheme that nobody knows, refused now and not by the
            first savepoint or segment.
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
class JobManagerSharedServices:
    """Time, threads, chance, and what makes the parts of a job's control.

    Attributes:
        clock: The time.
        new_thread: Makes a thread of a name that runs what is posted to it; not started.
        new_random: Makes a source of random numbers.
        new_scheduler: Makes the scheduler of a job, given its timeout for slots and the time.
        new_storage: Makes the storage of a job's checkpoints.
    """

    clock: Clock = field(default_factory=SystemClock)
    new_thread: Callable[[str], MainThread] = _new_thread
    new_random: Callable[[], random.Random] = random.Random
    new_scheduler: Callable[[JobGraph, int, int], Scheduler] = create_scheduler
    new_storage: Callable[[JobGraph], CheckpointStorage] = configured_storage
