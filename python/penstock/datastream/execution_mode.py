"""RuntimeExecutionMode: streaming, or batch execution of bounded data."""

from enum import Enum

__all__ = [
    "RuntimeExecutionMode",
]


class RuntimeExecutionMode(Enum):
    """Execution mode of a job."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
