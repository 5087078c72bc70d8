"""CheckpointingMode: the guarantee of checkpoints."""

from enum import Enum

__all__ = [
    "CheckpointingMode",
]


class CheckpointingMode(Enum):
    """Guarantee of a checkpoint for state."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
