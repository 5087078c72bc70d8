"""Immutable snapshots of a cluster and its jobs, for watchers: REST, reporters, the log.

The main thread takes them between two events, and any thread reads them without a lock.  Times are
those of the wall clock in ms since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.jobmaster.scheduling.execution_graph import aggregate_state
from penstock.jobmaster.scheduling.states import ExecutionState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.graph.job_graph import JobGraph, OperatorIdentity
    from penstock.jobmaster.checkpointing.settings import CheckpointSettings
    from penstock.jobmaster.checkpointing.statistics import (
        CheckpointRecord,
        CheckpointStatistics,
        CompletedFigures,
    )
    from penstock.jobmaster.scheduling.exception_history import ExceptionHistory
    from penstock.jobmaster.scheduling.execution import Execution, ExecutionVertex
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph, ExecutionJobVertex
    from penstock.jobmaster.scheduling.failure import Failure
    from penstock.jobmaster.scheduling.states import JobStatus


@dataclass(frozen=True)
class AttemptSnapshot:
    """One attempt of a subtask.

    Attributes:
        attempt: Its number.
        attempt_id: Its 40 bytes.
        state: Its state.
        timestamps: When it entered each state.
        executor_id: Its TaskExecutor; None before it has a slot.
        host: The worker's data host.
        port: The worker's data port.
        allocation_id: The slot that it runs or ran in.
        failure: Why it failed.
    """

    attempt: int
    attempt_id: bytes
    state: ExecutionState
    timestamps: Mapping[ExecutionState, int]
    executor_id: str | None
    host: str | None
    port: int
    allocation_id: bytes | None
    failure: Failure | None

    @property
    def endpoint(self) -> str:
        """Return host and port, as Flink writes them."""
        return "(unassigned)" if self.host is None else f"{self.host}:{self.port}"

    @property
    def start_ms(self) -> int:
        """Return when it was sent to its worker; -1 before."""
        return self.timestamps.get(ExecutionState.DEPLOYING, -1)

    @property
    def end_ms(self) -> int:
        """Return when it ended; -1 before."""
        return self.timestamps[self.state] if self.state.is_terminal else -1

    def duration_ms(self, now_ms: int) -> int:
        """Return the time from its start to its end or to now; -1 before it started."""
        if self.start_ms < 0:
            return -1
        return max(0, (self.end_ms if self.end_ms >= 0 else now_ms) - self.start_ms)


@dataclass(frozen=True)
class SubtaskSnapshot:
    """One subtask: its attempts.

    Attributes:
        index: Its number, from 0.
        current: The latest attempt.
        prior: The last ended ones before it, oldest first.
    """

    index: int
    current: AttemptSnapshot
    prior: tuple[AttemptSnapshot, ...]


@dataclass(frozen=True)
class VertexSnapshot:
    """One vertex: its fixed properties, and its subtasks."""

    id: bytes
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    operator_names: tuple[str, ...]
    wanted_parallelism: int
    """The parallelism it has when there are enough slots."""
    inputs: tuple[tuple[bytes, str, str], ...]
    """Producer, ship strategy, and kind of the exchange, of each input edge."""
    subtasks: tuple[SubtaskSnapshot, ...]
    operators: tuple[OperatorIdentity, ...] = ()

    @property
    def state(self) -> ExecutionState:
        """Return one state for all subtasks."""
        return aggregate_state([subtask.current.state for subtask in self.subtasks])


@dataclass(frozen=True)
class ExceptionSnapshot:
    """A failure of the job; the concurrent ones; whether it repeats."""

    timestamp_ms: int
    failure: Failure
    concurrent: tuple[tuple[int, Failure], ...] = ()
    repetition: str = ""


@dataclass(frozen=True)
class CheckpointsSnapshot:
    """The figures of a job's checkpoints; see `CheckpointStatistics`."""

    counts: Mapping[str, int]
    completed: tuple[CompletedFigures, ...]
    history: tuple[CheckpointRecord, ...]
    latest: Mapping[str, CheckpointRecord]
    restored: RestoredSnapshot | None
    settings: CheckpointSettings


@dataclass(frozen=True)
class RestoredSnapshot:
    """The checkpoint that a job was restored from last."""

    checkpoint_id: int
    restored_ms: int
    is_savepoint: bool
    external_path: str


@dataclass(frozen=True)
class JobSnapshot:
    """A job.

    Attributes:
        taken_ms: When the snapshot was taken.
        timestamps: When the job entered each status.
        vertices: In topological order.
        num_restarts: How often its tasks were restarted.
        exceptions: Oldest first.
        exceptions_truncated: Whether older ones were dropped.
        configuration: Its options.
    """

    id: bytes
    name: str
    status: JobStatus
    taken_ms: int
    timestamps: Mapping[JobStatus, int]
    bounded: bool
    vertices: tuple[VertexSnapshot, ...]
    num_restarts: int
    exceptions: tuple[ExceptionSnapshot, ...]
    exceptions_truncated: bool
    checkpoints: CheckpointsSnapshot
    configuration: Mapping[str, str]

    @property
    def start_ms(self) -> int:
        """Return when it was submitted."""
        return min(self.timestamps.values())

    @property
    def end_ms(self) -> int:
        """Return when it ended; -1 before."""
        return self.timestamps[self.status] if self.status.is_globally_terminal else -1

    def vertex(self, vertex_id: bytes) -> VertexSnapshot | None:
        """Return the vertex with an id, or None."""
        return next((vertex for vertex in self.vertices if vertex.id == vertex_id), None)


@dataclass(frozen=True)
class WorkerSnapshot:
    """A registered TaskExecutor.

    Attributes:
        address: The data address for the job that it last gave a slot to; the port is 0
            before.
        allocations: The id and the job of each slot in use.
        last_heard_ms: When it last sent a heartbeat.
    """

    executor_id: str
    address: tuple[str, int]
    pid: int
    free_slots: int
    allocations: tuple[tuple[bytes, bytes], ...]
    last_heard_ms: int

    @property
    def slots(self) -> int:
        """Return the number of its slots."""
        return self.free_slots + len(self.allocations)


@dataclass(frozen=True)
class ClusterSnapshot:
    """A cluster with its workers and jobs, oldest first."""

    taken_ms: int
    workers: tuple[WorkerSnapshot, ...]
    jobs: tuple[JobSnapshot, ...]

    def job(self, job_id: bytes) -> JobSnapshot | None:
        """Return the job with an id, or None."""
        return next((job for job in self.jobs if job.id == job_id), None)


SubtaskPictures = dict[tuple[bytes, int], tuple[tuple[object, ...], SubtaskSnapshot]]
"""The last snapshot of each subtask with the state it depends on: most have not changed."""


def job_snapshot(
    graph: ExecutionGraph,
    exceptions: ExceptionHistory,
    statistics: CheckpointStatistics,
    settings: CheckpointSettings,
    known: SubtaskPictures,
    wanted: Mapping[bytes, int],
    *,
    wall_offset_ms: int,
    now_ms: int,
) -> JobSnapshot:
    """Take a snapshot of a job; only in the main thread.

    Args:
        graph: Its subtasks.
        exceptions: Its failures.
        statistics: Figures of its checkpoints.
        settings: Its checkpoint settings.
        known: Snapshots of subtasks, replaced only where something has changed.
        wanted: The parallelism of each vertex if there are enough slots.
        wall_offset_ms: The wall clock minus the clock of the state machines.
        now_ms: The time of that clock.
    """
    job = graph.job
    return JobSnapshot(
        id=job.job_id,
        name=job.name,
        status=graph.status,
        taken_ms=now_ms + wall_offset_ms,
        timestamps={
            status: at_ms + wall_offset_ms for status, at_ms in graph.status_timestamps.items()
        },
        bounded=job.bounded,
        vertices=tuple(
            _vertex(v, wanted[v.id], job, known, wall_offset_ms) for v in graph.vertices.values()
        ),
        num_restarts=graph.num_restarts,
        exceptions=tuple(
            ExceptionSnapshot(
                entry.timestamp_ms + wall_offset_ms,
                _plain(entry.failure),
                tuple((at_ms + wall_offset_ms, _plain(f)) for at_ms, f in entry.concurrent),
                entry.repetition,
            )
            for entry in exceptions.entries
        ),
        exceptions_truncated=exceptions.truncated,
        checkpoints=_checkpoints(statistics, settings),
        configuration=dict(job.configuration),
    )


def _vertex(
    vertex: ExecutionJobVertex,
    wanted_parallelism: int,
    job: JobGraph,
    known: SubtaskPictures,
    wall_offset_ms: int,
) -> VertexSnapshot:
    fixed = vertex.job_vertex
    producers = {d.id: (v.id, d.type) for v in job.vertices.values() for d in v.produced}
    return VertexSnapshot(
        id=fixed.id,
        name=fixed.name,
        parallelism=fixed.parallelism,
        max_parallelism=fixed.max_parallelism,
        slot_sharing_group=fixed.slot_sharing_group,
        wanted_parallelism=wanted_parallelism,
        operator_names=tuple(operator.name for operator in fixed.operators) or (fixed.name,),
        inputs=tuple(
            (producers[edge.dataset_id][0], edge.ship_strategy, producers[edge.dataset_id][1])
            for edge in fixed.inputs
        ),
        subtasks=tuple(_subtask(one, known, wall_offset_ms) for one in vertex.subtasks),
        operators=fixed.operators,
    )


def _subtask(
    subtask: ExecutionVertex, known: SubtaskPictures, wall_offset_ms: int
) -> SubtaskSnapshot:
    current = subtask.current
    # Times and failures change with the state, ended attempts with the number of the current one.
    depends_on = (current.attempt_id.attempt, current.state, current.slot)
    found = known.get(subtask.id)
    if found is not None and found[0] == depends_on:
        return found[1]
    picture = SubtaskSnapshot(
        subtask.subtask,
        _attempt(current, wall_offset_ms),
        tuple(_attempt(attempt, wall_offset_ms) for attempt in subtask.prior),
    )
    known[subtask.id] = (depends_on, picture)
    return picture


def _attempt(execution: Execution, wall_offset_ms: int) -> AttemptSnapshot:
    slot = execution.slot
    return AttemptSnapshot(
        attempt=execution.attempt_id.attempt,
        attempt_id=execution.attempt_id.to_bytes(),
        state=execution.state,
        timestamps={state: at + wall_offset_ms for state, at in execution.timestamps.items()},
        executor_id=None if slot is None else slot.executor_id,
        host=None if slot is None else slot.host,
        port=-1 if slot is None else slot.port,
        allocation_id=None if slot is None else slot.allocation_id,
        failure=None if execution.failure is None else _plain(execution.failure),
    )


def _plain(failure: Failure) -> Failure:
    """Return the failure without the exception itself, which belongs to the caller."""
    return replace(failure, payload=None)


def _checkpoints(
    statistics: CheckpointStatistics, settings: CheckpointSettings
) -> CheckpointsSnapshot:
    copies: dict[int, CheckpointRecord] = {}

    def copy(record: CheckpointRecord) -> CheckpointRecord:
        if id(record) not in copies:
            copies[id(record)] = replace(record, subtasks=dict(record.subtasks))
        return copies[id(record)]

    restored = statistics.latest_restored
    return CheckpointsSnapshot(
        counts=dict(statistics.counts),
        completed=tuple(statistics.completed_figures),
        history=tuple(copy(record) for record in statistics.history),
        latest={kind: copy(record) for kind, record in statistics.latest.items()},
        restored=None
        if restored is None
        else RestoredSnapshot(
            restored[0].checkpoint_id,
            restored[1],
            restored[0].properties.is_savepoint,
            restored[0].pointer,
        ),
        settings=settings,
    )
