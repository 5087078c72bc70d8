"""The completed checkpoints that a job retains (internals M62)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.jobmaster.checkpointing.shared_state_registry import SharedStateRegistry

if TYPE_CHECKING:
    from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata
    from penstock.jobmaster.checkpointing.properties import CheckpointProperties
    from penstock.jobmaster.scheduling.states import JobStatus


@dataclass(frozen=True)
class CompletedCheckpoint:
    """A checkpoint that can be restored.

    Attributes:
        metadata: Its content.
        properties: Its kind, and when it is discarded.
        pointer: Path or URL from which it can be restored.
        completed_ms: When it was complete, wall clock.
        is_unclaimed: Whether the job started from it and leaves its files to their owner.
    """

    metadata: CheckpointMetadata
    properties: CheckpointProperties
    pointer: str
    completed_ms: int
    is_unclaimed: bool = False

    @property
    def checkpoint_id(self) -> int:
        """Return its id."""
        return self.metadata.checkpoint_id

    def is_discarded_at(self, status: JobStatus) -> bool:
        """Return whether it is deleted when the job ends with this status."""
        return {
            "FINISHED": self.properties.discard_finished,
            "CANCELED": self.properties.discard_cancelled,
            "FAILED": self.properties.discard_failed,
            "SUSPENDED": self.properties.discard_suspended,
        }[status.name]


class CompletedCheckpointStore:
    """Retains the newest checkpoints, in the order in which they were completed.

    Attributes:
        shared: The files that several of them use.
    """

    def __init__(self, num_retained: int) -> None:
        """Create an empty store.

        Raises:
            ValueError: It would retain no checkpoint.
        """
        if num_retained < 1:
            raise ValueError(f"at least one checkpoint must be retained, not {num_retained}")
        self._num_retained = num_retained
        self._checkpoints: list[CompletedCheckpoint] = []
        self._damaged: list[CompletedCheckpoint] = []
        self.shared = SharedStateRegistry()

    def add(self, checkpoint: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        """Add a checkpoint; return the subsumed ones that must be deleted.

        The latest checkpoint that is not a savepoint is always retained.
        """
        self._checkpoints.append(checkpoint)
        if not checkpoint.is_unclaimed:
            self.shared.register(checkpoint.metadata)
        subsumed: list[CompletedCheckpoint] = []
        while len(self._checkpoints) > self._num_retained:
            oldest = self._oldest_subsumable()
            if oldest is None:
                break
            self._checkpoints.remove(oldest)
            if oldest.properties.discard_subsumed and not oldest.is_unclaimed:
                subsumed.append(oldest)
        return subsumed

    def drop(self, checkpoint_id: int) -> CompletedCheckpoint | None:
        """Drop a damaged checkpoint and return it; keep the only one and return None.

        Its files stay for diagnosis until the job ends.
        """
        for checkpoint in self._checkpoints:
            if checkpoint.checkpoint_id == checkpoint_id and len(self._checkpoints) > 1:
                self._checkpoints.remove(checkpoint)
                self._damaged.append(checkpoint)
                return checkpoint
        return None

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """Return the checkpoint to restore from, or None."""
        return self._checkpoints[-1] if self._checkpoints else None

    @property
    def all(self) -> tuple[CompletedCheckpoint, ...]:
        """Return the retained checkpoints, oldest first."""
        return tuple(self._checkpoints)

    def end(self, status: JobStatus) -> list[CompletedCheckpoint]:
        """Return the checkpoints to delete at the end of the job, and keep the others."""
        ended = [*self._damaged, *self._checkpoints]
        discarded = [c for c in ended if c.is_discarded_at(status) and not c.is_unclaimed]
        self._damaged, self._checkpoints = [], [c for c in ended if c not in discarded]
        return discarded

    def _oldest_subsumable(self) -> CompletedCheckpoint | None:
        plain = [c for c in self._checkpoints if not c.properties.is_savepoint]
        kept = plain[-1] if plain else None
        for checkpoint in self._checkpoints[:-1]:
            if checkpoint.properties.is_savepoint or checkpoint is not kept:
                return checkpoint
        return None
