"""The coordinators of all sources of a job."""

from __future__ import annotations

import pickle
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.graph.ids import ExecutionAttemptID
from penstock.jobmaster.sources.source_coordinator import Reader, SourceCoordinator
from penstock.jobmaster.sources.watermark_alignment import AlignmentGroups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from penstock.graph.job_graph import JobGraph
    from penstock.graph.operators import SourceDescriptor
    from penstock.jobmaster.workers.resource_manager import TaskExecutorGateway
    from penstock.rpc import messages


class SourceCoordinators:
    """Passes readers' messages to their coordinators, and notifies coordinators of restarts."""

    def __init__(self, job_graph: JobGraph, fail: Callable[[BaseException], None]) -> None:
        """Create the coordinators that the job's vertices require.

        Args:
            job_graph: The job.
            fail: Fails the job, which may restart; called from threads of the coordinators.
        """
        self._job_graph = job_graph
        self._vertex_of: dict[bytes, bytes] = {}
        self._enumerating: dict[bytes, SourceCoordinator] = {}
        self._alignment = AlignmentGroups()
        self._operators: dict[bytes, list[bytes]] = {}
        for vertex in job_graph.vertices.values():
            for operator_id, code in vertex.coordinators:
                # The driver created these bytes itself, when it built the job.
                descriptor: SourceDescriptor = pickle.loads(code)
                self._operators.setdefault(vertex.id, []).append(operator_id)
                self._vertex_of[operator_id] = vertex.id
                if descriptor.enumerating is not None:
                    self._enumerating[operator_id] = SourceCoordinator(
                        job_graph.job_id,
                        operator_id,
                        descriptor.enumerating,
                        vertex.parallelism,
                        fail,
                    )
                strategy = descriptor.watermark_strategy
                alignment = None if strategy is None else strategy.alignment
                if alignment is not None:
                    self._alignment.add(operator_id, alignment.group, alignment.max_drift_ms)

    def start(self, states: Mapping[bytes, bytes] = MappingProxyType({})) -> None:
        """Start the enumerators.

        Args:
            states: Their initial states, by operator.
        """
        for operator_id, coordinator in self._enumerating.items():
            coordinator.start(states.get(operator_id))

    def received(self, executor: TaskExecutorGateway, message: messages.ToEnumerator) -> None:
        """Pass a reader's message to its source's coordinator."""
        coordinator = self._enumerating.get(message.operator_id)
        if coordinator is not None:
            coordinator.received(*_reader(executor, message.attempt_id), message)

    def watermark_reported(
        self, executor: TaskExecutorGateway, message: messages.ReportedWatermark
    ) -> None:
        """Pass a reader's watermark to the alignment."""
        subtask, reader = _reader(executor, message.attempt_id)
        self._alignment.reported(message.operator_id, subtask, reader, message.watermark)

    def checkpoint(self, checkpoint_id: int) -> dict[bytes, Future[bytes]]:
        """Snapshot the states of the enumerators, by operator; before those of the sources."""
        return {
            operator_id: coordinator.checkpoint(checkpoint_id)
            for operator_id, coordinator in self._enumerating.items()
        }

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the coordinators that a checkpoint and all earlier ones are complete."""
        for coordinator in self._enumerating.values():
            coordinator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the coordinators that a checkpoint is aborted."""
        for coordinator in self._enumerating.values():
            coordinator.notify_checkpoint_aborted(checkpoint_id)

    def subtasks_reset(
        self, subtasks: Iterable[tuple[bytes, int]], checkpoint_id: int | None = None
    ) -> None:
        """Reset subtasks (JobVertexID, index) before their new attempts start.

        Args:
            subtasks: The subtasks.
            checkpoint_id: The checkpoint that they start from; None for none.
        """
        for vertex_id, subtask in sorted(subtasks):
            for operator_id in self._operators.get(vertex_id, ()):
                self._alignment.forget(operator_id, subtask)
                if operator_id in self._enumerating:
                    self._enumerating[operator_id].subtask_reset(subtask, checkpoint_id)

    def reset(self, states: Mapping[bytes, bytes] = MappingProxyType({})) -> None:
        """Replace all enumerators before the whole job restarts.

        The parallelisms may have changed.

        Args:
            states: The enumerators' states in the checkpoint that the job starts from, by operator.
        """
        self._alignment.reset()
        for operator_id, coordinator in self._enumerating.items():
            parallelism = self._job_graph.vertices[self._vertex_of[operator_id]].parallelism
            coordinator.reset(states.get(operator_id), parallelism)

    def close(self) -> None:
        """Close the coordinators of a job that has ended; return at once."""
        for coordinator in self._enumerating.values():
            coordinator.close()


def _reader(executor: TaskExecutorGateway, attempt_id: bytes) -> tuple[int, Reader]:
    """Return the subtask of an attempt, and its reader on the executor that sent a message."""
    subtask = ExecutionAttemptID.from_bytes(attempt_id).subtask
    return subtask, Reader(attempt_id, executor.address[0], executor.connection.send)
