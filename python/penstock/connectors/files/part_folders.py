"""Folders of a FileSink's part files, on this machine or in an object store."""

from __future__ import annotations

import sys
import uuid
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from penstock.connectors.files.object_part_file import MAX_PART_BYTES, ObjectPartFile
from penstock.connectors.files.part_file import PartFile, hidden_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from penstock.checkpoint_storage.arrow_file_system import ArrowFileSystem
    from penstock.connectors.files.part_file import InProgressFile, PendingFile
    from penstock.taskexecutor.compiled.operator_context import OperatorEnvironment


class PartFolder(Protocol):
    """The folder of a sink, with a folder in it for each bucket.

    Attributes:
        max_part_bytes: The length after which a part is ended.
    """

    max_part_bytes: int

    def check(self) -> None:
        """Check that files can be written; raise an `OSError` otherwise."""

    def has(self, bucket: str, name: str) -> bool:
        """Return whether a bucket has a file of that name."""

    def has_hidden(self, bucket: str, name: str) -> bool:
        """Return whether a bucket has a hidden file for that name."""

    def bucket_of(self, final_path: str) -> str:
        """Return the bucket of a part."""

    def begin(self, bucket: str, name: str, now_ms: int) -> PartFile:
        """Create a part."""

    def recover(self, held: InProgressFile) -> PartFile:
        """Continue a part from a checkpoint."""

    def has_ended(self, held: InProgressFile) -> bool:
        """Return whether a part was committed after the checkpoint that holds it in progress."""

    def give_up(self, pending: PendingFile, held: Container[str]) -> None:
        """Remove a part that will not be committed, unless a checkpoint holds it in progress."""


def folder_of(base_path: str, environment: OperatorEnvironment) -> PartFolder:
    """Return the folder of a path or URL."""
    if urlsplit(base_path).scheme:
        return ObjectFolder(
            environment.files.store(base_path), base_path.rstrip("/"), environment.temp_directory
        )
    return LocalFolder(Path(base_path))


class LocalFolder:
    """A folder that all workers reach at the same path."""

    max_part_bytes = sys.maxsize

    def __init__(self, base: Path) -> None:
        """Create the folder object for a path."""
        self._base = base

    def check(self) -> None:
        """Check that files can be written."""
        self._base.mkdir(parents=True, exist_ok=True)
        probe = self._base / f".probe.{uuid.uuid4().hex}"
        probe.touch()
        probe.unlink()

    def has(self, bucket: str, name: str) -> bool:
        """Return whether a bucket has a file of that name."""
        return (self._base / bucket / name).exists()

    def has_hidden(self, bucket: str, name: str) -> bool:
        """Return whether a bucket has a hidden file for that name."""
        return any((self._base / bucket).glob(f"{escape(hidden_prefix(name))}*"))

    def bucket_of(self, final_path: str) -> str:
        """Return the bucket of a part."""
        return str(Path(final_path).parent.relative_to(self._base))

    def begin(self, bucket: str, name: str, now_ms: int) -> PartFile:
        """Create a part."""
        return PartFile.begin(self._base / bucket, name, now_ms)

    def recover(self, held: InProgressFile) -> PartFile:
        """Continue a part from a checkpoint."""
        return PartFile.recover(held)

    def has_ended(self, held: InProgressFile) -> bool:
        """Return whether a part was committed after the checkpoint that holds it in progress."""
        return not Path(held.path).exists() and Path(held.final_path).exists()

    def give_up(self, pending: PendingFile, held: Container[str]) -> None:
        """Remove a part that no checkpoint holds."""
        if pending.path not in held:
            Path(pending.path).unlink(missing_ok=True)


class ObjectFolder:
    """A folder in an object store: a prefix of the objects' keys."""

    max_part_bytes = MAX_PART_BYTES

    def __init__(self, store: ArrowFileSystem, base: str, temporary: Callable[[], str]) -> None:
        """Use the URL ``base``; open parts are in the local folder that ``temporary`` returns."""
        self._store = store
        self._base = base
        self._temporary = temporary

    def check(self) -> None:
        """Check that objects can be written."""
        self._store.prepare(self._base)

    def has(self, bucket: str, name: str) -> bool:
        """Return whether a bucket has an object of that name."""
        return self._store.exists(f"{self._folder(bucket)}/{name}")

    def has_hidden(self, bucket: str, name: str) -> bool:
        """Return whether a bucket has a hidden object for that name."""
        hidden = hidden_prefix(name)
        return any(found.startswith(hidden) for found in self._store.names(self._folder(bucket)))

    def bucket_of(self, final_path: str) -> str:
        """Return the bucket of a part."""
        return final_path[len(self._base) + 1 :].rpartition("/")[0]

    def begin(self, bucket: str, name: str, now_ms: int) -> PartFile:
        """Create a part."""
        folder = self._folder(bucket)
        self._store.make_directory(folder)
        return ObjectPartFile.begin_object(self._store, self._temporary, folder, name, now_ms)

    def recover(self, held: InProgressFile) -> PartFile:
        """Continue a part from a checkpoint."""
        return ObjectPartFile.recover_object(self._store, self._temporary, held)

    def has_ended(self, held: InProgressFile) -> bool:
        """Return whether a part was committed after the checkpoint that holds it in progress."""
        return self._store.exists(held.final_path)

    def give_up(self, pending: PendingFile, held: Container[str]) -> None:
        """Remove the object: checkpoints refer to its segments only."""
        del held
        self._store.delete_file(pending.path)

    def _folder(self, bucket: str) -> str:
        return f"{self._base}/{bucket}".rstrip("/")
