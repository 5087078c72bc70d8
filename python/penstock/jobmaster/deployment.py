"""What a TaskExecutor needs to run one attempt, computed from the ExecutionGraph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.jobmaster.execution import ExecutionVertex, IllegalExecutionStateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.jobmaster.execution_graph import ExecutionGraph


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
    allocation_id: bytes
    executor_id: str
    code: bytes
    configuration: Mapping[str, str]
    partitions: tuple[PartitionDescriptor, ...]
    gates: tuple[GateDescriptor, ...]


def task_deployment(graph: ExecutionGraph, subtask: ExecutionVertex) -> TaskDeployment:
    """Returns the deployment of a subtask's current attempt.

    The producers of everything it reads must have a slot already, because the channels name it.

    Raises:
        IllegalExecutionStateError: If the attempt or one of its producers has no slot.
    """
    execution = subtask.current
    job_vertex = subtask.job_vertex
    if execution.slot is None:
        raise IllegalExecutionStateError(f"{subtask.task_name} has no slot")
    return TaskDeployment(
        job_id=graph.job.job_id,
        job_name=graph.job.name,
        attempt_id=execution.attempt_id.to_bytes(),
        vertex_id=job_vertex.id,
        task_name=job_vertex.name,
        subtask=subtask.subtask,
        parallelism=job_vertex.parallelism,
        max_parallelism=job_vertex.max_parallelism,
        attempt_number=execution.attempt_id.attempt,
        allocation_id=execution.slot.allocation_id,
        executor_id=execution.slot.executor_id,
        code=job_vertex.code,
        configuration=graph.job.configuration,
        partitions=produced_partitions(graph, subtask),
        gates=_gates(graph, subtask),
    )


def produced_partitions(
    graph: ExecutionGraph, subtask: ExecutionVertex
) -> tuple[PartitionDescriptor, ...]:
    """Returns the partitions that a subtask's current attempt writes, one per data set."""
    partitions = []
    for result in graph.vertices[subtask.job_vertex.id].results:
        consumers = result.consumers_of_partition(subtask.subtask)
        partitions.append(
            PartitionDescriptor(
                partition_id=result.partition_id(subtask.subtask),
                num_subpartitions=len(consumers),
                type=result.type,
                flush_timeout_ms=result.buffer_timeout_ms,
                max_parallelism=(
                    0 if result.consumer is None else result.consumer.job_vertex.max_parallelism
                ),
            )
        )
    return tuple(partitions)


def _gates(graph: ExecutionGraph, subtask: ExecutionVertex) -> tuple[GateDescriptor, ...]:
    vertex = graph.vertices[subtask.job_vertex.id]
    gates = []
    for index, (edge, result) in enumerate(vertex.inputs):
        channels = []
        for partition, subpartition in vertex.consumed(index, subtask.subtask):
            producer = result.producer.subtasks[partition].current
            if producer.slot is None:
                raise IllegalExecutionStateError(
                    f"{subtask.task_name} reads from {producer.task_name}, which has no slot"
                )
            channels.append(
                ChannelDescriptor(
                    result.partition_id(partition),
                    subpartition,
                    producer.slot.executor_id,
                    producer.slot.host,
                    producer.slot.port,
                )
            )
        gates.append(GateDescriptor(result.dataset_id, edge.input_number, tuple(channels)))
    return tuple(gates)
