"""The configured initial state of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.checkpoint_storage.file_systems import FileSystems, absolute
from penstock.checkpoint_storage.storage import load_metadata
from penstock.common.options import pipeline, state_recovery
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata


@dataclass(frozen=True)
class RecoverySource:
    """A savepoint or retained checkpoint that a job starts from.

    Attributes:
        metadata: The metadata of the checkpoint.
        location: Its directory.
        is_claimed: Whether the job owns it from now on.
        allows_non_restored: Whether state of operators that the job does not have is left behind.
    """

    metadata: CheckpointMetadata
    location: str
    is_claimed: bool
    allows_non_restored: bool

    @staticmethod
    def of(configuration: Mapping[str, str]) -> RecoverySource | None:
        """Return the state that the configuration names; None for a job without initial state.

        Raises:
            ConfigurationError: The job cannot start from a checkpoint.
            CheckpointStorageError: There is no checkpoint, or it cannot be read.
            CorruptCheckpointError: It is not a checkpoint, or differs from what was written.
        """
        path = state_recovery.PATH.read(configuration)
        if path is None:
            return None
        if pipeline.RUNTIME_MODE.read(configuration) == "BATCH":
            raise ConfigurationError(
                f"{state_recovery.PATH.key}: a job in BATCH mode cannot start from {path}: "
                "it has no checkpoints"
            )
        metadata, location = load_metadata(absolute(path), FileSystems(configuration))
        return RecoverySource(
            metadata,
            location,
            state_recovery.CLAIM_MODE.read(configuration) == "CLAIM",
            state_recovery.IGNORE_UNCLAIMED.read(configuration),
        )

    @property
    def key_groups(self) -> dict[bytes, int]:
        """The number of key groups of each operator that has keyed state."""
        return {
            operator.operator_id: operator.max_parallelism
            for operator in self.metadata.operators.values()
            if operator.has_keyed_state
        }
