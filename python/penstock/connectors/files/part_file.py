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
    """A whole file that waits for its name: what a FileSink commits.

    Attributes:
        path: The hidden file.
        final_path: What it is called once it is committed.
        size_bytes: How long it is.
        segments: Files and objects that are of no use once it is committed: what it was put
            together of, and in stores what checkpoints held of it while it was written.
    """

    path: str
    final_path: str
    size_bytes: int
    segments: tuple[str, ...] = ()


@dataclass(frozen=True)
class InProgressFile:
    """A file that stays open across a checkpoint, as the checkpoint holds it.

    Attributes:
        bucket: Its folder, relative to the sink's.
        path: The hidden file.
        final_path: What it is called once it is committed.
        size_bytes: How much of it belongs to the checkpoint.
        created_ms: When it was begun.
        written_ms: When it was written last.
        segments: The objects that have its bytes, in order, if it lies in a store.
        job_id: The job whose checkpoint it is; empty in those of former releases.
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
        """Begins a file, or goes on with one; use `begin` and `recover`."""
        self.path = path
        self.final_path = final_path
        self.size_bytes = 0
        self.created_ms = now_ms
        self.written_ms = now_ms
        self.file: IO[bytes]

    @classmethod
    def begin(cls, folder: Path, final_name: str, now_ms: int) -> PartFile:
        """A new file.

        Raises:
            SinkError: It cannot be made.
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
        """Goes on where a checkpoint was: what was written since then is cut off.

        Raises:
            SinkError: The file is gone, or shorter than the checkpoint knows it.
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
                    f"move {final_path.name} back to {name}, which is cut to the length that it "
                    "had, and so each part of which this is said; remove what else it has shown",
                ) from error
            raise SinkError(
                f"the file sink cannot go on with {part.path}, of which {held.size_bytes} bytes "
                f"belong to the checkpoint or savepoint: it is not there, and neither is "
                f"{final_path.name}, as which a later run shows it; all workers must reach the "
                "folder, and what is in it must not be moved or removed while a checkpoint or "
                "savepoint is needed that goes on with it"
            ) from error
        except OSError as error:
            raise SinkError(
                f"the file sink cannot go on with {part.path}, of which {held.size_bytes} bytes "
                f"belong to the checkpoint: {error.strerror}; all workers must reach the folder"
            ) from error
        if found_bytes < held.size_bytes:
            part.file.close()
            raise SinkError(
                f"the file sink cannot go on with {part.path}: it has {found_bytes} bytes, but "
                f"had {held.size_bytes} when the checkpoint was taken"
            )
        part.size_bytes = held.size_bytes
        return part

    def write(self, data: bytes, now_ms: int) -> None:
        """Appends bytes."""
        try:
            self.file.write(data)
        except OSError as error:
            raise self.failure(error) from error
        self.size_bytes += len(data)
        self.written_ms = now_ms

    def persist(self, bucket: str) -> InProgressFile:
        """Brings all bytes to the disk, and says how to go on from here."""
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
        """Ends the file, with all its bytes on the disk before its name."""
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
        except OSError as error:
            raise self.failure(error) from error
        return PendingFile(self.path, self.final_path, self.size_bytes)

    def dispose(self, *, is_kept: bool) -> None:
        """Gives the file up; it stays where it is when a checkpoint may go on with it."""
        # Closing flushes the buffer, which fails on a full disk; the data is not needed any more.
        with suppress(OSError):
            self.file.close()
        if not is_kept:
            Path(self.path).unlink(missing_ok=True)

    def failure(self, error: OSError) -> SinkError:
        """Return the error of a file that cannot be written."""
        return SinkError(
            f"the file sink cannot write {self.path}, {self.size_bytes} bytes until now: "
            f"{error.strerror or error}; make room there or give the sink another folder.  What is "
            f"unfinished stays hidden or is removed, so that there is no "
            f"{self.final_path.rpartition('/')[2]} "
            "that is not whole"
        )


def ended_since(held: InProgressFile, way_back: str) -> SinkError:
    """Return the message about a part that a later run has ended and published.

    Args:
        held: The part.
        way_back: How one starts from the checkpoint or savepoint all the same.
    """
    return SinkError(
        f"the file sink cannot go on with {held.path}, of which {held.size_bytes} bytes belong to "
        f"the checkpoint or savepoint that the job starts from: a run that went on from there has "
        f"ended it since, and shows it as {held.final_path}, with what came later.  Start from the "
        f"last checkpoint or savepoint of that run; or, to take back what it has done, {way_back}"
    )


def hidden_path(folder: str, final_name: str) -> str:
    """Return a unique name for a file that is not visible yet."""
    return f"{folder}/{hidden_prefix(final_name)}{uuid.uuid4()}"


def hidden_prefix(final_name: str) -> str:
    """Return the prefix of all hidden files of a final name."""
    return f".{final_name}.inprogress."
