"""BlobServer: the driver's snapshots of files that workers fetch, named by their content.

It stores a snapshot, not the file itself: a worker started an hour later gets the content that the
job was submitted with.  All blobs of one owner (a job) are in one unnamed file, so that the kernel
frees it however the driver ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import tempfile
import threading
from typing import IO, TYPE_CHECKING, cast

from penstock.dependencies.manifest import BlobKey
from penstock.errors import CorruptStreamError
from penstock.rpc.blob_messages import BlobChunk, BlobRefused, blob_server_decoder
from penstock.rpc.frames import read_frame, write_frame
from penstock.rpc.message import encode_message

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1024 * 1024


class BlobServer:
    """Stores blobs from the first `put` to `close`, and sends them on request."""

    def __init__(self, temp_dirs: Sequence[str] = ()) -> None:
        """Create a server without blobs.

        Args:
            temp_dirs: The file is created in the first one; in the system's folder if empty.
        """
        self._parent = temp_dirs[0] if temp_dirs else None
        self._lock = threading.Lock()
        self._files: dict[Hashable, _BlobFile] = {}
        self._connections: set[socket.socket] = set()
        self._closed = False

    def put(self, write: Callable[[IO[bytes]], object], owner: Hashable = None) -> BlobKey:
        """Store the bytes that ``write`` writes, until `release` of the owner.

        Raises:
            OSError: They cannot be read or written.
        """
        writer = self.begin(owner)
        write(cast("IO[bytes]", writer))
        return writer.finish()

    def begin(self, owner: Hashable) -> BlobWriter:
        """Start a blob whose bytes arrive in parts; one at a time for an owner.

        Raises:
            OSError: The disk is full, or the cluster ends.
        """
        with self._lock:
            if self._closed:
                raise OSError("the cluster is shutting down")
            file = self._files.get(owner)
            if file is None:
                file = self._files[owner] = _BlobFile(self._parent)
        return file.begin()

    def read(self, key: BlobKey, owner: Hashable) -> bytes:
        """Return all bytes of a blob.

        Raises:
            OSError: The owner has no such blob.
        """
        with self._lock:
            file = self._files.get(owner)
        position, size = (0, -1) if file is None else file.find(key.digest)
        if file is None or size < 0:
            raise OSError(f"{key.digest!r} names no blob of this owner")
        parts = []
        while size > 0:
            chunk = file.read(min(CHUNK_BYTES, size), position)
            parts.append(chunk)
            position, size = position + len(chunk), size - len(chunk)
        return b"".join(parts)

    def release(self, owner: Hashable) -> None:
        """Delete the blobs of an owner."""
        with self._lock:
            file = self._files.pop(owner, None)
        if file is not None:
            file.close()

    def serve(self, sock: socket.socket, peer: str) -> None:
        """Serve one authenticated connection to its end, in the connection's own thread."""
        with self._lock:
            if self._closed:
                sock.close()
                return
            self._connections.add(sock)
        try:
            sock.settimeout(None)
            decoder = blob_server_decoder()
            while (body := read_frame(sock)) is not None:
                self._send(sock, decoder.decode(body).digest)
        except (OSError, CorruptStreamError) as error:
            if not self._closed:
                logger.warning("a blob connection of %s ended early: %s", peer, error)
        finally:
            with self._lock:
                self._connections.discard(sock)
            sock.close()

    def close(self) -> None:
        """Drop connections and delete all blobs; idempotent."""
        with self._lock:
            self._closed = True
            connections = list(self._connections)
        for sock in connections:
            with contextlib.suppress(OSError):  # the worker closed it first
                sock.shutdown(socket.SHUT_RDWR)
        with self._lock:
            files = list(self._files.values())
            self._files.clear()
        for file in files:
            file.close()

    def _send(self, sock: socket.socket, digest: str) -> None:
        with self._lock:
            files = list(self._files.values())
        file = next((one for one in files if one.find(digest)[1] >= 0), None)
        if file is None:
            write_frame(sock, encode_message(BlobRefused(f"{digest!r} names no blob of this job")))
            return
        position, size = file.find(digest)
        end = position + size
        while True:
            chunk = file.read(min(CHUNK_BYTES, end - position), position)
            position += len(chunk)
            write_frame(sock, encode_message(BlobChunk(chunk, position == end)))
            if position == end:
                return


class _BlobFile:
    """The blobs of one owner."""

    def __init__(self, parent: str | None) -> None:
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = tempfile.TemporaryFile(  # noqa: SIM115 (closed by `close`)
            prefix="penstock-blobs-", dir=parent, buffering=0
        )
        self._end = 0
        self._blobs: dict[str, tuple[int, int]] = {}

    def begin(self) -> BlobWriter:
        return BlobWriter(self, self._end)

    def write(self, data: bytes, position: int) -> None:
        with self._lock:
            if self._file is None:
                raise OSError("the job has ended")
            view = memoryview(data)
            while view:
                written = os.pwrite(self._file.fileno(), view, position)
                position += written
                view = view[written:]

    def keep(self, key: BlobKey, position: int) -> None:
        with self._lock:
            if key.digest not in self._blobs:
                self._blobs[key.digest] = (position, key.size)
                self._end = position + key.size

    def find(self, digest: str) -> tuple[int, int]:
        """Return position and size; the size is -1 if the blob is not here."""
        return self._blobs.get(digest, (0, -1))

    def close(self) -> None:
        with self._lock:
            file, self._file = self._file, None
            self._blobs.clear()
        if file is not None:
            file.close()

    def read(self, size: int, position: int) -> bytes:
        with self._lock:  # if it were closed meanwhile, its number could belong to another file
            if self._file is None:
                raise OSError("the job has ended")
            chunk = os.pread(self._file.fileno(), size, position)
        if size > 0 and not chunk:
            raise OSError("the file of the blobs ends before the blob does")
        return chunk


class BlobWriter:
    """A blob that is being written."""

    def __init__(self, file: _BlobFile, position: int) -> None:
        """Create a writer that starts at a position of a file."""
        self._file = file
        self._position = position
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> int:
        """Append bytes.

        Raises:
            OSError: The disk is full, or the job has ended.
        """
        self._digest.update(data)
        self._file.write(data, self._position + self._size)
        self._size += len(data)
        return len(data)

    def finish(self) -> BlobKey:
        """Store the blob and return its key."""
        key = BlobKey(self._digest.hexdigest(), self._size)
        self._file.keep(key, self._position)
        return key
