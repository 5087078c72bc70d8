"""Combines the reports of a registered worker's end: a state machine without a clock.

A worker's death is seen from two sides: its connection breaks, and its host reports how its process
ended.  The first report waits for the other, so that the error of a lost worker includes both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.jobmaster.workers.resource_manager import WorkerExit

EXIT_REPORT_MS = 1000
"""Time that the two reports of a worker's end wait for each other."""


class _Waiting(NamedTuple):
    """A loss that is declared at a time, unless the other report arrives before."""

    due_ms: int
    reason: str


class WorkerLosses:
    """Decides when a worker is lost, and why; holds at most three entries per worker."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._exits: dict[str, WorkerExit] = {}
        self._waiting: dict[str, _Waiting] = {}

    def disconnected(self, executor_id: str, reason: str, now_ms: int) -> bool:
        """Note that a worker's connection broke.

        Returns:
            Whether it is lost now.
        """
        self._reasons.setdefault(executor_id, reason)
        if executor_id in self._exits:
            return True
        self._wait(executor_id, reason, now_ms)
        return False

    def exited(self, end: WorkerExit, now_ms: int) -> bool:
        """Note that a worker's process ended; messages of it may still arrive.

        Returns:
            Whether it is lost now.
        """
        self._exits[end.executor_id] = end
        if end.executor_id in self._reasons:
            return True
        self._wait(end.executor_id, "its process ended", now_ms)
        return False

    def explained(self, executor_id: str, reason: str | None = None) -> str:
        """Forget a lost worker.

        Args:
            executor_id: The worker.
            reason: The cause, if no better one is known.

        Returns:
            The cause, with the report of its process.
        """
        end = self._exits.pop(executor_id, None)
        waiting = self._waiting.pop(executor_id, None)
        known = self._reasons.pop(executor_id, None)
        why = known or reason or (waiting.reason if waiting is not None else "unknown")
        return why if end is None else f"{why}; {end}"

    def next_deadline_ms(self) -> int | None:
        """Return when to call `tick`; None if no loss waits."""
        return min((waiting.due_ms for waiting in self._waiting.values()), default=None)

    def tick(self, now_ms: int) -> list[str]:
        """Return the workers whose losses have waited long enough."""
        return [worker for worker, (due_ms, _) in self._waiting.items() if due_ms <= now_ms]

    def _wait(self, executor_id: str, reason: str, now_ms: int) -> None:
        self._waiting.setdefault(executor_id, _Waiting(now_ms + EXIT_REPORT_MS, reason))
