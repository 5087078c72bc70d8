"""CheckpointsCleaner: deletes the files of checkpoints that nobody needs."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from penstock.checkpoint_storage.disposal import (
    discard_checkpoint_state,
    discard_streams,
    discard_task_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.checkpoint_storage.storage import CheckpointStorage
    from penstock.jobmaster.checkpointing import actions as a
    from penstock.jobmaster.checkpointing.pointers import CheckpointPointers

logger = logging.getLogger(__name__)


class CheckpointsCleaner:
    """Carries out the coordinator's deletions in the storage's thread.

    A deletion that fails is logged, and the job continues.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        pointers: CheckpointPointers,
        post: Callable[[Callable[[], object]], None],
        discarded: Callable[[], None],
        *,
        in_parallel: bool,
    ) -> None:
        """Create a cleaner.

        Args:
            storage: Stores the checkpoints.
            pointers: The pointers by which the next driver finds them.
            post: Runs a function in the storage's thread.
            discarded: Called in the storage's thread when a completed checkpoint is deleted.
            in_parallel: Whether a checkpoint's files are deleted several at a time.
        """
        self._storage = storage
        self._pointers = pointers
        self._post = post
        self._discarded = discarded
        self._in_parallel = in_parallel

    def discard_state(self, action: a.DiscardState) -> None:
        """Delete the state of a report that belongs to no pending checkpoint."""
        self._post(
            lambda: _tolerating(lambda: discard_task_state(action.state, self._storage.files))
        )

    def discard_pending(self, action: a.DiscardPending) -> None:
        """Delete the files of an aborted checkpoint."""
        files = self._storage.files

        def discard() -> None:
            if not self._pointers.forget_pending(action.checkpoint_id):
                return
            location = action.location
            # Its metadata may have been written before anybody was notified.
            if location is not None and not self._withdrawn(location):
                return
            for state in action.states:
                _tolerating(partial(discard_task_state, state, files))
            _tolerating(lambda: discard_streams(action.unused, files))
            if location is not None:
                _tolerating(lambda: self._storage.discard(location))

        self._post(discard)

    def discard_checkpoint(self, action: a.DiscardCheckpoint) -> None:
        """Delete the files of a completed checkpoint, except those that later ones refer to."""
        files = self._storage.files
        in_parallel = self._in_parallel

        def discard() -> None:
            checkpoint = action.checkpoint
            pointer = checkpoint.pointer
            if self._pointers.forget(checkpoint.checkpoint_id) and self._withdrawn(pointer):
                _tolerating(
                    lambda: discard_checkpoint_state(
                        checkpoint.metadata, files, in_parallel=in_parallel
                    )
                )
                _tolerating(lambda: discard_streams(action.unused, files, in_parallel=in_parallel))
                _tolerating(lambda: self._storage.discard(pointer))
            self._discarded()

        self._post(discard)

    def close_storage(self, retained: Collection[str]) -> None:
        """Delete the job's remaining files, except those of the checkpoints at ``retained``."""
        self._post(lambda: _tolerating(partial(self._storage.close, retained)))

    def _withdrawn(self, pointer: str) -> bool:
        """Withdraw the pointer to a checkpoint before its files are deleted.

        This driver may be killed between the two.
        """
        return _tolerating(lambda: self._storage.withdraw(pointer))


def _tolerating(delete: Callable[[], None]) -> bool:
    """Delete; if that fails, log it and return False, so that the job continues."""
    try:
        delete()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        logger.warning("a part of a checkpoint could not be deleted: %s", problem)
        return False
    return True
