"""Pipelined regions: the subtasks that can only run together.

Two subtasks joined by a pipelined edge run at the same time and fail together; a blocking edge
separates regions.  A streaming job has one region per connected component.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.graph.wiring import DistributionPattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.jobmaster.scheduling.execution_graph import (
        ExecutionGraph,
        IntermediateResult,
        SubtaskID,
    )


class PipelinedRegion:
    """One region.

    Attributes:
        index: Position in topological order of the regions' first subtasks.
        subtasks: Its members in topological order.
    """

    def __init__(self, index: int, subtasks: tuple[SubtaskID, ...]) -> None:
        self.index = index
        self.subtasks = subtasks
        self.members = frozenset(subtasks)

    def __repr__(self) -> str:
        return f"PipelinedRegion({self.index}, {len(self.subtasks)} subtasks)"


class PipelinedRegions:
    """The regions of one ExecutionGraph."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._parent: dict[SubtaskID, SubtaskID] = {s.id: s.id for s in graph.subtasks()}
        for result in graph.results.values():
            if not result.is_blocking:
                self._join(result)
        members: dict[SubtaskID, list[SubtaskID]] = {}
        for subtask in graph.subtasks():
            members.setdefault(self._find(subtask.id), []).append(subtask.id)
        self.regions = tuple(
            PipelinedRegion(i, tuple(ids)) for i, ids in enumerate(members.values())
        )
        self._region_of = {id_: region for region in self.regions for id_ in region.subtasks}

    def of(self, subtask_id: SubtaskID) -> PipelinedRegion:
        """Return the region of a subtask."""
        return self._region_of[subtask_id]

    def covering(self, subtask_ids: Iterable[SubtaskID]) -> list[PipelinedRegion]:
        """Return the regions that hold any of the subtasks, in order."""
        found = {self._region_of[id_] for id_ in subtask_ids}
        return sorted(found, key=lambda region: region.index)

    def _join(self, result: IntermediateResult) -> None:
        producers = result.producer.subtasks
        if result.consumer is None or result.edge is None:
            return
        consumers = result.consumer.subtasks
        if result.edge.distribution is DistributionPattern.ALL_TO_ALL:
            # Every producer joins every consumer: one link for each is enough, not their product.
            for producer in producers:
                self._union(producers[0].id, producer.id)
            for consumer in consumers:
                self._union(producers[0].id, consumer.id)
            return
        for producer in producers:
            for index in result.consumers_of_partition(producer.subtask):
                self._union(producer.id, consumers[index].id)

    def _find(self, id_: SubtaskID) -> SubtaskID:
        root = id_
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[id_] != root:
            self._parent[id_], id_ = root, self._parent[id_]
        return root

    def _union(self, a: SubtaskID, b: SubtaskID) -> None:
        first, second = self._find(a), self._find(b)
        if first != second:
            self._parent[second] = first
