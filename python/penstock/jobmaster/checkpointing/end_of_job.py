"""EndOfJob: continues once the obsolete checkpoints of an ended job are deleted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.checkpoint_storage.storage import CheckpointStorage

logger = logging.getLogger(__name__)


class EndOfJob:
    """Runs a final step after all is deleted, or after a timeout; in the main thread."""

    def __init__(
        self, storage: CheckpointStorage, timeout_s: float, then: Callable[[], None]
    ) -> None:
        """Create a step that waits for `reached` or `give_up`.

        Args:
            storage: The storage that deletes, for messages.
            timeout_s: The time after which `give_up` is called, for messages.
            then: The final step, called once.
        """
        self._storage = storage
        self._timeout_s = timeout_s
        self._then = then
        self._is_reached = False

    def reached(self) -> None:
        """Run the final step: all is deleted."""
        if not self._is_reached:
            self._is_reached = True
            self._then()

    def give_up(self) -> None:
        """Run the final step without waiting any longer."""
        if not self._is_reached:
            logger.warning(
                "checkpoints in %s were not deleted within %g s", self._storage, self._timeout_s
            )
        self.reached()
