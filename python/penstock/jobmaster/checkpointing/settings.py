"""Checkpoint settings of a job, with Flink's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.common.options import checkpointing
from penstock.jobmaster.checkpointing.properties import CheckpointProperties, Retention
from penstock.network.events import NO_ALIGNMENT_TIMEOUT_MS, Alignment

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class CheckpointSettings:
    """Settings of one job.

    Attributes:
        interval_ms: Interval of periodic checkpoints; None to disable them.
        timeout_ms: Time after which a checkpoint is aborted.
        min_pause_ms: Pause between the completion of one and the start of the next.
        max_concurrent: Limit of pending checkpoints.
        tolerable_failures: Tolerated failures in a row; None for any number.
        is_exactly_once: Whether barriers are aligned, or only tracked.
        is_unaligned: Whether barriers may overtake data.
        aligned_timeout_ms: How long barriers wait before they overtake; 0 for not at all.
        num_retained: Number of completed checkpoints to retain.
        retention: Which of them are retained when the job ends.
        after_tasks_finish: Whether checkpoints are taken when some tasks have finished.
        cleans_in_parallel: Whether a checkpoint's files are deleted several at a time.
    """

    interval_ms: int | None = None
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int | None = 0
    is_exactly_once: bool = True
    is_unaligned: bool = False
    aligned_timeout_ms: int = 0
    num_retained: int = 1
    retention: Retention = Retention.NO_EXTERNALIZED_CHECKPOINTS
    after_tasks_finish: bool = True
    cleans_in_parallel: bool = True

    def __post_init__(self) -> None:
        if self.is_unaligned and self.max_concurrent > 1:
            raise ValueError(
                f"{self.max_concurrent} concurrent checkpoints cannot be unaligned: one at a time"
            )

    @classmethod
    def of(cls, configuration: Mapping[str, str], interval_ms: int | None) -> CheckpointSettings:
        """Return the settings of a job; periodic checkpoints are off if ``interval_ms`` is None.

        Raises:
            ConfigurationError: An option has an invalid value.
        """
        min_pause_ms = checkpointing.MIN_PAUSE.read(configuration)
        return cls(
            interval_ms=None if interval_ms is None else max(interval_ms, min_pause_ms),
            timeout_ms=checkpointing.TIMEOUT.read(configuration),
            min_pause_ms=min_pause_ms,
            max_concurrent=checkpointing.MAX_CONCURRENT.read(configuration),
            tolerable_failures=checkpointing.TOLERABLE_FAILURES.read(configuration),
            is_exactly_once=checkpointing.MODE.read(configuration) == "EXACTLY_ONCE",
            is_unaligned=checkpointing.is_unaligned(configuration),
            aligned_timeout_ms=checkpointing.ALIGNED_TIMEOUT.read(configuration),
            num_retained=checkpointing.NUM_RETAINED.read(configuration),
            retention=Retention[checkpointing.RETENTION.read(configuration)],
            after_tasks_finish=checkpointing.AFTER_TASKS_FINISH.read(configuration),
            cleans_in_parallel=checkpointing.PARALLEL_CLEANER.read(configuration),
        )

    def alignment(self, properties: CheckpointProperties) -> tuple[Alignment, int]:
        """Return the alignment of a checkpoint's barriers, with its timeout."""
        is_savepoint = properties.is_savepoint
        if not self.is_exactly_once and not is_savepoint:
            return Alignment.AT_LEAST_ONCE, NO_ALIGNMENT_TIMEOUT_MS
        if is_savepoint or not self.is_unaligned or not properties.overtakes:
            return Alignment.ALIGNED, NO_ALIGNMENT_TIMEOUT_MS
        if self.aligned_timeout_ms == 0:
            return Alignment.UNALIGNED, NO_ALIGNMENT_TIMEOUT_MS
        return Alignment.ALIGNED, self.aligned_timeout_ms
