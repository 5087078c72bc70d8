"""Head and tail of an iteration."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.graph.operators.descriptor import OperatorDescriptor


@dataclass(frozen=True, kw_only=True)
class IterationHead(OperatorDescriptor):
    """Emits the records that the tail feeds back.

    Attributes:
        iteration: The name of the iteration.
        wait_time_ms: Time without feedback after which the iteration ends; 0 for never.
        group: The name of the group of iterations that become quiescent together.
        group_size: The size of the group.
    """

    iteration: str
    wait_time_ms: int = 0
    group: str = ""
    group_size: int = 1


@dataclass(frozen=True, kw_only=True)
class IterationTail(OperatorDescriptor):
    """Feeds records back to the head.

    Attributes:
        iteration: The name of the iteration.
        group: The name of the group of iterations that become quiescent together.
    """

    iteration: str
    group: str = ""
