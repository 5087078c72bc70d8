"""Limits of a scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.jobmaster.scheduling.exception_history import DEFAULT_HISTORY_SIZE


@dataclass(frozen=True)
class SchedulerSettings:
    """Limits of the scheduler, with Flink's defaults.

    Attributes:
        slot_request_timeout_ms: `slot.request.timeout`.
        slot_idle_timeout_ms: `slot.idle.timeout`.
        failover_strategy: `jobmanager.execution.failover-strategy`: "region" or "full".
        release_partitions: `jobmanager.partition.release-during-job-execution`.
        max_exception_history: `web.exception-history-size`.
    """

    slot_request_timeout_ms: int = 300_000
    slot_idle_timeout_ms: int = 50_000
    failover_strategy: str = "region"
    release_partitions: bool = True
    max_exception_history: int = DEFAULT_HISTORY_SIZE
