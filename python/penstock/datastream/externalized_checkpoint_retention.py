"""ExternalizedCheckpointRetention: the retention of checkpoints when a job is cancelled."""

from enum import Enum

__all__ = [
    "ExternalizedCheckpointRetention",
]


class ExternalizedCheckpointRetention(Enum):
    """Retention of the last checkpoints when a job ends."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
