"""Options of the adaptive scheduler, which runs a job with the available slots."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import ChoiceType, DurationType

SCHEDULER: Final = Option(
    "jobmanager.scheduler",
    ChoiceType(
        "Default",
        "Adaptive",
        absent={
            "AdaptiveBatch": "penstock derives no parallelism from the data of a BATCH job: leave "
            "it out, and set the parallelism"
        },
    ),
    "Default",
    "with Adaptive, a streaming job uses the slots that exist, up to its parallelism, and "
    "changes its parallelism when TaskExecutors come or go; see [Adaptive "
    "jobs](rescaling.md#adaptive-jobs)",
)
RESOURCE_WAIT_TIMEOUT: Final = Option(
    "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
    DurationType(),
    300_000,
    "longest time that an adaptive job waits for slots before it runs; then it starts with "
    "the slots that exist, or fails if a slot sharing group has none",
    alternate_keys=("jobmanager.adaptive-scheduler.resource-wait-timeout",),
)
STABILIZATION_TIMEOUT: Final = Option(
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
    DurationType(),
    10_000,
    "time that an adaptive job which could run with the existing slots waits for the others",
    alternate_keys=("jobmanager.adaptive-scheduler.resource-stabilization-timeout",),
)
COOLDOWN: Final = Option(
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
    DurationType(),
    30_000,
    "shortest time that an adaptive job runs before it is rescaled to more slots",
    alternate_keys=("jobmanager.adaptive-scheduler.scaling-interval.min",),
)
EXECUTING_STABILIZATION_TIMEOUT: Final = Option(
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
    DurationType(),
    60_000,
    "time that a running adaptive job which could use some more slots waits for the others",
    alternate_keys=("jobmanager.adaptive-scheduler.scaling-interval.max",),
)
