"""Tasks that have ended and wait for a checkpoint that includes their end (internals M65)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph


class EndingTasks:
    """Stores the waiting tasks, each with the first checkpoint that includes its end."""

    def __init__(self, graph: ExecutionGraph) -> None:
        """Create an empty set.

        Args:
            graph: The job's subtasks.
        """
        self._graph = graph
        self._first_ids: dict[ExecutionAttemptID, int] = {}

    def add(self, attempt_id: ExecutionAttemptID, first_id: int) -> None:
        """Add an attempt whose end the checkpoint ``first_id`` and all later ones include."""
        self._first_ids[attempt_id] = first_id

    def told_of(self, checkpoint_id: int) -> None:
        """Remove the tasks that a completed checkpoint includes: they were notified."""
        self._first_ids = {
            attempt: first_id
            for attempt, first_id in self._first_ids.items()
            if first_id > checkpoint_id
        }

    @property
    def wanted_id(self) -> int | None:
        """Return the first checkpoint that releases all of them; None if no task waits.

        A task that was restarted meanwhile asks again when it has ended again.
        """
        if not self._first_ids:
            return None
        self._first_ids = {
            attempt: first_id
            for attempt, first_id in self._first_ids.items()
            if self._graph.find_attempt(attempt) is not None
        }
        return max(self._first_ids.values(), default=None)
