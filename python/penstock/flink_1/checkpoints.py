"""ExternalizedCheckpointCleanup: retention of checkpoints when a job is cancelled."""

from enum import Enum


class ExternalizedCheckpointCleanup(Enum):
    """Retention of the last checkpoints when a job is cancelled."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
