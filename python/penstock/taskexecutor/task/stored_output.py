"""Partitions of a task; stored ones sort their records in managed memory, consumer by consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.network import NetworkEnvironment, ResultPartition
    from penstock.rpc.task_deployment import PartitionDescriptor
    from penstock.taskexecutor.worker.memory_manager import MemoryManager

#: A stored output needs a page of this size for each subpartition, and one more.  It gets them even
#: if less is free, as a sort gets its least memory: many tasks of a slot may store at a time.
LEAST_PAGE_BYTES: Final = 1 << 10

#: It takes this part of the free memory: other tasks of the slot begin later, and need some, too.
PART_OF_FREE: Final = 8

#: Flink's default: 512 buffers of 32 KiB.
MOST_BYTES: Final = 16 << 20


def create_partition(
    network: NetworkEnvironment,
    descriptor: PartitionDescriptor,
    memory: MemoryManager,
    owner: object,
) -> ResultPartition:
    """Create a partition; reserve managed memory for one that is stored.

    Args:
        network: The network of the job.
        descriptor: The partition.
        memory: The memory of stored outputs in the slot.
        owner: The task; it releases the memory when the partition is finished.

    Raises:
        InsufficientBuffersError: Too few network buffers are free.
    """
    arguments = (
        descriptor.partition_id,
        descriptor.num_subpartitions,
        descriptor.partition_type,
        descriptor.flush_timeout_ms,
    )
    if not descriptor.outlives_its_task:
        return network.create_result_partition(*arguments)
    managed_bytes = reserve(memory, owner, descriptor.num_subpartitions)
    return network.create_result_partition(*arguments, managed_bytes)


def reserve(memory: MemoryManager, owner: object, num_subpartitions: int) -> int:
    """Reserve the managed memory of a stored output, and return its size in bytes.

    The least size is returned also if it is not free, and is not counted then.
    """
    least = (num_subpartitions + 1) * LEAST_PAGE_BYTES
    part = min(memory.available_bytes // PART_OF_FREE, MOST_BYTES)
    if part > least and memory.reserve(owner, part):
        return part
    memory.reserve(owner, least)
    return least
