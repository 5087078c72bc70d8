"""Tracks which blocking partitions can be read, and where they are.

A blocking partition outlives the task that wrote it: it is a file at its TaskExecutor, until all
consumers have finished, its producer restarts, or the TaskExecutor is lost.  Pipelined exchanges
are not tracked.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from penstock.graph.wiring import DistributionPattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.jobmaster.scheduling.execution import ExecutionVertex
    from penstock.jobmaster.scheduling.execution_graph import (
        ExecutionGraph,
        IntermediateResult,
        SubtaskID,
    )
    from penstock.jobmaster.scheduling.regions import PipelinedRegion

Released = dict[str, tuple[bytes, ...]]
"""Partitions that will not be read again, by the TaskExecutor that has them."""


class PartitionTracker:
    """The finished blocking partitions of one ExecutionGraph.

    Args:
        graph: The job.
        release_early: Whether fully consumed partitions may be released before the job ends.
    """

    def __init__(self, graph: ExecutionGraph, *, release_early: bool = True) -> None:
        self._graph = graph
        self._release_early = release_early
        #: Data set → partition → TaskExecutor.
        self._held: dict[bytes, dict[int, str]] = {
            result.dataset_id: {} for result in graph.results.values() if result.is_blocking
        }
        #: Data set → consumers that have finished; counted, as all are asked for at each end.
        self._finished_consumers: dict[bytes, set[int]] = {id_: set() for id_ in self._held}

    def is_available(self, result: IntermediateResult, partition: int) -> bool:
        """Return whether a blocking partition can be read."""
        return partition in self._held[result.dataset_id]

    def holder(self, result: IntermediateResult, partition: int) -> str | None:
        """Return the TaskExecutor that has a blocking partition; None if it cannot be read."""
        return self._held[result.dataset_id].get(partition)

    def unavailable(self, result: IntermediateResult, consumer: int) -> Iterator[ExecutionVertex]:
        """Yield the producers of the partitions that a consumer needs and cannot read now."""
        held, producers = self._held[result.dataset_id], result.producer.subtasks
        if len(held) == len(producers):
            return
        for partition in result.partitions_of_consumer(consumer):
            if partition not in held:
                yield producers[partition]

    def can_start(self, subtask: ExecutionVertex, region: PipelinedRegion) -> bool:
        """Return whether all inputs of a subtask are available, or come from its own region."""
        return all(
            producer.id in region.members
            for _, result in self._graph.vertices[subtask.job_vertex.id].inputs
            if result.is_blocking
            for producer in self.unavailable(result, subtask.subtask)
        )

    def consumers_to_start(self, subtask: ExecutionVertex) -> list[SubtaskID]:
        """Return the consumers that may have waited for a finished subtask."""
        return [
            result.consumer.subtasks[index].id
            for result in self._graph.vertices[subtask.job_vertex.id].results
            if result.is_blocking and result.consumer is not None and self._may_be_read(result)
            for index in result.consumers_of_partition(subtask.subtask)
        ]

    def finished(self, subtask: ExecutionVertex) -> Released:
        """Mark a finished subtask's partitions as readable.

        Returns:
            The partitions to release, of which it was the last consumer.
        """
        vertex = self._graph.vertices[subtask.job_vertex.id]
        slot = subtask.current.slot
        for result in vertex.results:
            if result.is_blocking and slot is not None:
                self._held[result.dataset_id][subtask.subtask] = slot.executor_id
        consumed: list[tuple[IntermediateResult, int]] = []
        for _, result in vertex.inputs:
            if result.is_blocking:
                self._finished_consumers[result.dataset_id].add(subtask.subtask)
                consumed += self._done_with(result, subtask.subtask)
        return self._forget(consumed) if self._release_early else {}

    def finished_in_vain(self, subtask: ExecutionVertex) -> Released:
        """Release the partitions of a subtask that finished while it was being cancelled."""
        slot = subtask.current.slot
        written = tuple(
            result.partition_id(subtask.subtask)
            for result in self._graph.vertices[subtask.job_vertex.id].results
            if result.is_blocking
        )
        return {slot.executor_id: written} if slot is not None and written else {}

    def restarting(self, subtasks: Iterable[ExecutionVertex]) -> Released:
        """Drop the partitions of subtasks that will restart.

        Returns:
            The partitions to release.
        """
        if not self._held:
            return {}
        written = []
        for subtask in subtasks:
            vertex = self._graph.vertices[subtask.job_vertex.id]
            written += [(r, subtask.subtask) for r in vertex.results if r.is_blocking]
            for _, result in vertex.inputs:
                if result.is_blocking:
                    self._finished_consumers[result.dataset_id].discard(subtask.subtask)
        return self._forget(written)

    def executor_lost(self, executor_id: str) -> list[ExecutionVertex]:
        """Drop the partitions of a lost TaskExecutor.

        Returns:
            The producers of those that are still needed.
        """
        missing = {}
        for dataset_id, held in self._held.items():
            result = self._graph.results[dataset_id]
            for partition in [p for p, executor in held.items() if executor == executor_id]:
                del held[partition]
                if not self._is_consumed(result, partition):
                    producer = result.producer.subtasks[partition]
                    missing[producer.id] = producer
        return list(missing.values())

    def job_ended(self) -> Released:
        """Drop and return all partitions: the job has ended."""
        return self._forget(
            [
                (self._graph.results[dataset_id], partition)
                for dataset_id, held in self._held.items()
                for partition in held
            ]
        )

    def _may_be_read(self, result: IntermediateResult) -> bool:
        """Return whether any consumer may find all of its partitions."""
        return not _is_all_to_all(result) or len(self._held[result.dataset_id]) == len(
            result.producer.subtasks
        )

    def _done_with(
        self, result: IntermediateResult, consumer: int
    ) -> list[tuple[IntermediateResult, int]]:
        """Return the partitions of which this consumer was the last reader."""
        if _is_all_to_all(result) and not self._is_consumed(result, 0):
            return []
        return [
            (result, partition)
            for partition in result.partitions_of_consumer(consumer)
            if self._is_consumed(result, partition)
        ]

    def _is_consumed(self, result: IntermediateResult, partition: int) -> bool:
        finished = self._finished_consumers[result.dataset_id]
        consumers = result.consumers_of_partition(partition)
        if _is_all_to_all(result):
            return len(finished) == len(consumers)
        return finished.issuperset(consumers)

    def _forget(self, partitions: Iterable[tuple[IntermediateResult, int]]) -> Released:
        released: dict[str, list[bytes]] = defaultdict(list)
        for result, partition in partitions:
            executor_id = self._held[result.dataset_id].pop(partition, None)
            if executor_id is not None:
                released[executor_id].append(result.partition_id(partition))
        return {executor_id: tuple(ids) for executor_id, ids in released.items()}


def _is_all_to_all(result: IntermediateResult) -> bool:
    return result.edge is not None and result.edge.distribution is DistributionPattern.ALL_TO_ALL
