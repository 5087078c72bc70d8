"""Creates the scheduler of a job, by its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.options.adaptive import SCHEDULER
from penstock.common.options.cluster import FAILOVER_STRATEGY, RELEASE_PARTITIONS
from penstock.jobmaster.adaptive.adaptive_scheduler import AdaptiveScheduler
from penstock.jobmaster.adaptive.adaptive_waits import AdaptiveSettings
from penstock.jobmaster.scheduling.restart_strategies import restart_strategy_from_configuration
from penstock.jobmaster.scheduling.scheduler import Scheduler
from penstock.jobmaster.scheduling.scheduler_settings import SchedulerSettings

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobGraph


def create_scheduler(job: JobGraph, slot_request_timeout_ms: int, now_ms: int) -> Scheduler:
    """Create the scheduler of a job.

    Args:
        job: The job.
        slot_request_timeout_ms: The cluster's `slot.request.timeout`.
        now_ms: The time.

    Raises:
        JobError: The job cannot become an ExecutionGraph.
    """
    strategy = restart_strategy_from_configuration(job.configuration)
    settings = SchedulerSettings(
        slot_request_timeout_ms=slot_request_timeout_ms,
        failover_strategy=FAILOVER_STRATEGY.read(job.configuration),
        release_partitions=RELEASE_PARTITIONS.read(job.configuration),
    )
    if SCHEDULER.read(job.configuration) == "Adaptive":
        adaptive = AdaptiveSettings.of(job.configuration)
        return AdaptiveScheduler(job, strategy, now_ms, settings, adaptive)
    return Scheduler(job, strategy, now_ms, settings)
