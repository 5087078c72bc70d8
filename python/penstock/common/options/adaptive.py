"""Options of the adaptive scheduler, which runs a job with the slots that there are."""

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
    "with Adaptive a streaming job runs with the slots that there are, up to its parallelism, and "
    "changes it when TaskExecutors come or go; see [Adaptive jobs](rescaling.md#adaptive-jobs)",
)
RESOURCE_WAIT_TIMEOUT: Final = Option(
    "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
    DurationType(),
    300_000,
    "how long an adaptive job that does not run waits for slots; then it runs with those that "
    "there are, or fails if there is not one for each slot sharing group",
    alternate_keys=("jobmanager.adaptive-scheduler.resource-wait-timeout",),
)
STABILIZATION_TIMEOUT: Final = Option(
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
    DurationType(),
    10_000,
    "how long an adaptive job that could run with the slots that there are waits for the others",
    alternate_keys=("jobmanager.adaptive-scheduler.resource-stabilization-timeout",),
)
COOLDOWN: Final = Option(
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
    DurationType(),
    30_000,
    "how long an adaptive job runs before it is rescaled to more slots",
    alternate_keys=("jobmanager.adaptive-scheduler.scaling-interval.min",),
)
EXECUTING_STABILIZATION_TIMEOUT: Final = Option(
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
    DurationType(),
    60_000,
    "how long an adaptive job that runs and could have some more slots waits for the others",
    alternate_keys=("jobmanager.adaptive-scheduler.scaling-interval.max",),
)
