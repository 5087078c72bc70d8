"""PeriodicSchedule: the time of the next periodic checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.jobmaster.scheduling.states import ExecutionState

if TYPE_CHECKING:
    from random import Random

    from penstock.jobmaster.checkpointing.settings import CheckpointSettings
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph

#: Tasks that end within this time share one last checkpoint.
HURRIED_DELAY_MS: Final = 10


class PeriodicSchedule:
    """Decides when the next periodic checkpoint is due.

    Attributes:
        next_ms: The time of the next checkpoint; None while periodic checkpoints are stopped.
    """

    def __init__(self, graph: ExecutionGraph, settings: CheckpointSettings, rng: Random) -> None:
        """Create a schedule that is stopped until `tasks_changed` finds all tasks running.

        Args:
            graph: The job's subtasks.
            settings: The checkpoint settings.
            rng: Chooses the time of the first checkpoint.
        """
        self.next_ms: int | None = None
        self._graph = graph
        self._interval_ms = settings.interval_ms
        self._min_pause_ms = settings.min_pause_ms
        self._rng = rng

    def tasks_changed(self, now_ms: int, *, is_ending: bool) -> None:
        """Set the time of the first checkpoint once all tasks run; stop when a task does not.

        Args:
            now_ms: The time.
            is_ending: Whether the job ends with a savepoint, so that none is due.
        """
        if self._interval_ms is None:
            return
        running = all(
            s.state in (ExecutionState.RUNNING, ExecutionState.FINISHED)
            for s in self._graph.subtasks()
        )
        over = self._graph.all_in(ExecutionState.FINISHED)
        if not running or over or is_ending:
            self.stop()
        elif self.next_ms is None:
            least = min(self._min_pause_ms, self._interval_ms)
            self.next_ms = now_ms + self._rng.randint(least, self._interval_ms)

    def stop(self) -> None:
        """Stop periodic checkpoints until the tasks run again."""
        self.next_ms = None

    def is_due(self, now_ms: int) -> bool:
        """Return whether the next checkpoint is due."""
        return self.next_ms is not None and now_ms >= self.next_ms

    def advance(self, now_ms: int) -> None:
        """Set the time of the checkpoint after the one that is due now."""
        self.next_ms = now_ms + max(self._interval_ms or 0, self._min_pause_ms)

    def postpone(self, retry_at_ms: int) -> None:
        """Set another time for the next checkpoint, which cannot start yet."""
        if self.next_ms is not None:
            self.next_ms = retry_at_ms

    def hurry(self, now_ms: int, last_completion_ms: int | None) -> None:
        """Bring the next checkpoint forward, to the end of the pause after the last one."""
        if self.next_ms is None:
            return
        soon_ms = now_ms + HURRIED_DELAY_MS
        if last_completion_ms is not None:
            soon_ms = max(soon_ms, last_completion_ms + self._min_pause_ms)
        self.next_ms = min(self.next_ms, soon_ms)
