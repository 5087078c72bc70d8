"""ExecutionMode: data exchange in the former DataSet API."""

from enum import Enum

__all__ = ["ExecutionMode"]


class ExecutionMode(Enum):
    """Data exchange between the operators of a batch program."""

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3
