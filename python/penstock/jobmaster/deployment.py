"""What a TaskExecutor needs to run one attempt, computed from the ExecutionGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.options.rest import without_secrets
from penstock.common.options.scope import job_part
from penstock.jobmaster.execution import ExecutionVertex, IllegalExecutionStateError
from penstock.rpc.task_deployment import (
    ChannelDescriptor,
    GateDescriptor,
    PartitionDescriptor,
    TaskDeploymentDescriptor,
)

if TYPE_CHECKING:
    from penstock.jobmaster.execution_graph import ExecutionGraph


def code_id_of(job_id: bytes, vertex_id: bytes) -> str:
    """Names the code of a vertex, which is sent to a TaskExecutor once."""
    return f"{job_id.hex()}/{vertex_id.hex()}"


def task_deployment(graph: ExecutionGraph, subtask: ExecutionVertex) -> TaskDeploymentDescriptor:
    """Returns the deployment of a subtask's current attempt, without state to start from.

    The producers of everything it reads must have a slot already, because the channels name it.

    Raises:
        IllegalExecutionStateError: If the attempt or one of its producers has no slot.
    """
    execution = subtask.current
    job_vertex = subtask.job_vertex
    if execution.slot is None:
        raise IllegalExecutionStateError(f"{subtask.task_name} has no slot")
    return TaskDeploymentDescriptor(
        job_id=graph.job.job_id,
        attempt_id=execution.attempt_id.to_bytes(),
        vertex_id=job_vertex.id,
        task_name=job_vertex.name,
        subtask=subtask.subtask,
        parallelism=job_vertex.parallelism,
        max_parallelism=job_vertex.max_parallelism,
        attempt_number=execution.attempt_id.attempt,
        allocation_id=execution.slot.allocation_id,
        code_id=code_id_of(graph.job.job_id, job_vertex.id),
        configuration=without_secrets(job_part(graph.job.configuration)),
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
                partition_type=result.type,
                flush_timeout_ms=result.buffer_timeout_ms,
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
        gates.append(GateDescriptor(edge.input_number, tuple(channels)))
    return tuple(gates)
