"""Decides which subtasks share a slot, before any slot is available.

A slot holds at most one subtask of each vertex of its slot sharing group, so a group needs as many
slots as its widest vertex has subtasks.  Within that rule a subtask joins the slot of one of its
producers, so that its data stays on one machine; co-located vertices share subtask by subtask.
"""

from __future__ import annotations

from penstock.graph.wiring import DistributionPattern
from penstock.jobmaster.scheduling.execution_graph import (
    ExecutionGraph,
    ExecutionJobVertex,
    JobError,
    SubtaskID,
)


class ExecutionSlotSharingGroup:
    """Subtasks that run in one slot.

    Attributes:
        index: Position among all groups of the job.
        name: Name of the slot sharing group.
        subtasks: Its members by vertex, in topological order.
    """

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name
        self.subtasks: dict[bytes, SubtaskID] = {}

    def __repr__(self) -> str:
        return f"ExecutionSlotSharingGroup({self.index}, {self.name!r}, {len(self.subtasks)})"


class LocalInputPreferredSlotSharingStrategy:
    """Assigns every subtask of a job to an ExecutionSlotSharingGroup.

    Raises:
        JobError: If co-located vertices differ in slot sharing group or parallelism.
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        _check_co_location(graph)
        self._graph = graph
        self.groups: list[ExecutionSlotSharingGroup] = []
        self._group_of: dict[SubtaskID, ExecutionSlotSharingGroup] = {}
        self._constraints: dict[tuple[str, int], ExecutionSlotSharingGroup] = {}
        by_name: dict[str, list[ExecutionSlotSharingGroup]] = {}
        for vertex in graph.vertices.values():
            self._assign(vertex, by_name.setdefault(vertex.job_vertex.slot_sharing_group, []))

    def group_of(self, subtask_id: SubtaskID) -> ExecutionSlotSharingGroup:
        """Return the group that a subtask runs in."""
        return self._group_of[subtask_id]

    def _assign(
        self, vertex: ExecutionJobVertex, candidates: list[ExecutionSlotSharingGroup]
    ) -> None:
        # Subtasks with a required or preferred place first, then the others into the remaining
        # slots: a subtask without a preference must not take the place of one that has it.
        remaining = []
        for index in range(vertex.parallelism):
            group = self._co_located(vertex, index) or self._with_producer(vertex, index)
            if group is None:
                remaining.append(index)
            else:
                self._put(vertex, index, group)
        position = 0
        for index in remaining:
            while position < len(candidates) and vertex.id in candidates[position].subtasks:
                position += 1
            if position == len(candidates):
                group = ExecutionSlotSharingGroup(
                    len(self.groups), vertex.job_vertex.slot_sharing_group
                )
                candidates.append(group)
                self.groups.append(group)
            self._put(vertex, index, candidates[position])

    def _co_located(
        self, vertex: ExecutionJobVertex, index: int
    ) -> ExecutionSlotSharingGroup | None:
        key = vertex.job_vertex.co_location_group
        return None if key is None else self._constraints.get((key, index))

    def _with_producer(
        self, vertex: ExecutionJobVertex, index: int
    ) -> ExecutionSlotSharingGroup | None:
        for gate, (edge, result) in enumerate(vertex.inputs):
            producer = result.producer
            if producer.job_vertex.slot_sharing_group != vertex.job_vertex.slot_sharing_group:
                continue
            if edge.distribution is DistributionPattern.POINTWISE:
                near = [partition for partition, _ in vertex.consumed(gate, index)]
            else:
                near = [index] if index < producer.parallelism else []
            for partition in near:
                group = self._group_of[producer.id, partition]
                if vertex.id not in group.subtasks:
                    return group
        return None

    def _put(
        self, vertex: ExecutionJobVertex, index: int, group: ExecutionSlotSharingGroup
    ) -> None:
        subtask_id = (vertex.id, index)
        group.subtasks[vertex.id] = subtask_id
        self._group_of[subtask_id] = group
        key = vertex.job_vertex.co_location_group
        if key is not None:
            self._constraints.setdefault((key, index), group)


def _check_co_location(graph: ExecutionGraph) -> None:
    first: dict[str, ExecutionJobVertex] = {}
    for vertex in graph.vertices.values():
        key = vertex.job_vertex.co_location_group
        if key is None:
            continue
        other = first.setdefault(key, vertex)
        if other.job_vertex.slot_sharing_group != vertex.job_vertex.slot_sharing_group:
            raise JobError(
                f"{other.job_vertex.name!r} and {vertex.job_vertex.name!r} are co-located and must "
                "be in the same slot sharing group"
            )
        if other.parallelism != vertex.parallelism:
            raise JobError(
                f"{other.job_vertex.name!r} and {vertex.job_vertex.name!r} are co-located and must "
                f"have the same parallelism, not {other.parallelism} and {vertex.parallelism}"
            )
