"""Partitioners of an edge, as data.

The selectors that distribute records belong to the data plane; the graph only needs the kind of an
edge, its wiring of producers to consumers, and Flink's name for it in a plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class PartitionerKind(Enum):
    """Ways to choose a channel; `value` is the data plane's name of the selector."""

    FORWARD = "FORWARD"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    SHUFFLE = "SHUFFLE"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"
    KEY_GROUP = "KEY_GROUP"
    CUSTOM = "CUSTOM"


#: Names of kinds in plans: key groups show as Flink's HASH.
_SHIP_STRATEGY = {PartitionerKind.KEY_GROUP: "HASH"}

_POINTWISE = frozenset({PartitionerKind.FORWARD, PartitionerKind.RESCALE})


class ExchangeMode(Enum):
    """Exchange mode of an edge; UNDEFINED lets the generator decide."""

    UNDEFINED = "UNDEFINED"
    PIPELINED = "PIPELINED"
    BATCH = "BATCH"


@dataclass(frozen=True)
class PartitionerSpec:
    """A partitioner and the arguments of its selector.

    Attributes:
        kind: Name of a `PartitionerKind`.
        key_selector: For KEY_GROUP and CUSTOM: record → key.
        key_type: TypeInformation of the key, or None when it is not declared.
        function: For CUSTOM: the user's Partitioner, (key, number of channels) → channel.
        max_parallelism: For KEY_GROUP: number of key groups; 0 until the graph has settled it.
    """

    kind: str
    key_selector: Callable[[Any], Any] | object | None = None
    key_type: object | None = None
    function: object | None = None
    max_parallelism: int = 0

    def __post_init__(self) -> None:
        PartitionerKind(self.kind)  # ValueError for a kind that no data plane knows
        if self.kind == "KEY_GROUP" and self.key_selector is None:
            raise ValueError("a KEY_GROUP partitioner needs a key selector")
        if self.kind == "CUSTOM" and self.function is None:
            raise ValueError("a CUSTOM partitioner needs the user's partition function")

    @property
    def is_forward(self) -> bool:
        """Return whether each subtask sends only to the receiver's subtask of the same number."""
        return self.kind == "FORWARD"

    @property
    def is_broadcast(self) -> bool:
        """Return whether every consumer receives every record."""
        return self.kind == "BROADCAST"

    @property
    def is_pointwise(self) -> bool:
        """Return whether a producer feeds only some of the consumers (POINTWISE wiring)."""
        return PartitionerKind(self.kind) in _POINTWISE

    @property
    def supports_unaligned_checkpoints(self) -> bool:
        """Return whether in-flight data of the edge may be stored and redistributed."""
        return not (self.is_pointwise or self.is_broadcast)

    @property
    def ship_strategy(self) -> str:
        """The name of the partitioner in plans."""
        kind = PartitionerKind(self.kind)
        return _SHIP_STRATEGY.get(kind, kind.value)


FORWARD = PartitionerSpec("FORWARD")
REBALANCE = PartitionerSpec("REBALANCE")
RESCALE = PartitionerSpec("RESCALE")
SHUFFLE = PartitionerSpec("SHUFFLE")
BROADCAST = PartitionerSpec("BROADCAST")
GLOBAL = PartitionerSpec("GLOBAL")


def key_group(key_selector: object, key_type: object | None = None) -> PartitionerSpec:
    """Return the partitioner of ``key_by``: records of one key go to one subtask."""
    return PartitionerSpec("KEY_GROUP", key_selector, key_type)


def custom(
    function: object, key_selector: object | None = None, key_type: object | None = None
) -> PartitionerSpec:
    """Return the partitioner of ``partition_custom``: the user's function picks the channel."""
    return PartitionerSpec("CUSTOM", key_selector, key_type, function)
