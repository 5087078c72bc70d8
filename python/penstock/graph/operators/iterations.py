"""The two ends of an iteration."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.graph.operators.descriptor import OperatorDescriptor


@dataclass(frozen=True, kw_only=True)
class IterationHead(OperatorDescriptor):
    """Emits again what the tail takes.

    Attributes:
        iteration: Names the iteration.
        wait_time_ms: It ends when nothing came back for so long; 0 never.
        group: Names the iterations that come to rest together.
        group_size: How many they are.
    """

    iteration: str
    wait_time_ms: int = 0
    group: str = ""
    group_size: int = 1


@dataclass(frozen=True, kw_only=True)
class IterationTail(OperatorDescriptor):
    """Takes what flows back.

    Attributes:
        iteration: Names the iteration.
        group: Names the iterations that come to rest together.
    """

    iteration: str
    group: str = ""
