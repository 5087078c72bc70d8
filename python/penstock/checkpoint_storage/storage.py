"""Storage of a job's checkpoints (internals M59).

```
<checkpoint directory>/<job id, hex>/chk-<n>/_metadata, <files>     one checkpoint
<checkpoint directory>/<job id, hex>/shared/<files>                 used by several checkpoints
<log's base path>/<job id, hex>/dstl/<files>                        its log of state (M66)
<target>/savepoint-<6 of the job id>-<12 random>/_metadata, <files> one savepoint
```
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from penstock.checkpoint_storage.file_systems import is_lasting
from penstock.checkpoint_storage.metadata_serializer import (
    deserialize_metadata,
    serialize_metadata,
)
from penstock.common.options import changelog, checkpointing
from penstock.errors import CheckpointStorageError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata
    from penstock.checkpoint_storage.file_systems import FileSystems

METADATA_FILE: Final = "_metadata"

#: Prefix of pointers to checkpoints that the driver stores.
_DRIVER: Final = "driver:"

#: Number of names tried for the directory of a savepoint.
_SAVEPOINT_NAMES: Final = 10


def configured_directory(configuration: Mapping[str, str]) -> str | None:
    """Return the directory of all jobs' checkpoints; None if the driver stores them."""
    is_chosen = checkpointing.STORAGE.is_set(configuration)
    if is_chosen and checkpointing.STORAGE.read(configuration) == "jobmanager":
        return None
    return checkpointing.FOLDER.read(configuration)


def checkpoint_directory(directory: str, job_id: bytes, checkpoint_id: int) -> str:
    """Return the directory of one checkpoint."""
    return f"{directory.rstrip('/')}/{job_id.hex()}/chk-{checkpoint_id}"


def log_base(configuration: Mapping[str, str]) -> str | None:
    """Return the base directory of state logs; None if there are none."""
    if not changelog.ENABLED.read(configuration):
        return None
    in_files = changelog.STORAGE.read(configuration) == "filesystem"
    return changelog.BASE_PATH.read(configuration) if in_files else None


def shared_directory(directory: str, job_id: bytes) -> str:
    """Return the directory of the files that several checkpoints of a job may use."""
    return f"{directory.rstrip('/')}/{job_id.hex()}/shared"


def log_directory(base_path: str, job_id: bytes) -> str:
    """Return the directory of a job's state log."""
    return f"{base_path.rstrip('/')}/{job_id.hex()}/dstl"


def make_directories(
    configuration: Mapping[str, str], job_id: bytes, files: FileSystems
) -> list[tuple[str, OSError]]:
    """Create the directories of a job's checkpoints and logs, so that a wrong one fails at once.

    Otherwise every checkpoint would fail and restart the job, again and again.

    Returns:
        Options whose directories are unreachable at present, each with the error.

    Raises:
        ConfigurationError: A directory can never be created.
    """
    out_of_reach = []
    for option, directory in (
        (checkpointing.FOLDER, configured_directory(configuration)),
        (changelog.BASE_PATH, log_base(configuration)),
    ):
        if directory is None:
            continue
        try:
            files.of(directory).prepare(f"{directory.rstrip('/')}/{job_id.hex()}")
        except OSError as error:
            if is_lasting(error):
                raise ConfigurationError(
                    f"{option.key}: {directory!r} cannot store the job's files: {error}; name a "
                    "folder that the driver and all workers may create and write, and, of a store, "
                    "keys that may do that"
                ) from error
            out_of_reach.append((option.key, error))
    return out_of_reach


class CheckpointStorage:
    """Stores the checkpoints of one job; each savepoint has its own target.

    In this class the driver itself stores checkpoints, and nothing outlives it.

    Attributes:
        files: The file systems of the files.
    """

    def __init__(self, job_id: bytes, files: FileSystems, log_base: str | None = None) -> None:
        """Create the storage of a job.

        Args:
            job_id: The id of the job, 16 bytes.
            files: The file systems of the files.
            log_base: The base directory of state logs; None for none.
        """
        self._job_id = job_id
        self.files = files
        self._log_base = log_base

    def create_checkpoint(self, checkpoint_id: int) -> str:
        """Create the directory of a checkpoint and return it.

        Raises:
            OSError: It cannot be created.
        """
        return f"{_DRIVER}{checkpoint_id}"

    def create_savepoint(self, target: str) -> str:
        """Create a new directory for a savepoint below ``target`` and return it.

        Raises:
            CheckpointStorageError: It cannot be created.
        """
        fs, below = self.files.of(target), target.rstrip("/")
        for _ in range(_SAVEPOINT_NAMES):
            name = f"savepoint-{self._job_id.hex()[:6]}-{secrets.token_hex(6)}"
            location = f"{below}/{name}"
            if not fs.exists(location):
                fs.make_directory(location)
                return location
        raise CheckpointStorageError(f"no unused name for a savepoint below {target}")

    def publish(self, location: str, metadata: CheckpointMetadata) -> str:
        """Publish the metadata of a complete checkpoint; return the pointer to it.

        Raises:
            OSError: The metadata cannot be written; no file remains.
        """
        if location.startswith(_DRIVER):
            return location
        return publish_metadata(location, metadata, self.files)

    def withdraw(self, pointer: str) -> None:
        """Delete the metadata of a checkpoint before its files, so that nobody finds it.

        Raises:
            OSError: The metadata cannot be deleted.
        """
        if not pointer.startswith(_DRIVER):
            self.files.of(pointer).delete_file(f"{pointer}/{METADATA_FILE}")

    def discard(self, pointer: str) -> None:
        """Delete the remaining directory of a withdrawn checkpoint.

        Raises:
            OSError: It cannot be deleted.
        """
        if not pointer.startswith(_DRIVER):
            self.files.of(pointer).delete_directory(pointer)

    def close(self, retained: Collection[str]) -> None:
        """Delete all files that belong to no checkpoint, at the end of the job.

        Args:
            retained: The pointers of retained checkpoints.

        Raises:
            OSError: A file cannot be deleted.
        """
        if self._log_base is not None and not retained:
            folder = f"{self._log_base.rstrip('/')}/{self._job_id.hex()}"
            self.files.of(folder).delete_directory(folder)

    def __str__(self) -> str:
        return "the driver's memory"


class FileSystemCheckpointStorage(CheckpointStorage):
    """Stores checkpoints below a directory that all workers reach."""

    def __init__(
        self, directory: str, job_id: bytes, files: FileSystems, log_base: str | None = None
    ) -> None:
        """Create the storage without creating directories.

        Args:
            directory: `execution.checkpointing.dir`: a path or URL that all workers reach.
            job_id: The id of the job, 16 bytes.
            files: The file systems of the directory.
            log_base: See `CheckpointStorage`.

        Raises:
            ConfigurationError: The scheme of the URL is unknown.
        """
        super().__init__(job_id, files, log_base)
        self._directory = directory.rstrip("/")
        self._fs = files.of(directory)

    @property
    def job_directory(self) -> str:
        """The directory of the job."""
        return f"{self._directory}/{self._job_id.hex()}"

    def create_checkpoint(self, checkpoint_id: int) -> str:
        """Create the directory of a checkpoint and return it.

        Raises:
            OSError: It cannot be created.
        """
        location = checkpoint_directory(self._directory, self._job_id, checkpoint_id)
        # Remove files that an earlier run of this id has left.
        self._fs.delete_directory(location)
        self._fs.make_directory(location)
        return location

    def close(self, retained: Collection[str]) -> None:
        """Delete the job's directory, except retained checkpoints in it.

        Killed workers and drivers may have left unreported files in it.
        """
        super().close(retained)
        # Compare the last two names, as a path and a URL may name the same directory.
        in_it = f"/{self._job_id.hex()}/"
        kept = {name for _, found, name in (p.rpartition(in_it) for p in retained) if found}
        if not kept:
            self._fs.delete_directory(self.job_directory)
            return
        for name in self._fs.names(self.job_directory):
            if name.startswith("chk-") and name not in kept:
                self._fs.delete_directory(f"{self.job_directory}/{name}")

    def __str__(self) -> str:
        return self.job_directory


def publish_metadata(location: str, metadata: CheckpointMetadata, files: FileSystems) -> str:
    """Write the metadata of a checkpoint into its directory; return the pointer to it.

    Raises:
        OSError: The metadata cannot be written; no file remains.
    """
    path = f"{location}/{METADATA_FILE}"
    files.of(location).publish(path, serialize_metadata(metadata, location))
    return location


def load_metadata(pointer: str, files: FileSystems) -> tuple[CheckpointMetadata, str]:
    """Load the checkpoint that a pointer names; return it and its directory.

    Args:
        pointer: The directory of a checkpoint, or its metadata file.
        files: The file systems of the pointer.

    Raises:
        CheckpointStorageError: There is no checkpoint, or it cannot be read.
        CorruptCheckpointError: It is not metadata, or differs from what was written.
    """
    if pointer.startswith(_DRIVER):
        raise CheckpointStorageError(
            f"the checkpoint {pointer} is in the memory of its job's driver, where only that job "
            "reads it: set execution.checkpointing.dir for checkpoints in files"
        )
    fs = files.of(pointer)
    location = pointer.rstrip("/")
    if location.rsplit("/", 1)[-1] == METADATA_FILE:
        location = location.rsplit("/", 1)[0]
    path = f"{location}/{METADATA_FILE}"
    try:
        data = fs.read(path)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointStorageError(
            f"{pointer} is not a checkpoint or savepoint: it has no file {METADATA_FILE}; name the "
            f"directory that holds it (chk-N or savepoint-…), or the file itself"
        ) from None
    except IsADirectoryError:
        raise CheckpointStorageError(
            f"{pointer} is not a checkpoint or savepoint: {path} is a directory, and should be the "
            "file that its checkpoint was completed with"
        ) from None
    return deserialize_metadata(data, location), location


def discard_location(location: str, files: FileSystems) -> None:
    """Delete the directory of a checkpoint, its metadata first.

    Raises:
        OSError: It cannot be deleted.
    """
    fs = files.of(location)
    fs.delete_file(f"{location}/{METADATA_FILE}")
    fs.delete_directory(location)
