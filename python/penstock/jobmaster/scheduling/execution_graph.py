"""The ExecutionGraph: every subtask of a job, and the status of the job as a whole.

It stores the vertices in topological order, knows producers and consumers, and guards the
transitions of the job's status.  `Scheduler` decides how to react to events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import JobExecutionError
from penstock.graph.ids import ResultPartitionID
from penstock.graph.wiring import (
    ConsumedSubpartition,
    DistributionPattern,
    consumed_partitions,
    consumers_of,
)
from penstock.jobmaster.scheduling.execution import Execution, ExecutionVertex
from penstock.jobmaster.scheduling.states import JOB_TRANSITIONS, ExecutionState, JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.graph.ids import ExecutionAttemptID
    from penstock.graph.job_graph import JobEdge, JobGraph, JobVertex
    from penstock.rpc.task_deployment import RestoredState

SubtaskID = tuple[bytes, int]


class JobError(JobExecutionError):
    """A JobGraph cannot become an ExecutionGraph; names the vertex."""


class IllegalJobStateError(RuntimeError):
    """A transition that the job's status does not allow; a defect of the caller."""


class IntermediateResult:
    """A data set at run time: one partition per subtask of its producer.

    Attributes:
        dataset_id: IntermediateDataSetID.
        producer: Its producer.
        type: `PIPELINED_BOUNDED` or `BLOCKING`.
        buffer_timeout_ms: Flush interval.
        edge: The consuming edge, once attached.
        consumer: The vertex that reads it, once attached.
    """

    def __init__(self, producer: ExecutionJobVertex, index: int) -> None:
        dataset = producer.job_vertex.produced[index]
        self.dataset_id = dataset.id
        self.producer = producer
        self.type = dataset.type
        self.buffer_timeout_ms = dataset.buffer_timeout_ms
        self.edge: JobEdge | None = None
        self.consumer: ExecutionJobVertex | None = None
        # Each consumer subtask names each of its producers, so an id is requested many times.
        self._partition_ids: dict[int, tuple[ExecutionAttemptID, bytes]] = {}

    @property
    def is_blocking(self) -> bool:
        """Return whether it can be read only after its producer has finished."""
        return self.type == "BLOCKING"

    def partition_id(self, partition: int) -> bytes:
        """Return the 60-byte id of what the current attempt of a producer subtask writes."""
        attempt = self.producer.subtasks[partition].current.attempt_id
        known = self._partition_ids.get(partition)
        if known is None or known[0] is not attempt:
            known = (attempt, ResultPartitionID(self.dataset_id, partition, attempt).to_bytes())
            self._partition_ids[partition] = known
        return known[1]

    def partitions_of_consumer(self, consumer: int) -> Sequence[int]:
        """Return the partitions that one consumer subtask reads."""
        if self.edge is None or self.consumer is None:
            return ()
        if self.edge.distribution is DistributionPattern.ALL_TO_ALL:
            return range(self.producer.parallelism)
        consumed = consumed_partitions(
            self.edge.distribution, self.producer.parallelism, self.consumer.parallelism, consumer
        )
        return [partition for partition, _ in consumed]

    def consumers_of_partition(self, partition: int) -> range:
        """Return the consumer subtasks that read one partition."""
        if self.edge is None or self.consumer is None:
            return range(0)
        return consumers_of(
            self.edge.distribution,
            self.producer.parallelism,
            self.consumer.parallelism,
            partition,
        )


class ExecutionJobVertex:
    """One vertex of the JobGraph with all its subtasks."""

    def __init__(
        self, job_vertex: JobVertex, graph_id: bytes, now_ms: int, first_attempt: int = 0
    ) -> None:
        self.job_vertex = job_vertex
        self.subtasks = [
            ExecutionVertex(job_vertex, i, graph_id, now_ms, first_attempt)
            for i in range(job_vertex.parallelism)
        ]
        self.results = [IntermediateResult(self, i) for i in range(len(job_vertex.produced))]
        self.inputs: list[tuple[JobEdge, IntermediateResult]] = []

    @property
    def id(self) -> bytes:
        """JobVertexID."""
        return self.job_vertex.id

    @property
    def parallelism(self) -> int:
        """Number of subtasks."""
        return self.job_vertex.parallelism

    @property
    def state(self) -> ExecutionState:
        """Return one state for all subtasks, the most alarming first."""
        return aggregate_state([subtask.state for subtask in self.subtasks])

    def consumed(self, input_index: int, subtask: int) -> list[ConsumedSubpartition]:
        """Return what one subtask reads through one of its gates."""
        edge, result = self.inputs[input_index]
        return consumed_partitions(
            edge.distribution, result.producer.parallelism, self.parallelism, subtask
        )


def aggregate_state(states: list[ExecutionState]) -> ExecutionState:
    """Return the state of a vertex, given those of its subtasks."""
    present = set(states)
    for state in (
        ExecutionState.FAILED,
        ExecutionState.CANCELING,
        ExecutionState.CANCELED,
        ExecutionState.INITIALIZING,
        ExecutionState.RUNNING,
    ):
        if state in present:
            return state
    if ExecutionState.FINISHED in present:
        # Some have finished and others have not started: the vertex as a whole is running.
        return ExecutionState.FINISHED if len(present) == 1 else ExecutionState.RUNNING
    return ExecutionState.CREATED


class ExecutionGraph:
    """Every subtask of a job.

    Args:
        job: The job; its vertices must be in topological order.
        now_ms: Time of creation.

    Raises:
        JobError: If a vertex or data set appears twice, or an input has no producer before it.
    """

    def __init__(self, job: JobGraph, now_ms: int) -> None:
        self.job = job
        self.status = JobStatus.INITIALIZING
        self.status_timestamps: dict[JobStatus, int] = {JobStatus.INITIALIZING: now_ms}
        self.vertices: dict[bytes, ExecutionJobVertex] = {}
        self.results: dict[bytes, IntermediateResult] = {}
        self.num_restarts = 0
        self._live: dict[ExecutionAttemptID, ExecutionVertex] = {}
        for vertex in job.vertices.values():
            self._attach(vertex, now_ms)
        #: Subtasks whose current attempt has not ended.
        self.active = len(self._live)

    def _attach(self, job_vertex: JobVertex, now_ms: int, first_attempt: int = 0) -> None:
        if job_vertex.id in self.vertices:
            raise JobError(f"the job has two vertices with id {job_vertex.id.hex()}")
        if job_vertex.parallelism < 1:
            raise JobError(f"vertex {job_vertex.name!r} has parallelism {job_vertex.parallelism}")
        vertex = ExecutionJobVertex(job_vertex, self.job.job_id, now_ms, first_attempt)
        for edge in job_vertex.inputs:
            result = self.results.get(edge.dataset_id)
            if result is None:
                raise JobError(
                    f"vertex {job_vertex.name!r} reads data set {edge.dataset_id.hex()}, which no "
                    "vertex before it produces"
                )
            if result.consumer is not None:
                raise JobError(
                    f"data set {edge.dataset_id.hex()} has two consumers: "
                    f"{result.consumer.job_vertex.name!r} and {job_vertex.name!r}"
                )
            result.edge = edge
            result.consumer = vertex
            vertex.inputs.append((edge, result))
        for result in vertex.results:
            if result.dataset_id in self.results:
                raise JobError(f"the job has two data sets with id {result.dataset_id.hex()}")
            self.results[result.dataset_id] = result
        self.vertices[job_vertex.id] = vertex
        for subtask in vertex.subtasks:
            self._live[subtask.current.attempt_id] = subtask

    def subtasks(self) -> Iterator[ExecutionVertex]:
        """Yield all subtasks in topological order."""
        for vertex in self.vertices.values():
            yield from vertex.subtasks

    def subtask(self, subtask_id: SubtaskID) -> ExecutionVertex:
        """Return one subtask."""
        vertex_id, index = subtask_id
        return self.vertices[vertex_id].subtasks[index]

    def find_attempt(self, attempt_id: ExecutionAttemptID) -> ExecutionVertex | None:
        """Return the subtask whose current attempt has this id, or None."""
        return self._live.get(attempt_id)

    def reset(self, subtask: ExecutionVertex, now_ms: int) -> Execution:
        """Start a new attempt of a subtask and forget the id of the ended one."""
        ended = subtask.current.attempt_id
        execution = subtask.reset(now_ms)
        del self._live[ended]
        self._live[execution.attempt_id] = subtask
        self.active += 1
        return execution

    def assign_states(self, states: Mapping[SubtaskID, RestoredState]) -> None:
        """Assign the current attempts of subtasks their parts of a checkpoint."""
        for subtask_id, restored in states.items():
            self.subtask(subtask_id).current.assign_state(restored)

    def rescale(self, parallelisms: Mapping[bytes, int], now_ms: int) -> None:
        """Start new attempts of all subtasks, with new parallelisms.

        If no attempt has run yet, these are the first.  Else their numbers are higher than any
        before, so that late reports of ended attempts match none of them, even if their subtask
        disappears and reappears.

        Args:
            parallelisms: The new ones, by vertex; the others keep theirs.
            now_ms: The time.

        Raises:
            IllegalJobStateError: An attempt has not ended.
        """
        has_begun = any(s.state is not ExecutionState.CREATED for s in self.subtasks())
        if has_begun and any(not subtask.state.is_terminal for subtask in self.subtasks()):
            raise IllegalJobStateError("a job cannot be rescaled while it has attempts that run")
        first = 0
        if has_begun:
            first = 1 + max(s.current.attempt_id.attempt for s in self.subtasks())
        former = self.vertices if has_begun else {}
        self.vertices, self.results, self._live = {}, {}, {}
        for job_vertex in self.job.vertices.values():
            job_vertex.parallelism = parallelisms.get(job_vertex.id, job_vertex.parallelism)
            self._attach(job_vertex, now_ms, first)
        for vertex_id, vertex in former.items():
            subtasks = zip(self.vertices[vertex_id].subtasks, vertex.subtasks, strict=False)
            for subtask, before in subtasks:
                subtask.prior.extend((*before.prior, before.current))
        self.active = len(self._live)

    def all_in(self, *states: ExecutionState) -> bool:
        """Return whether every subtask is in one of the states."""
        return all(subtask.state in states for subtask in self.subtasks())

    def move(self, new: JobStatus, now_ms: int) -> JobStatus:
        """Change the status of the job; return the old one.

        Raises:
            IllegalJobStateError: If the transition is not allowed, or FINISHED is too early.
        """
        old = self.status
        if new not in JOB_TRANSITIONS[old]:
            raise IllegalJobStateError(f"a job cannot go from {old.name} to {new.name}")
        if new is JobStatus.FINISHED and not self.all_in(ExecutionState.FINISHED):
            raise IllegalJobStateError("a job cannot finish before all of its subtasks have")
        self.status = new
        self.status_timestamps[new] = now_ms
        return old
