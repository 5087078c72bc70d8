"""Part files of a FileSink in an object store, whose objects cannot be appended to or truncated.

A part is written to a temporary file of the worker.  At a checkpoint, the new bytes of an open part
are uploaded as a segment; when the part ends, it is uploaded as a whole, under a hidden name, and
the commit moves it within the store.  So an object with a final name is complete.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.connectors.files.part_file import (
    WRITE_BUFFER_BYTES,
    InProgressFile,
    PartFile,
    PendingFile,
    ended_since,
    hidden_path,
)
from penstock.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.checkpoint_storage.arrow_file_system import ArrowFileSystem

#: The most that S3 copies by one request, and so the longest part.
MAX_PART_BYTES: Final = 5 << 30

_CHUNK_BYTES: Final = 4 << 20


class ObjectPartFile(PartFile):
    """A part for an object store, written to a temporary file first."""

    _store: ArrowFileSystem
    _segments: tuple[str, ...] = ()
    _segments_bytes = 0

    @classmethod
    def begin_object(
        cls,
        store: ArrowFileSystem,
        temporary: Callable[[], str],
        folder: str,
        final_name: str,
        now_ms: int,
    ) -> ObjectPartFile:
        """Create a part.

        Raises:
            SinkError: Its temporary file cannot be created.
        """
        part = cls(hidden_path(folder, final_name), f"{folder}/{final_name}", now_ms)
        part._store = store
        try:
            part.file = tempfile.TemporaryFile(  # noqa: SIM115
                dir=temporary(), buffering=WRITE_BUFFER_BYTES
            )
        except OSError as error:
            raise part.failure(error) from error
        return part

    @classmethod
    def recover_object(
        cls, store: ArrowFileSystem, temporary: Callable[[], str], held: InProgressFile
    ) -> ObjectPartFile:
        """Continue a part from a checkpoint, whose segments are downloaded.

        The hidden name is a new one: a lost attempt that still runs may write to the old one.

        Raises:
            SinkError: A segment is missing, the sizes differ from the checkpoint's, or the part was
                committed since.
        """
        if store.exists(held.final_path):
            raise ended_since(
                held,
                "remove the objects that it has committed, and restore the segments of this part: "
                + ", ".join(held.segments),
            )
        folder, _, name = held.final_path.rpartition("/")
        part = cls.begin_object(store, temporary, folder, name, held.created_ms)
        try:
            for segment in held.segments:
                part.write(store.read(segment), held.written_ms)
        except OSError as error:
            part.file.close()
            raise SinkError(
                f"the file sink cannot continue {held.final_path}, of which {held.size_bytes} "
                f"bytes belong to the checkpoint: {error}"
            ) from error
        if part.size_bytes != held.size_bytes:
            part.file.close()
            raise SinkError(
                f"the file sink cannot continue {held.final_path}: its segments have "
                f"{part.size_bytes} bytes, but had {held.size_bytes} when the checkpoint was taken"
            )
        part._segments, part._segments_bytes = held.segments, held.size_bytes
        return part

    def persist(self, bucket: str) -> InProgressFile:
        """Upload the bytes written since the last call, and return the state to recover from."""
        if self.size_bytes > self._segments_bytes:
            segment = f"{self.path}.{uuid.uuid4().hex}"
            self._upload(segment, self._segments_bytes)
            self._segments = (*self._segments, segment)
            self._segments_bytes = self.size_bytes
        return InProgressFile(
            bucket,
            self.path,
            self.final_path,
            self.size_bytes,
            self.created_ms,
            self.written_ms,
            self._segments,
        )

    def close_for_commit(self) -> PendingFile:
        """End the part and upload it as a whole."""
        self._upload(self.path, 0)
        self.file.close()
        return PendingFile(self.path, self.final_path, self.size_bytes, self._segments)

    def dispose(self, *, is_kept: bool) -> None:
        """Discard the part; keep its segments if a checkpoint may continue with them."""
        with suppress(OSError):
            self.file.close()
        if not is_kept:
            for segment in self._segments:
                self._store.delete_file(segment)

    def _upload(self, path: str, start: int) -> None:
        """Upload the bytes from a position to the end as an object."""
        try:
            self.file.flush()
            stream = self._store.create(path)
            while chunk := os.pread(self.file.fileno(), _CHUNK_BYTES, start):
                stream.write(chunk)
                start += len(chunk)
            stream.close()
        except OSError as error:
            raise self.failure(error) from error
