"""By which the next driver finds checkpoints: they come after the files, and go before them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.high_availability.job_records import JobRecords

logger = logging.getLogger(__name__)


class CheckpointPointers:
    """The pointers of one job; in the thread of the storage alone."""

    def __init__(self, records: JobRecords | None) -> None:
        """Has no pointers without records: then no other driver takes the job up."""
        self._records = records
        self._begun: set[int] = set()

    def checkpoint_begins(self, checkpoint_id: int) -> None:
        """A checkpoint gets an id.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: The storage fails.
        """
        if self._records is not None:
            self._records.checkpoint_begins(checkpoint_id)

    def checkpoint_completed(self, checkpoint_id: int, location: str) -> None:
        """The next driver may find the checkpoint from now on, also if this fails.

        Raises:
            LeadershipLostError: Another driver leads.
            OSError: The storage fails.
        """
        if self._records is not None:
            self._begun.add(checkpoint_id)
            self._records.checkpoint_completed(checkpoint_id, location)

    def forget_pending(self, checkpoint_id: int) -> bool:
        """A checkpoint comes to nothing; returns whether its files may go."""
        return checkpoint_id not in self._begun or self.forget(checkpoint_id)

    def forget(self, checkpoint_id: int) -> bool:
        """Nobody needs a checkpoint any more.

        Returns:
            Whether its files may go: not while another driver may find them.
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
