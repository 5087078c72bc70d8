"""Counts consecutive checkpoint failures (internals M53)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason


class CheckpointFailureManager:
    """Decides when too many checkpoints in a row have failed."""

    def __init__(self, tolerable_failures: int | None) -> None:
        """Start at zero.

        Args:
            tolerable_failures: Tolerated failures in a row; None for any number.
        """
        self._tolerable = tolerable_failures
        self._counted: set[int] = set()
        self._last_success = -1

    @property
    def continuous_failures(self) -> int:
        """Return the number of failures since the last success."""
        return len(self._counted)

    def failed(self, checkpoint_id: int, reason: CheckpointFailureReason) -> bool:
        """Count a failure, once for each checkpoint; return whether the job must fail."""
        if self._tolerable is None or not reason.is_counted or checkpoint_id <= self._last_success:
            return False
        self._counted.add(checkpoint_id)
        if len(self._counted) <= self._tolerable:
            return False
        self._counted.clear()
        return True

    def succeeded(self, checkpoint_id: int) -> None:
        """Reset the count."""
        if checkpoint_id > self._last_success:
            self._last_success = checkpoint_id
            self._counted.clear()
