"""Which subtasks must restart when one has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.jobmaster.states import ExecutionState

if TYPE_CHECKING:
    from penstock.jobmaster.execution import ExecutionVertex
    from penstock.jobmaster.execution_graph import ExecutionGraph, SubtaskID
    from penstock.jobmaster.failure import Failure
    from penstock.jobmaster.regions import PipelinedRegion, PipelinedRegions


class FailoverStrategy(Protocol):
    """Chooses the subtasks to restart."""

    def tasks_to_restart(self, failed: ExecutionVertex, failure: Failure) -> frozenset[SubtaskID]:
        """Returns the subtasks that must restart because of a failure of one."""


class RestartAllFailoverStrategy:
    """Restarts the whole job."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph

    def tasks_to_restart(self, failed: ExecutionVertex, failure: Failure) -> frozenset[SubtaskID]:
        """Returns all subtasks that have been scheduled."""
        del failed, failure
        return frozenset(
            subtask.id
            for subtask in self._graph.subtasks()
            if subtask.state is not ExecutionState.CREATED
        )


class RestartPipelinedRegionFailoverStrategy:
    """Restarts the failed region, what it reads if that is gone, and all that read from these.

    A region that only waits for its data keeps waiting; a producer region restarts only when what
    it wrote cannot be read again.
    """

    def __init__(self, graph: ExecutionGraph, regions: PipelinedRegions) -> None:
        self._graph = graph
        self._regions = regions

    def tasks_to_restart(self, failed: ExecutionVertex, failure: Failure) -> frozenset[SubtaskID]:
        """Returns the subtasks of all regions that must restart."""
        chosen: set[PipelinedRegion] = set()
        queue = [self._regions.of(failed.id)]
        while queue:
            region = queue.pop()
            if region in chosen:
                continue
            chosen.add(region)
            for subtask_id in region.subtasks:
                subtask = self._graph.subtask(subtask_id)
                queue.extend(self._producers_to_restart(subtask, region, failure))
                queue.extend(
                    self._regions.of(consumer.id)
                    for consumer in self._graph.blocking_consumers(subtask)
                )
        # A subtask that has not been scheduled yet has nothing to undo.
        return frozenset(
            id_
            for region in chosen
            for id_ in region.subtasks
            if self._graph.subtask(id_).state is not ExecutionState.CREATED
        )

    def _producers_to_restart(
        self, subtask: ExecutionVertex, region: PipelinedRegion, failure: Failure
    ) -> list[PipelinedRegion]:
        lost = []
        inputs = self._graph.vertices[subtask.job_vertex.id].inputs
        for producer, gate in self._graph.blocking_inputs(subtask):
            other = self._regions.of(producer.id)
            if other is region:
                continue
            partition_id = inputs[gate][1].partition_id(producer.subtask)
            available = (
                producer.state is ExecutionState.FINISHED
                and partition_id not in failure.missing_partitions
            )
            if not available and producer.state is not ExecutionState.CREATED:
                lost.append(other)
        return lost
