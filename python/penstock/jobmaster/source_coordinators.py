"""The coordinators of all sources of a job."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from penstock.graph.ids import ExecutionAttemptID
from penstock.jobmaster.source_coordinator import Reader, SourceCoordinator
from penstock.jobmaster.watermark_alignment import AlignmentGroups
from penstock.rpc import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.graph.job_graph import JobGraph
    from penstock.graph.operators import OperatorDescriptor
    from penstock.jobmaster.resource_manager import TaskExecutorGateway


class SourceCoordinators:
    """Brings messages of readers to their coordinators, and tells these of restarts."""

    def __init__(self, job_graph: JobGraph, fail: Callable[[BaseException], None]) -> None:
        """Makes the coordinators that the job's vertices ask for.

        Args:
            job_graph: The job.
            fail: Fails the job, which may restart; called from threads of the coordinators.
        """
        self._enumerating: dict[bytes, SourceCoordinator] = {}
        self._alignment = AlignmentGroups()
        self._operators: dict[bytes, list[bytes]] = {}
        for vertex in job_graph.vertices.values():
            for operator_id, code in vertex.coordinators:
                # The driver made these bytes itself, when it built the job.
                descriptor: OperatorDescriptor = pickle.loads(code)
                self._operators.setdefault(vertex.id, []).append(operator_id)
                if descriptor.kind == "split_source":
                    self._enumerating[operator_id] = SourceCoordinator(
                        job_graph.job_id,
                        operator_id,
                        descriptor.function,
                        vertex.parallelism,
                        fail,
                    )
                strategy = descriptor.arguments.get("watermark_strategy")
                alignment = getattr(strategy, "alignment", None)
                if alignment is not None:
                    self._alignment.add(operator_id, alignment.group, alignment.max_drift_ms)

    def start(self) -> None:
        """Starts the enumerators."""
        for coordinator in self._enumerating.values():
            coordinator.start()

    def received(self, executor: TaskExecutorGateway, message: messages.ToCoordinator) -> None:
        """A reader sent a message."""
        attempt = ExecutionAttemptID.from_bytes(message.attempt_id)
        reader = Reader(message.attempt_id, executor.host, executor.connection.send)
        if isinstance(message, messages.ReportedWatermark):
            self._alignment.reported(
                message.operator_id, attempt.subtask, reader, message.watermark
            )
            return
        coordinator = self._enumerating.get(message.operator_id)
        if coordinator is not None:
            coordinator.received(attempt.subtask, reader, message)

    def subtasks_reset(self, subtasks: Iterable[tuple[bytes, int]]) -> None:
        """New attempts of these subtasks (JobVertexID, index) are about to start."""
        for vertex_id, subtask in sorted(subtasks):
            for operator_id in self._operators.get(vertex_id, ()):
                self._alignment.forget(operator_id, subtask)
                if operator_id in self._enumerating:
                    self._enumerating[operator_id].subtask_reset(subtask)

    def reset(self, subtasks: Iterable[tuple[bytes, int]]) -> None:
        """All of the job is about to start anew: these subtasks, with new enumerators."""
        for vertex_id, subtask in subtasks:
            for operator_id in self._operators.get(vertex_id, ()):
                self._alignment.forget(operator_id, subtask)
        for coordinator in self._enumerating.values():
            coordinator.reset()

    def close(self) -> None:
        """The job has ended; returns at once."""
        for coordinator in self._enumerating.values():
            coordinator.close()
