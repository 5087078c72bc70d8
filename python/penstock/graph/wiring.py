"""The two distribution patterns of a job edge: which subpartitions a consumer subtask reads.

ALL_TO_ALL: each consumer reads its own index from every producer.  POINTWISE: producers and
consumers are matched in contiguous runs that differ in length by at most one.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class DistributionPattern(Enum):
    """Wiring of two vertices' subtasks."""

    ALL_TO_ALL = "ALL_TO_ALL"
    POINTWISE = "POINTWISE"


class ConsumedSubpartition(NamedTuple):
    """One channel of a gate: the producer's subtask and the subpartition read from it."""

    partition: int
    subpartition: int


def consumed_partitions(
    pattern: DistributionPattern, producers: int, consumers: int, consumer: int
) -> list[ConsumedSubpartition]:
    """Return the channels of one consumer subtask in the order of its gate.

    Raises:
        ValueError: A parallelism is not positive, or there is no such consumer.
    """
    _check(producers, consumers)
    if not 0 <= consumer < consumers:
        raise ValueError(f"consumer {consumer} is not one of {consumers}")
    if pattern is DistributionPattern.ALL_TO_ALL:
        return [ConsumedSubpartition(p, consumer) for p in range(producers)]
    if producers >= consumers:
        first = consumer * producers // consumers
        last = (consumer + 1) * producers // consumers
        return [ConsumedSubpartition(p, 0) for p in range(first, last)]
    # Consumer c belongs to the producer p whose run [⌈p·T/S⌉, ⌈(p+1)·T/S⌉) holds it, which is the
    # integer ⌊c·S/T⌋; the run's subpartitions are visited in the consumer's own order.
    partition = consumer * producers // consumers
    feeds = num_subpartitions(pattern, producers, consumers, partition)
    return [ConsumedSubpartition(partition, consumer % feeds)]


def consumers_of(
    pattern: DistributionPattern, producers: int, consumers: int, partition: int
) -> range:
    """Return the consumer subtasks that read from one producer's partition.

    Raises:
        ValueError: A parallelism is not positive, or there is no such producer.
    """
    _check(producers, consumers)
    if not 0 <= partition < producers:
        raise ValueError(f"partition {partition} is not one of {producers}")
    if pattern is DistributionPattern.ALL_TO_ALL:
        return range(consumers)
    if producers >= consumers:
        # The one consumer c with ⌊c·S/T⌋ ≤ p < ⌊(c+1)·S/T⌋.
        consumer = ((partition + 1) * consumers - 1) // producers
        return range(consumer, consumer + 1)
    first = -(-partition * consumers // producers)
    last = -(-(partition + 1) * consumers // producers)
    return range(first, last)


def num_subpartitions(
    pattern: DistributionPattern, producers: int, consumers: int, partition: int
) -> int:
    """Return the number of subpartitions of one producer's partition."""
    return len(consumers_of(pattern, producers, consumers, partition))


def _check(producers: int, consumers: int) -> None:
    if producers < 1 or consumers < 1:
        raise ValueError(f"cannot wire {producers} producers to {consumers} consumers")
