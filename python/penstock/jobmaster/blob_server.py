"""BlobServer: the driver's snapshots of files that workers fetch, named by their content.

A snapshot, not the file itself: a worker that is started an hour later gets what the job was
submitted with.  All of them are in one file that has no name, so that the kernel takes it back
however the driver ends.
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
    from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1024 * 1024


class BlobServer:
    """Keeps blobs from the first `put` to `close`, and sends them to who asks."""

    def __init__(self, temp_dirs: Sequence[str] = ()) -> None:
        """Makes a server without blobs.

        Args:
            temp_dirs: The first one is where the file is made; the system's when empty.
        """
        self._parent = temp_dirs[0] if temp_dirs else None
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._end = 0
        self._blobs: dict[str, tuple[int, int]] = {}
        self._connections: set[socket.socket] = set()
        self._closed = False

    def put(self, write: Callable[[IO[bytes]], object]) -> BlobKey:
        """Keeps the bytes that ``write`` writes.

        Raises:
            OSError: They cannot be read or written.
        """
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115 (closed by `close`)
                    prefix="penstock-blobs-", dir=self._parent, buffering=0
                )
            sink = _HashingSink(self._file.fileno(), self._end)
            write(cast("IO[bytes]", sink))
            key = BlobKey(sink.digest.hexdigest(), sink.size)
            if key.digest not in self._blobs:
                self._blobs[key.digest] = (self._end, key.size)
                self._end += key.size
            return key

    def serve(self, sock: socket.socket, peer: str) -> None:
        """Answers one authenticated connection to its end, in the connection's own thread."""
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
        """Drops connections and forgets all blobs; idempotent."""
        with self._lock:
            self._closed = True
            connections = list(self._connections)
        for sock in connections:
            with contextlib.suppress(OSError):  # the worker was faster
                sock.shutdown(socket.SHUT_RDWR)
        with self._lock:
            file, self._file = self._file, None
            self._blobs.clear()
        if file is not None:
            file.close()

    def _send(self, sock: socket.socket, digest: str) -> None:
        position, size = self._blobs.get(digest, (0, -1))
        if size < 0:
            write_frame(sock, encode_message(BlobRefused(f"{digest!r} names no blob of this job")))
            return
        end = position + size
        while True:
            chunk = self._read(min(CHUNK_BYTES, end - position), position)
            position += len(chunk)
            write_frame(sock, encode_message(BlobChunk(chunk, position == end)))
            if position == end:
                return

    def _read(self, size: int, position: int) -> bytes:
        with self._lock:  # closing the file meanwhile would give its number to another
            if self._file is None:
                raise OSError("the job has ended")
            chunk = os.pread(self._file.fileno(), size, position)
        if size > 0 and not chunk:
            raise OSError("the file of the blobs ends before the blob does")
        return chunk


class _HashingSink:
    """What is written goes to a file from a position on, and is hashed."""

    def __init__(self, descriptor: int, position: int) -> None:
        self._descriptor = descriptor
        self._position = position
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.size += len(data)
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, self._position)
            self._position += written
            view = view[written:]
        return len(data)
