"""Whether data in flight in a checkpoint finds its channels again in a job (SEMANTICS F6, F12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidProgramError
from penstock.graph.wiring import DistributionPattern

if TYPE_CHECKING:
    from penstock.checkpoint_storage.checkpoint_metadata import OperatorState
    from penstock.graph.job_graph import JobGraph, JobVertex


def check_in_flight(job: JobGraph, vertex: JobVertex, state: OperatorState) -> None:
    """Looks whether what was in flight at an operator has the channels that it had.

    Records in flight were given to subtasks that may not be theirs at another parallelism.

    Args:
        job: The job to be started.
        vertex: Where the operator is in it.
        state: The operator's state in the checkpoint.

    Raises:
        InvalidProgramError: It has not; the text says what can be done.
    """
    handles = [
        (gate, handle)
        for subtask in state.subtasks.values()
        for gate, handles in (
            (True, subtask.input_channels),
            (False, subtask.result_subpartitions),
        )
        for handle in handles
    ]
    if not handles:
        return
    if vertex.parallelism != state.parallelism:
        raise _refusal(state, f"{state.parallelism} subtasks, not {vertex.parallelism}")
    for is_input, handle in handles:
        what = "channels of an input" if is_input else "receivers of an output"
        now = (_num_channels if is_input else _num_subpartitions)(job, vertex, handle.index)
        if now not in (None, handle.of):
            raise _refusal(state, f"{handle.of} {what}, not {now}")


def _num_channels(job: JobGraph, vertex: JobVertex, gate: int) -> int | None:
    """How many channels a gate has; None when it depends on the subtask."""
    if gate >= len(vertex.inputs):
        return 0
    edge = vertex.inputs[gate]
    if edge.distribution is DistributionPattern.POINTWISE:
        return None
    return next(
        producer.parallelism
        for producer in job.vertices.values()
        if any(produced.id == edge.dataset_id for produced in producer.produced)
    )


def _num_subpartitions(job: JobGraph, vertex: JobVertex, partition: int) -> int | None:
    """How many subpartitions a partition has; None when it depends on the subtask."""
    if partition >= len(vertex.produced):
        return 0
    dataset_id = vertex.produced[partition].id
    for consumer in job.vertices.values():
        for edge in consumer.inputs:
            if edge.dataset_id == dataset_id:
                if edge.distribution is DistributionPattern.POINTWISE:
                    return None
                return consumer.parallelism
    return 0


def _refusal(state: OperatorState, what: str) -> InvalidProgramError:
    return InvalidProgramError(
        f"{state.uid or state.name!r} had data in flight in the checkpoint, with {what}: restore "
        "it with the parallelism that it had, there and at its neighbours, or from a savepoint or "
        "an aligned checkpoint"
    )
