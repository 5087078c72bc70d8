"""Tasks that have come to their end and wait for a checkpoint that holds it (internals M65)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.execution_graph import ExecutionGraph


class EndingTasks:
    """Remembers who waits, and for which checkpoint at the earliest."""

    def __init__(self, graph: ExecutionGraph) -> None:
        """Nobody waits.

        Args:
            graph: The job's subtasks.
        """
        self._graph = graph
        self._first_ids: dict[ExecutionAttemptID, int] = {}

    def add(self, attempt_id: ExecutionAttemptID, first_id: int) -> None:
        """An attempt waits; the checkpoint ``first_id`` and all later ones hold its end."""
        self._first_ids[attempt_id] = first_id

    def told_of(self, checkpoint_id: int) -> None:
        """Tasks are told that a checkpoint is complete, so that those that it holds go on."""
        self._first_ids = {
            attempt: first_id
            for attempt, first_id in self._first_ids.items()
            if first_id > checkpoint_id
        }

    @property
    def wanted_id(self) -> int | None:
        """The first checkpoint that lets all of them go on; None when nobody waits.

        One that was restarted meanwhile asks again when it has come to its end again.
        """
        if not self._first_ids:
            return None
        self._first_ids = {
            attempt: first_id
            for attempt, first_id in self._first_ids.items()
            if self._graph.find_attempt(attempt) is not None
        }
        return max(self._first_ids.values(), default=None)
