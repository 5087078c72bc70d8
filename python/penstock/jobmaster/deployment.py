"""What a TaskExecutor needs to run one attempt, computed from the ExecutionGraph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class PartitionDescriptor(NamedTuple):
    """One result partition that the attempt writes.

    Attributes:
        partition_id: 60 bytes, see `graph.ids`.
        num_subpartitions: One per consumer subtask that reads from it.
        type: `PIPELINED_BOUNDED` or `BLOCKING`.
        flush_timeout_ms: Flush interval; 0 after each record, -1 only full buffers.
        max_parallelism: Of the consumer: number of key groups.
    """

    partition_id: bytes
    num_subpartitions: int
    type: str
    flush_timeout_ms: int
    max_parallelism: int


class ChannelDescriptor(NamedTuple):
    """One channel of a gate; local when the executor is the reader's own."""

    partition_id: bytes
    subpartition: int
    executor_id: str
    host: str
    port: int


class GateDescriptor(NamedTuple):
    """One gate of the attempt, in the order of the vertex' inputs."""

    dataset_id: bytes
    input_number: int
    channels: tuple[ChannelDescriptor, ...]


@dataclass(frozen=True)
class TaskDeployment:
    """Everything about one attempt that its TaskExecutor must know.

    Attributes:
        job_id: 16 bytes.
        job_name: Name of the job.
        attempt_id: 40 bytes, see `graph.ids`.
        vertex_id: JobVertexID, 16 bytes.
        task_name: Name of the vertex.
        subtask: Index of the subtask.
        parallelism: Of the vertex.
        max_parallelism: Of the vertex: number of key groups.
        attempt_number: Attempts of this subtask before this one.
        allocation_id: Slot that it runs in.
        executor_id: TaskExecutor that has the slot.
        code: `cloudpickle` of the ChainConfig.
        configuration: The job's configuration.
        partitions: In the order of the vertex' produced data sets.
        gates: In the order of the vertex' inputs.
    """

    job_id: bytes
    job_name: str
    attempt_id: bytes
    vertex_id: bytes
    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt_number: int
    allocation_id: str
    executor_id: str
    code: bytes
    configuration: Mapping[str, str]
    partitions: tuple[PartitionDescriptor, ...]
    gates: tuple[GateDescriptor, ...]
