"""Strategies that choose the subtasks to restart after a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from penstock.graph.wiring import DistributionPattern
from penstock.jobmaster.scheduling.states import ExecutionState

if TYPE_CHECKING:
    from penstock.jobmaster.scheduling.execution import ExecutionVertex
    from penstock.jobmaster.scheduling.execution_graph import (
        ExecutionGraph,
        IntermediateResult,
        SubtaskID,
    )
    from penstock.jobmaster.scheduling.failure import Failure
    from penstock.jobmaster.scheduling.partition_tracker import PartitionTracker
    from penstock.jobmaster.scheduling.regions import PipelinedRegion, PipelinedRegions

_NOT_FOUND: Final = "penstock.errors.PartitionNotFoundError"


class FailoverStrategy(Protocol):
    """Chooses the subtasks to restart."""

    def tasks_to_restart(self, failed: ExecutionVertex, failure: Failure) -> frozenset[SubtaskID]:
        """Return the subtasks that must restart because of one subtask's failure."""


class RestartAllFailoverStrategy:
    """Restarts the whole job."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph

    def tasks_to_restart(self, failed: ExecutionVertex, failure: Failure) -> frozenset[SubtaskID]:
        """Return all subtasks that have been scheduled."""
        del failed, failure
        return frozenset(
            subtask.id
            for subtask in self._graph.subtasks()
            if subtask.state is not ExecutionState.CREATED
        )


class RestartPipelinedRegionFailoverStrategy:
    """Restarts the failed region, lost inputs of it, and all consumers of these.

    A region that only waits for its data keeps waiting; a producer region restarts only if its
    output cannot be read again.
    """

    def __init__(
        self, graph: ExecutionGraph, regions: PipelinedRegions, partitions: PartitionTracker
    ) -> None:
        self._graph = graph
        self._regions = regions
        self._partitions = partitions

    def tasks_to_restart(self, failed: ExecutionVertex, failure: Failure) -> frozenset[SubtaskID]:
        """Return the subtasks of all regions that must restart."""
        missing = self._missing(failed, failure)
        chosen: set[PipelinedRegion] = set()
        # All subtasks of a vertex share these neighbours, so one of them is checked.
        seen: set[tuple[bytes, bool]] = set()
        queue = [self._regions.of(failed.id)]
        while queue:
            region = queue.pop()
            if region in chosen:
                continue
            chosen.add(region)
            for subtask_id in region.subtasks:
                subtask = self._graph.subtask(subtask_id)
                vertex = self._graph.vertices[subtask_id[0]]
                for _, result in vertex.inputs:
                    if result.is_blocking and self._is_new(result, seen, is_input=True):
                        queue += self._producers_to_restart(result, subtask, missing)
                for result in vertex.results:
                    if result.is_blocking and self._is_new(result, seen, is_input=False):
                        queue += self._consumers(result, subtask)
        # A subtask that has not been scheduled yet has nothing to undo.
        return frozenset(
            id_
            for region in chosen
            for id_ in region.subtasks
            if self._graph.subtask(id_).state is not ExecutionState.CREATED
        )

    def _missing(self, failed: ExecutionVertex, failure: Failure) -> frozenset[bytes]:
        """Return the results that a subtask reads from files and did not find, as far as known.

        A TaskExecutor that has lost one file has lost others: without this, each would be found
        only after another restart.
        """
        if failure.exception_name != _NOT_FOUND and not failure.missing_partitions:
            return frozenset()
        holders = {
            result.partition_id(partition): self._partitions.holder(result, partition)
            for _, result in self._graph.vertices[failed.job_vertex.id].inputs
            if result.is_blocking
            for partition in result.partitions_of_consumer(failed.subtask)
        }
        suspects = {holders.get(partition_id) for partition_id in failure.missing_partitions}
        return frozenset(
            partition_id
            for partition_id, holder in holders.items()
            if not suspects or holder in suspects
        )

    def _is_new(
        self, result: IntermediateResult, seen: set[tuple[bytes, bool]], *, is_input: bool
    ) -> bool:
        edge = result.edge
        if edge is None or edge.distribution is not DistributionPattern.ALL_TO_ALL:
            return True
        key = (result.dataset_id, is_input)
        is_new = key not in seen
        seen.add(key)
        return is_new

    def _consumers(
        self, result: IntermediateResult, producer: ExecutionVertex
    ) -> list[PipelinedRegion]:
        if result.consumer is None:
            return []
        return [
            self._regions.of(result.consumer.subtasks[index].id)
            for index in result.consumers_of_partition(producer.subtask)
        ]

    def _producers_to_restart(
        self, result: IntermediateResult, subtask: ExecutionVertex, missing: frozenset[bytes]
    ) -> list[PipelinedRegion]:
        lost = self._partitions.unavailable(result, subtask.subtask)
        gone = [p for p in lost if p.state is not ExecutionState.CREATED]
        if missing:
            gone += [
                result.producer.subtasks[partition]
                for partition in result.partitions_of_consumer(subtask.subtask)
                if result.partition_id(partition) in missing
            ]
        return [self._regions.of(producer.id) for producer in gone]
