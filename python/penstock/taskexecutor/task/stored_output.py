"""Partitions of a task; stored ones sort their records in managed memory, consumer by consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.common.options.cluster import MANAGED_MEMORY
from penstock.errors import InsufficientBuffersError

if TYPE_CHECKING:
    from penstock.network import NetworkEnvironment, ResultPartition
    from penstock.rpc.task_deployment import PartitionDescriptor
    from penstock.taskexecutor.worker.memory_manager import MemoryManager

#: A stored output needs a page of this size for each subpartition, and one more.
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
        InsufficientBuffersError: Too few network buffers or too little managed memory is free.
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

    Raises:
        InsufficientBuffersError: Less is free than the output needs.
    """
    least = (num_subpartitions + 1) * LEAST_PAGE_BYTES
    for size in (min(memory.available_bytes // PART_OF_FREE, MOST_BYTES), least):
        if size >= least and memory.reserve(owner, size):
            return size
    raise InsufficientBuffersError(
        f"the output for {num_subpartitions} subtasks of the next stage needs at least {least} "
        f"bytes of managed memory to be sorted in; {memory.available_bytes} of the "
        f"{memory.size_bytes} bytes for such outputs are free in this slot. Raise "
        f"{MANAGED_MEMORY.key!r}, or lower the parallelism."
    )
