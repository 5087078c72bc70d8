"""A pending checkpoint: its participants and their reports (internals M52)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata, OperatorState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.checkpoint_storage.handles import (
        CheckpointMetrics,
        OperatorSubtaskState,
        TaskStateSnapshot,
    )
    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.checkpointing.plan import CheckpointPlan, Participant
    from penstock.jobmaster.checkpointing.request_decider import CheckpointRequest
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph
    from penstock.rpc.checkpoint_messages import TaskStanding


class Stage(enum.Enum):
    """Stage of a checkpoint."""

    LOCATION = "its directory is being made"
    COORDINATORS = "the operators' coordinators are being asked"
    TASKS = "tasks are writing their state"
    METADATA = "its metadata is being written"


class Acknowledgement(enum.Enum):
    """Outcome of a task's report."""

    SUCCESS = enum.auto()
    DUPLICATE = enum.auto()
    UNKNOWN = enum.auto()


class UnionStateOfFinishedError(Exception):
    """Some subtasks of an operator with union list state had finished, others had not."""


class PendingCheckpoint:
    """Collects the reports of the tasks.

    Attributes:
        checkpoint_id: Its id.
        request: The request for it.
        plan: Its participants.
        timestamp_ms: When it was triggered, wall clock.
        started_ms: When it was triggered, by the clock of the events.
        stage: Its progress.
        location: Its directory, once created.
        coordinators: States of the operators' coordinators, by operator.
        metrics: Figures by subtask.
        written: Its content, once every task has reported.
    """

    def __init__(
        self,
        checkpoint_id: int,
        request: CheckpointRequest,
        plan: CheckpointPlan,
        timestamp_ms: int,
        started_ms: int,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.request = request
        self.plan = plan
        self.timestamp_ms = timestamp_ms
        self.started_ms = started_ms
        self.stage = Stage.LOCATION
        self.location: str | None = None
        self.coordinators: Mapping[bytes, bytes] = {}
        self.written: CheckpointMetadata | None = None
        self.metrics: dict[tuple[bytes, int], CheckpointMetrics] = {}
        #: The workers' answers about tasks that had not reported; None before they were asked.
        self.standings: dict[ExecutionAttemptID, TaskStanding] | None = None
        self._waiting: dict[ExecutionAttemptID, Participant] = {
            task.attempt_id: task for task in plan.wait_for
        }
        self._known = frozenset(self._waiting)
        self._finished = set(plan.finished)
        self._states: dict[tuple[bytes, int], TaskStateSnapshot] = {}

    @property
    def is_acknowledged(self) -> bool:
        """Return whether every task has reported."""
        return not self._waiting

    @property
    def awaited(self) -> tuple[Participant, ...]:
        """Return the tasks that have not reported."""
        return tuple(self._waiting.values())

    @property
    def num_acknowledged(self) -> int:
        """Return the number of tasks that have acknowledged."""
        return len(self._known) - len(self._waiting)

    @property
    def has_stopped_tasks(self) -> bool:
        """Return whether tasks may have stopped for it, which do not resume by themselves."""
        triggered = self.stage in (Stage.TASKS, Stage.METADATA)
        return self.request.properties.is_synchronous and triggered

    @property
    def states(self) -> tuple[TaskStateSnapshot, ...]:
        """Return the states reported so far."""
        return tuple(self._states.values())

    def takes_part(self, attempt_id: ExecutionAttemptID) -> bool:
        """Return whether an attempt must report."""
        return attempt_id in self._known

    def acknowledge(
        self,
        attempt_id: ExecutionAttemptID,
        state: TaskStateSnapshot | None,
        metrics: CheckpointMetrics,
    ) -> Acknowledgement:
        """Add a task's report; ``state`` is None if it has none."""
        task = self._waiting.pop(attempt_id, None)
        if task is None:
            known = attempt_id in self._known
            return Acknowledgement.DUPLICATE if known else Acknowledgement.UNKNOWN
        self.metrics[task.subtask] = metrics
        if state is not None:
            self._states[task.subtask] = state
        return Acknowledgement.SUCCESS

    def note_finished(self, tasks: Iterable[Participant]) -> None:
        """Include tasks that ended without knowing of the checkpoint, as finished ones."""
        for task in tasks:
            del self._waiting[task.attempt_id]
            self._finished.add(task.subtask)

    def metadata(self, graph: ExecutionGraph) -> CheckpointMetadata:
        """Return the content of the completed checkpoint.

        Raises:
            UnionStateOfFinishedError: An operator's union list state would be incomplete.
        """
        operators: dict[bytes, OperatorState] = {}
        for vertex in graph.vertices.values():
            job_vertex = vertex.job_vertex
            finished = frozenset(
                index
                for index in range(vertex.parallelism)
                if (vertex.id, index) in self._finished
                or self._reported_as_finished((vertex.id, index))
            )
            for operator in job_vertex.operators:
                subtasks: dict[int, OperatorSubtaskState] = {}
                for index in range(vertex.parallelism):
                    reported = self._states.get((vertex.id, index))
                    if reported is not None and operator.id in reported.operators:
                        subtasks[index] = reported.operators[operator.id]
                coordinator = self.coordinators.get(operator.id)
                state = OperatorState(
                    operator.id,
                    vertex.parallelism,
                    job_vertex.max_parallelism,
                    operator.name,
                    operator.uid or "",
                    subtasks,
                    finished,
                    coordinator,
                    # All subtasks run one program: their states have the same types.
                    {name: t for s in subtasks.values() for name, t in s.types.items()},
                )
                if finished and not state.is_fully_finished and _has_union_state(state):
                    raise UnionStateOfFinishedError(
                        f"{len(finished)} of {vertex.parallelism} subtasks of {operator.name!r} "
                        "have finished, and its union list state lies in those that have not"
                    )
                operators[operator.id] = state
        return CheckpointMetadata(
            self.checkpoint_id,
            self.timestamp_ms,
            operators,
            {
                "kind": self.request.properties.kind.name,
                "format": self.request.properties.savepoint_format.name,
            },
        )

    def _reported_as_finished(self, subtask: tuple[bytes, int]) -> bool:
        state = self._states.get(subtask)
        return state is not None and state.is_finished


def _has_union_state(state: OperatorState) -> bool:
    return any(
        partitionable.mode == "union"
        for subtask in state.subtasks.values()
        for handle in subtask.managed_operator
        for partitionable in handle.states.values()
    )
