"""EndOfJob: a job has ended, and goes on once what is to go of its checkpoints is deleted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.checkpoint_storage.storage import CheckpointStorage

logger = logging.getLogger(__name__)


class EndOfJob:
    """Final step after all is deleted, or after a timeout; in the main thread."""

    def __init__(
        self, storage: CheckpointStorage, timeout_s: float, then: Callable[[], None]
    ) -> None:
        """Wait.

        Args:
            storage: What is deleted from, for messages.
            timeout_s: After how long `give_up` is called, for messages.
            then: Follows, once.
        """
        self._storage = storage
        self._timeout_s = timeout_s
        self._then = then
        self._is_reached = False

    def reached(self) -> None:
        """All is deleted."""
        if not self._is_reached:
            self._is_reached = True
            self._then()

    def give_up(self) -> None:
        """Stop waiting for it."""
        if not self._is_reached:
            logger.warning(
                "checkpoints in %s were not deleted within %g s", self._storage, self._timeout_s
            )
        self.reached()
