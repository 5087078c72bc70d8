"""Part files of a FileSink: hidden while they are written, recovered after a failure, published."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from penstock.errors import SinkError

WRITE_BUFFER_BYTES: Final = 256 * 1024


@dataclass(frozen=True)
class PendingFile:
    """A complete file that a FileSink is to commit.

    Attributes:
        path: The hidden file.
        final_path: Its path once it is committed.
        size_bytes: Its length.
        segments: Files and objects to delete once it is committed: the source files of a compacted
            file, and in stores the segments that checkpoints uploaded while it was written.
    """

    path: str
    final_path: str
    size_bytes: int
    segments: tuple[str, ...] = ()


@dataclass(frozen=True)
class InProgressFile:
    """The state, in a checkpoint, of a file that stays open across it.

    Attributes:
        bucket: Its folder, relative to the sink's.
        path: The hidden file.
        final_path: Its path once it is committed.
        size_bytes: The number of bytes that belong to the checkpoint.
        created_ms: The time of its creation.
        written_ms: The time of the last write.
        segments: The objects that contain its bytes, in order, if it is in a store.
        job_id: The job that took the checkpoint; empty in checkpoints of former releases.
    """

    bucket: str
    path: str
    final_path: str
    size_bytes: int
    created_ms: int
    written_ms: int
    segments: tuple[str, ...] = ()
    job_id: bytes = b""


class PartFile:
    """A file that is being written, under a hidden name."""

    def __init__(self, path: str, final_path: str, now_ms: int) -> None:
        """Create a part; use `begin` and `recover`."""
        self.path = path
        self.final_path = final_path
        self.size_bytes = 0
        self.created_ms = now_ms
        self.written_ms = now_ms
        self.file: IO[bytes]

    @classmethod
    def begin(cls, folder: Path, final_name: str, now_ms: int) -> PartFile:
        """Create a file.

        Raises:
            SinkError: It cannot be created.
        """
        part = cls(hidden_path(str(folder), final_name), str(folder / final_name), now_ms)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            part.file = Path(part.path).open("xb", buffering=WRITE_BUFFER_BYTES)  # noqa: SIM115
        except OSError as error:
            raise part.failure(error) from error
        return part

    @classmethod
    def recover(cls, held: InProgressFile) -> PartFile:
        """Continue a file from a checkpoint, and truncate the bytes written since.

        Raises:
            SinkError: The file is missing, or shorter than at the checkpoint.
        """
        part = cls(held.path, held.final_path, held.created_ms)
        part.written_ms = held.written_ms
        try:
            part.file = Path(part.path).open("r+b", buffering=WRITE_BUFFER_BYTES)  # noqa: SIM115
            found_bytes = part.file.seek(0, os.SEEK_END)
            if found_bytes >= held.size_bytes:
                part.file.truncate(held.size_bytes)
                part.file.seek(held.size_bytes)
        except FileNotFoundError as error:
            name, final_path = Path(part.path).name, Path(part.final_path)
            if final_path.exists():
                raise ended_since(
                    held,
                    f"rename {final_path.name} to {name}, which is then cut to its former length, "
                    "do so for each part that this error names, and remove the run's other files",
                ) from error
            raise SinkError(
                f"the file sink cannot continue {part.path}, of which {held.size_bytes} bytes "
                f"belong to the checkpoint or savepoint: the file does not exist, and neither does "
                f"{final_path.name}, its name once it is committed; all workers must reach the "
                "folder, and its files must not be moved or removed while a checkpoint or "
                "savepoint that needs them is in use"
            ) from error
        except OSError as error:
            raise SinkError(
                f"the file sink cannot continue {part.path}, of which {held.size_bytes} bytes "
                f"belong to the checkpoint: {error.strerror}; all workers must reach the folder"
            ) from error
        if found_bytes < held.size_bytes:
            part.file.close()
            raise SinkError(
                f"the file sink cannot continue {part.path}: it has {found_bytes} bytes, but "
                f"had {held.size_bytes} when the checkpoint was taken"
            )
        part.size_bytes = held.size_bytes
        return part

    def write(self, data: bytes, now_ms: int) -> None:
        """Append bytes."""
        try:
            self.file.write(data)
        except OSError as error:
            raise self.failure(error) from error
        self.size_bytes += len(data)
        self.written_ms = now_ms

    def persist(self, bucket: str) -> InProgressFile:
        """Make all bytes durable, and return the state to recover from."""
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise self.failure(error) from error
        return InProgressFile(
            bucket,
            self.path,
            self.final_path,
            self.size_bytes,
            self.created_ms,
            self.written_ms,
        )

    def close_for_commit(self) -> PendingFile:
        """End the file and make it durable, before the commit renames it."""
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
        except OSError as error:
            raise self.failure(error) from error
        return PendingFile(self.path, self.final_path, self.size_bytes)

    def dispose(self, *, is_kept: bool) -> None:
        """Discard the file; keep it if a checkpoint may continue with it."""
        # Closing flushes the buffer, which fails on a full disk; the data is no longer needed.
        with suppress(OSError):
            self.file.close()
        if not is_kept:
            Path(self.path).unlink(missing_ok=True)

    def failure(self, error: OSError) -> SinkError:
        """Return the error of a file that cannot be written."""
        return SinkError(
            f"the file sink cannot write {self.path} after {self.size_bytes} bytes: "
            f"{error.strerror or error}; make room there or give the sink another folder.  "
            f"Unfinished files stay hidden or are removed, so an incomplete file is never named "
            f"{self.final_path.rpartition('/')[2]}"
        )


def ended_since(held: InProgressFile, way_back: str) -> SinkError:
    """Return the error for a part that a later run has ended and published.

    Args:
        held: The part.
        way_back: Instructions to start from the checkpoint or savepoint nevertheless.
    """
    return SinkError(
        f"the file sink cannot continue {held.path}, of which {held.size_bytes} bytes belong to "
        f"the checkpoint or savepoint that the job starts from: a run that continued from there "
        f"has since committed the file as {held.final_path}, with later records.  Start from the "
        f"last checkpoint or savepoint of that run; or, to undo that run, {way_back}"
    )


def hidden_path(folder: str, final_name: str) -> str:
    """Return a unique name for a file that is not visible yet."""
    return f"{folder}/{hidden_prefix(final_name)}{uuid.uuid4()}"


def hidden_prefix(final_name: str) -> str:
    """Return the prefix of the hidden names that belong to a final name."""
    return f".{final_name}.inprogress."
