"""Options of restarts after failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.common.options import checkpointing, pipeline
from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    INFINITE,
    ChoiceType,
    DurationType,
    IntegerType,
    NumberType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_WITH_CHECKPOINTS: Final = "exponential-delay"

TYPE: Final = Option(
    "restart-strategy.type",
    ChoiceType(
        "none",
        "fixed-delay",
        "failure-rate",
        "exponential-delay",
        aliases={
            "off": "none",
            "disable": "none",
            "fixeddelay": "fixed-delay",
            "failurerate": "failure-rate",
            "exponentialdelay": "exponential-delay",
        },
    ),
    "none",
    "whether a failed job restarts, and after which delay",
    alternate_keys=("restart-strategy",),
    default_text=f"{_WITH_CHECKPOINTS} for a streaming job with checkpoints, else none",
)
FIXED_ATTEMPTS: Final = Option(
    "restart-strategy.fixed-delay.attempts",
    IntegerType(0, infinite=True),
    1,
    "maximum number of restarts",
)
FIXED_DELAY: Final = Option(
    "restart-strategy.fixed-delay.delay", DurationType(), 1_000, "delay of a restart"
)
RATE_FAILURES: Final = Option(
    "restart-strategy.failure-rate.max-failures-per-interval",
    IntegerType(1, infinite=True),
    1,
    "maximum number of failures within the interval that lead to a restart",
)
RATE_INTERVAL: Final = Option(
    "restart-strategy.failure-rate.failure-rate-interval",
    DurationType(1),
    60_000,
    "interval in which failures are counted",
)
RATE_DELAY: Final = Option(
    "restart-strategy.failure-rate.delay", DurationType(), 1_000, "delay of a restart"
)
INITIAL_BACKOFF: Final = Option(
    "restart-strategy.exponential-delay.initial-backoff",
    DurationType(1),
    1_000,
    "delay of the first restart",
)
MAX_BACKOFF: Final = Option(
    "restart-strategy.exponential-delay.max-backoff",
    DurationType(1),
    60_000,
    "longest delay of a restart",
)
BACKOFF_MULTIPLIER: Final = Option(
    "restart-strategy.exponential-delay.backoff-multiplier",
    NumberType(1),
    1.5,
    "factor by which the delay grows with each restart",
)
RESET_THRESHOLD: Final = Option(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    DurationType(1),
    3_600_000,
    "time without failure after which the delay returns to its initial value",
)
JITTER_FACTOR: Final = Option(
    "restart-strategy.exponential-delay.jitter-factor",
    NumberType(0, 1),
    0.1,
    "part of the delay by which it is lengthened or shortened at random",
)
ATTEMPTS_BEFORE_RESET: Final = Option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    IntegerType(1, infinite=True),
    INFINITE,
    "maximum number of restarts before the delay is reset",
)


def effective_type(configuration: Mapping[str, str]) -> str:
    """Return the strategy of a job.

    If none is configured, a job with checkpoints restarts with growing delays; one without them
    fails, since a restart would repeat all of its output.
    """
    takes_checkpoints = (
        checkpointing.INTERVAL.read(configuration) is not None
        and pipeline.RUNTIME_MODE.read(configuration) != "BATCH"
    )
    if takes_checkpoints and not TYPE.is_set(configuration):
        return _WITH_CHECKPOINTS
    return TYPE.read(configuration)
