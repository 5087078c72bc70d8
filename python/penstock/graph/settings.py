"""Settings of the whole job for the generators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.common.options.pipeline import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_JOB_NAME: Final = NAME.default


@dataclass(frozen=True)
class GraphSettings:
    """Job-wide settings of the StreamGraph and JobGraph generators.

    Attributes:
        job_name: The name in plans, logs and metrics.
        parallelism: The parallelism of operators without their own.
        max_parallelism: The max parallelism of operators without their own; -1 derives it.
        chaining_enabled: Whether operators may share a thread at all.
        chain_operators_with_different_max_parallelism: Whether operators with different numbers of
            key groups may share a thread.
        buffer_timeout_ms: Flush interval of operators without one of their own.
        auto_generate_uids: Whether operators without a uid get an id from the topology.
        batch: Whether the job runs in BATCH execution mode.
        blocking_shuffles: Whether in BATCH mode every edge between stages stores its data
            until the producer has finished.
        configuration: The job's configuration as it reaches the workers.
        checkpoint_interval_ms: Interval of checkpoints; None turns them off.
        checks_unaligned: Whether checkpoints may overtake data, but only where that is known to be
            safe.
        is_adaptive: Whether the job changes its parallelism by itself.
    """

    job_name: str = DEFAULT_JOB_NAME
    parallelism: int = 1
    max_parallelism: int = -1
    chaining_enabled: bool = True
    chain_operators_with_different_max_parallelism: bool = True
    buffer_timeout_ms: int = 100
    auto_generate_uids: bool = True
    batch: bool = False
    blocking_shuffles: bool = False
    configuration: Mapping[str, str] = field(default_factory=dict)
    checkpoint_interval_ms: int | None = None
    checks_unaligned: bool = False
    is_adaptive: bool = False
