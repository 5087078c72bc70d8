"""Counts checkpoints that failed one after the other (internals M53)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.common.checkpoint_failure_reason import CheckpointFailureReason


class CheckpointFailureManager:
    """Says when too many checkpoints in a row have failed."""

    def __init__(self, tolerable_failures: int | None) -> None:
        """Start at zero.

        Args:
            tolerable_failures: Failures in a row that the job bears; None for any number.
        """
        self._tolerable = tolerable_failures
        self._counted: set[int] = set()
        self._last_success = -1

    @property
    def continuous_failures(self) -> int:
        """Failures since the last success."""
        return len(self._counted)

    def failed(self, checkpoint_id: int, reason: CheckpointFailureReason) -> bool:
        """Count a failure, each checkpoint once; whether the job must fail because of it."""
        if self._tolerable is None or not reason.is_counted or checkpoint_id <= self._last_success:
            return False
        self._counted.add(checkpoint_id)
        if len(self._counted) <= self._tolerable:
            return False
        self._counted.clear()
        return True

    def succeeded(self, checkpoint_id: int) -> None:
        """Begin to count anew."""
        if checkpoint_id > self._last_success:
            self._last_success = checkpoint_id
            self._counted.clear()
