"""RuntimeExecutionMode: whether a job streams or works through finite data."""

from enum import Enum

__all__ = [
    "RuntimeExecutionMode",
]


class RuntimeExecutionMode(Enum):
    """Execution mode of a job."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
