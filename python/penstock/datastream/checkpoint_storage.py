"""CheckpointStorage: the place to which checkpoints are written."""

from __future__ import annotations

import re

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.options.checkpointing import STORAGE
from penstock.datastream.file_path import normalized_path
from penstock.errors import InvalidProgramError

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class CheckpointStorage(NoJavaMembers):
    """A storage of checkpoints; selected by execution.checkpointing.storage and .dir."""

    def __init__(self) -> None:
        """Create a description; use a subclass."""


@checks_arguments
class JobManagerCheckpointStorage(CheckpointStorage):
    """A storage in the driver's memory."""

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        max_state_size: int | None = None,
        j_jobmanager_checkpoint_storage: None = None,
    ) -> None:
        """Create a description.

        Args:
            checkpoint_path: The directory of checkpoint metadata, if any.
            max_state_size: Largest state of a subtask, in bytes.
            j_jobmanager_checkpoint_storage: Exists only for PyFlink's signature; must be None.
        """
        if j_jobmanager_checkpoint_storage is not None:
            requires_jvm("JobManagerCheckpointStorage(java_storage)", "pass no Java object")
        super().__init__()
        self._checkpoint_path = (
            None if checkpoint_path is None else normalized_path(checkpoint_path)
        )
        self._max_state_size = (
            self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        )

    def get_checkpoint_path(self) -> str | None:
        """Return the directory of checkpoint metadata, if any."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """Return the largest state of a subtask that can be stored, in bytes."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """Return None: the configured directory applies."""
        return None

    def __str__(self) -> str:
        return (
            "JobManagerCheckpointStorage (checkpoints to JobManager) "
            f"( maxStateSize: {self._max_state_size})"
        )


@checks_arguments
class FileSystemCheckpointStorage(CheckpointStorage):
    """A storage in files."""

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
        j_filesystem_checkpoint_storage: None = None,
    ) -> None:
        """Create a description.

        Args:
            checkpoint_path: The folder.
            file_state_size_threshold: The size in bytes below which state has no file of its own.
            write_buffer_size: The size of write buffers in bytes; -1 for the default.
            j_filesystem_checkpoint_storage: Exists only for PyFlink's signature; must be None.

        Raises:
            InvalidProgramError: There is no folder, or a size is out of range.
        """
        if j_filesystem_checkpoint_storage is not None:
            requires_jvm("FileSystemCheckpointStorage(java_storage)", "pass no Java object")
        super().__init__()
        if checkpoint_path is None:
            raise InvalidProgramError("a FileSystemCheckpointStorage needs a checkpoint_path")
        if file_state_size_threshold is not None and not (
            -1 <= file_state_size_threshold <= self.MAX_FILE_STATE_THRESHOLD
        ):
            raise InvalidProgramError(
                "file_state_size_threshold must be within 0 and "
                f"{self.MAX_FILE_STATE_THRESHOLD}, got {file_state_size_threshold}"
            )
        if not _SCHEME.match(checkpoint_path):
            raise InvalidProgramError(
                f"checkpoint_path needs a scheme, as in file:///…, got {checkpoint_path!r}"
            )
        self._checkpoint_path = normalized_path(checkpoint_path)
        unset = file_state_size_threshold is None or file_state_size_threshold < 0
        self._threshold = 20 * 1024 if unset else file_state_size_threshold
        buffer_size = 4096 if write_buffer_size < 0 else write_buffer_size
        self._write_buffer_size = max(buffer_size, file_state_size_threshold or 0)

    def get_checkpoint_path(self) -> str:
        """Return the folder."""
        return self._checkpoint_path

    def get_min_file_size_threshold(self) -> int:
        """Return the size in bytes below which state has no file of its own."""
        return self._threshold or 0

    def get_write_buffer_size(self) -> int:
        """Return the size of write buffers in bytes."""
        return self._write_buffer_size

    def get_savepoint_path(self) -> str | None:
        """Return None: the configured directory applies."""
        return None

    def __str__(self) -> str:
        return (
            f"FileSystemCheckpointStorage(checkpoints: {self._checkpoint_path!r}, "
            f"fileStateThreshold: {self._threshold})"
        )


class CustomCheckpointStorage(CheckpointStorage):
    """PyFlink's wrapper of Java storages."""

    def __init__(self, j_custom_checkpoint_storage: object) -> None:  # noqa: ARG002
        """Reject the call.

        Raises:
            JvmOnlyError: Always.
        """
        requires_jvm(
            "CustomCheckpointStorage",
            f"set {STORAGE.key} to {STORAGE.value_type.name}",
        )
