"""Participants of a checkpoint: tasks that are triggered, acknowledge and are notified (M65)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason
from penstock.graph.job_graph import BLOCKING
from penstock.graph.wiring import DistributionPattern
from penstock.jobmaster.scheduling.states import ExecutionState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.scheduling.execution import ExecutionVertex
    from penstock.jobmaster.scheduling.execution_graph import (
        ExecutionGraph,
        ExecutionJobVertex,
        SubtaskID,
    )


class Participant(NamedTuple):
    """One attempt and where it runs."""

    subtask: SubtaskID
    attempt_id: ExecutionAttemptID
    executor_id: str


@dataclass(frozen=True)
class CheckpointPlan:
    """Participants of a checkpoint.

    Attributes:
        trigger: Tasks to trigger: sources, and tasks all of whose producers have ended.
        wait_for: Tasks that report their state; they are also notified of completion.
        finished: Subtasks that had already finished.
    """

    trigger: tuple[Participant, ...]
    wait_for: tuple[Participant, ...]
    finished: frozenset[SubtaskID] = frozenset()


class NotPossibleError(Exception):
    """Raised when no checkpoint can be taken now."""

    def __init__(self, reason: CheckpointFailureReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def plan_checkpoint(graph: ExecutionGraph, *, after_tasks_finish: bool) -> CheckpointPlan:
    """Return the plan for a checkpoint of the job in its present state.

    Args:
        graph: The job's subtasks.
        after_tasks_finish: Whether a checkpoint may be taken when some tasks have finished.

    Raises:
        NotPossibleError: A task that would take part does not run.
    """
    if any(result.type == BLOCKING for result in graph.results.values()):
        raise NotPossibleError(CheckpointFailureReason.BLOCKING_OUTPUT_EXIST, graph.job.name)
    trigger: list[Participant] = []
    wait_for: list[Participant] = []
    finished: set[SubtaskID] = set()
    for subtask in graph.subtasks():
        if subtask.state is ExecutionState.FINISHED:
            finished.add(subtask.id)
            if not after_tasks_finish:
                raise _not_running(subtask)
            continue
        slot = subtask.current.slot
        if subtask.state is not ExecutionState.RUNNING or slot is None:
            raise _not_running(subtask)
        participant = Participant(subtask.id, subtask.current.attempt_id, slot.executor_id)
        wait_for.append(participant)
        if not _has_running_producer(graph.vertices[subtask.id[0]], subtask.subtask):
            trigger.append(participant)
    return CheckpointPlan(tuple(trigger), tuple(wait_for), frozenset(finished))


def _has_running_producer(vertex: ExecutionJobVertex, subtask: int) -> bool:
    """Return whether the subtask will receive a barrier from upstream."""
    return any(
        producer.state is not ExecutionState.FINISHED for producer in producers_of(vertex, subtask)
    )


def producers_of(vertex: ExecutionJobVertex, subtask: int) -> Iterator[ExecutionVertex]:
    """Yield the subtasks that a subtask reads from."""
    for index, (edge, result) in enumerate(vertex.inputs):
        producers = result.producer.subtasks
        if edge.distribution is DistributionPattern.POINTWISE:
            producers = [producers[c.partition] for c in vertex.consumed(index, subtask)]
        yield from producers


def _not_running(subtask: ExecutionVertex) -> NotPossibleError:
    return NotPossibleError(
        CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING,
        f"{subtask.task_name} is {subtask.state.name}",
    )
