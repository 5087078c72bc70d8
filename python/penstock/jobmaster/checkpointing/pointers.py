"""Pointers by which the next driver finds checkpoints: written after the files, deleted before."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.high_availability.job_records import JobRecords

logger = logging.getLogger(__name__)


class CheckpointPointers:
    """The pointers of one job; used by the storage's thread only."""

    def __init__(self, records: JobRecords | None) -> None:
        """Create the pointers; there are none without records: no other driver resumes the job."""
        self._records = records
        self._begun: set[int] = set()

    def checkpoint_begins(self, checkpoint_id: int) -> None:
        """Record that a checkpoint got an id.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: The storage fails.
        """
        if self._records is not None:
            self._records.checkpoint_begins(checkpoint_id)

    def checkpoint_completed(self, checkpoint_id: int, location: str) -> None:
        """Publish a checkpoint to the next driver, which may find it even if this call fails.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: The storage fails.
        """
        if self._records is not None:
            self._begun.add(checkpoint_id)
            self._records.checkpoint_completed(checkpoint_id, location)

    def forget_pending(self, checkpoint_id: int) -> bool:
        """Forget an aborted checkpoint; return whether its files may be deleted."""
        return checkpoint_id not in self._begun or self.forget(checkpoint_id)

    def forget(self, checkpoint_id: int) -> bool:
        """Forget a checkpoint that is no longer needed.

        Returns:
            Whether its files may be deleted: not while another driver may find them.
        """
        if self._records is None:
            return True
        try:
            self._records.checkpoint_discarded(checkpoint_id)
        except Exception as error:
            logger.warning(
                "the files of checkpoint %d stay, as another driver may know them: %s",
                checkpoint_id,
                error,
            )
            return False
        self._begun.discard(checkpoint_id)
        return True
