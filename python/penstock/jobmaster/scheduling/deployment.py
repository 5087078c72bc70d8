"""Deployment of one attempt to a TaskExecutor, computed from the ExecutionGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.options.rest import without_secrets
from penstock.common.options.scope import job_part
from penstock.graph.wiring import DistributionPattern
from penstock.jobmaster.scheduling.execution import ExecutionVertex, IllegalExecutionStateError
from penstock.rpc.task_deployment import (
    GateDescriptor,
    PartitionDescriptor,
    ProducerDescriptor,
    TaskDeploymentDescriptor,
)

if TYPE_CHECKING:
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph, IntermediateResult


def code_id_of(job_id: bytes, vertex_id: bytes) -> str:
    """Return the name of a vertex's code, which is sent once to each TaskExecutor."""
    return f"{job_id.hex()}/{vertex_id.hex()}"


SharedProducers = dict[bytes, tuple[ProducerDescriptor, ...]]
"""The input of all subtasks of a vertex in an all-to-all exchange, by data set.

Between a thousand producers and a thousand consumers there are a million channels.
"""


def task_deployment(
    graph: ExecutionGraph, subtask: ExecutionVertex, shared: SharedProducers | None = None
) -> TaskDeploymentDescriptor:
    """Return the deployment of a subtask's current attempt, without initial state.

    The producers of its inputs must already have a slot, because the channels name it.

    Args:
        graph: The job.
        subtask: The subtask.
        shared: The common parts of simultaneous deployments; filled on the way.

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
        gates=_gates(graph, subtask, {} if shared is None else shared),
    )


def produced_partitions(
    graph: ExecutionGraph, subtask: ExecutionVertex
) -> tuple[PartitionDescriptor, ...]:
    """Return the partitions that a subtask's current attempt writes, one per data set."""
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


def _gates(
    graph: ExecutionGraph, subtask: ExecutionVertex, shared: SharedProducers
) -> tuple[GateDescriptor, ...]:
    vertex = graph.vertices[subtask.job_vertex.id]
    gates = []
    for index, (edge, result) in enumerate(vertex.inputs):
        producers: tuple[ProducerDescriptor, ...] | None
        if edge.distribution is DistributionPattern.ALL_TO_ALL:
            producers = shared.get(result.dataset_id)
            if producers is None:
                everyone = range(result.producer.parallelism)
                producers = tuple(_producer(result, p, subtask) for p in everyone)
                shared[result.dataset_id] = producers
            gates.append(GateDescriptor(edge.input_number, producers, subtask.subtask))
        else:
            consumed = vertex.consumed(index, subtask.subtask)
            producers = tuple(_producer(result, partition, subtask) for partition, _ in consumed)
            each = tuple(subpartition for _, subpartition in consumed)
            gates.append(GateDescriptor(edge.input_number, producers, each))
    return tuple(gates)


def _producer(
    result: IntermediateResult, partition: int, consumer: ExecutionVertex
) -> ProducerDescriptor:
    producer = result.producer.subtasks[partition].current
    if producer.slot is None:
        raise IllegalExecutionStateError(
            f"{consumer.task_name} reads from {producer.task_name}, which has no slot"
        )
    return ProducerDescriptor(
        result.partition_id(partition),
        producer.slot.executor_id,
        producer.slot.host,
        producer.slot.port,
    )
