"""The state backends of Flink 1, which also set the storage of checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.jvm import requires_jvm
from penstock.common.options import checkpointing
from penstock.datastream.file_path import normalized_path
from penstock.datastream.state_backend import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
)
from penstock.errors import InvalidProgramError
from penstock.flink_1 import say_once

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration

_DEFAULT_MAX_STATE_SIZE: Final = 5 * 1024 * 1024
_THRESHOLD: Final = 20 * 1024
_FOLDER: Final = f"and the option {checkpointing.FOLDER.key}"


class MemoryStateBackend(HashMapStateBackend):
    """Keeps state in the workers' memory and checkpoints in the driver's."""

    DEFAULT_MAX_STATE_SIZE = _DEFAULT_MAX_STATE_SIZE

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,  # noqa: ARG002 - all of them are
        j_memory_state_backend: None = None,
    ) -> None:
        """Create a description."""
        say_once("MemoryStateBackend", "use HashMapStateBackend")
        if j_memory_state_backend is not None:
            requires_jvm("MemoryStateBackend(java_backend)", "pass no Java object")
        super().__init__()
        self._savepoint_path = savepoint_path
        self._checkpoint_path = checkpoint_path
        self._max_state_size = max_state_size

    def get_max_state_size(self) -> int:
        """Return the limit of a subtask's state, in bytes; it is not enforced."""
        return self._max_state_size or _DEFAULT_MAX_STATE_SIZE

    def is_using_asynchronous_snapshots(self) -> bool:
        """Return True: snapshots are written while records are processed."""
        return True

    def write_to(self, configuration: Configuration) -> None:
        """Set the equivalent options."""
        super().write_to(configuration)
        checkpointing.STORAGE.write(configuration, "jobmanager")
        if self._savepoint_path is not None:
            checkpointing.SAVEPOINT_FOLDER.write(
                configuration, normalized_path(self._savepoint_path)
            )


class FsStateBackend(HashMapStateBackend):
    """Keeps state in the workers' memory and checkpoints in files."""

    def __init__(
        self,
        checkpoint_directory_uri: str | None = None,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,  # noqa: ARG002 - all of them are
        j_fs_state_backend: None = None,
    ) -> None:
        """Create a description.

        Raises:
            InvalidProgramError: There is no folder.
        """
        if not isinstance(self, _Folder):
            say_once("FsStateBackend", f"use HashMapStateBackend, {_FOLDER}")
        if j_fs_state_backend is not None:
            requires_jvm("FsStateBackend(java_backend)", "pass no Java object")
        super().__init__()
        if checkpoint_directory_uri is None:
            raise InvalidProgramError("a FsStateBackend needs a checkpoint_directory_uri")
        self._checkpoint_path = normalized_path(checkpoint_directory_uri)
        self._savepoint_path = default_savepoint_directory_uri
        self._threshold = file_state_size_threshold
        self._write_buffer_size = write_buffer_size

    def get_checkpoint_path(self) -> str:
        """Return the folder of checkpoints."""
        return self._checkpoint_path

    def get_min_file_size_threshold(self) -> int:
        """Return the size in bytes below which state needs no file of its own."""
        return _THRESHOLD if self._threshold is None else self._threshold

    def get_write_buffer_size(self) -> int:
        """Return the size of write buffers in bytes; it is not used."""
        return 4096 if self._write_buffer_size is None else self._write_buffer_size

    def is_using_asynchronous_snapshots(self) -> bool:
        """Return True: snapshots are written while records are processed."""
        return True

    def write_to(self, configuration: Configuration) -> None:
        """Set the equivalent options."""
        super().write_to(configuration)
        write_folder(configuration, self._checkpoint_path)
        if self._savepoint_path is not None:
            checkpointing.SAVEPOINT_FOLDER.write(
                configuration, normalized_path(self._savepoint_path)
            )


class _Folder(FsStateBackend):
    """The folder of a RocksDBStateBackend."""


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """Keeps state in RocksDB and checkpoints in files."""

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: Any = None,
        j_rocks_db_state_backend: None = None,
    ) -> None:
        """Create a description; either the folder or another backend is required.

        Raises:
            InvalidProgramError: There is neither.
        """
        say_once("RocksDBStateBackend", f"use EmbeddedRocksDBStateBackend, {_FOLDER}")
        super().__init__(enable_incremental_checkpointing, j_rocks_db_state_backend)
        if checkpoint_data_uri is None and checkpoint_stream_backend is None:
            raise InvalidProgramError("a RocksDBStateBackend needs a checkpoint_data_uri")
        self._folder = checkpoint_data_uri
        self._checkpoint_backend = checkpoint_stream_backend

    def get_checkpoint_backend(self) -> Any:
        """Return the backend that sets the storage of checkpoints."""
        return self._checkpoint_backend or _Folder(self._folder)

    def get_number_of_transfering_threads(self) -> int:
        """Return the number of threads that copy files of checkpoints."""
        return self.get_number_of_transfer_threads()

    def set_number_of_transfering_threads(self, number_of_transfering_threads: int) -> None:
        """Set the number of threads that copy files of checkpoints."""
        self.set_number_of_transfer_threads(number_of_transfering_threads)

    def write_to(self, configuration: Configuration) -> None:
        """Set the equivalent options."""
        self.get_checkpoint_backend().write_to(configuration)
        super().write_to(configuration)


def write_folder(configuration: Configuration, folder: str) -> None:
    """Store checkpoints in a folder."""
    checkpointing.STORAGE.write(configuration, "filesystem")
    checkpointing.FOLDER.write(configuration, folder)
