"""BlobServer: the driver's snapshots of files that workers fetch, named by their content.

A snapshot, not the file itself: a worker that is started an hour later gets what the job was
submitted with.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import shutil
import socket
import tempfile
import threading
import uuid
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from penstock.dependencies.manifest import BlobKey
from penstock.errors import CorruptStreamError
from penstock.rpc.frames import read_frame, write_frame
from penstock.rpc.messages import BlobChunk, BlobRefused, blob_server_decoder, encode_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1024 * 1024
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BlobServer:
    """Keeps blobs in a folder of its own, from the first `put` to `close`."""

    def __init__(self, temp_dirs: Sequence[str] = ()) -> None:
        """Makes a server without blobs.

        Args:
            temp_dirs: The first one is where the folder is made; the system's when empty.
        """
        self._parent = temp_dirs[0] if temp_dirs else None
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._connections: set[socket.socket] = set()
        self._closed = False

    def put(self, write: Callable[[IO[bytes]], object]) -> BlobKey:
        """Keeps the bytes that ``write`` writes.

        Raises:
            OSError: They cannot be read or written.
        """
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="penstock-blobs-", dir=self._parent))
            folder = self._folder
        part = folder / f"part-{uuid.uuid4().hex}"
        with part.open("xb") as file:
            sink = _HashingSink(file)
            write(cast("IO[bytes]", sink))
        key = BlobKey(sink.digest.hexdigest(), sink.size)
        part.rename(folder / key.digest)
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
        """Drops connections and removes all blobs; idempotent."""
        with self._lock:
            self._closed = True
            connections = list(self._connections)
            folder, self._folder = self._folder, None
        for sock in connections:
            with contextlib.suppress(OSError):  # the worker was faster
                sock.shutdown(socket.SHUT_RDWR)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _send(self, sock: socket.socket, digest: str) -> None:
        folder = self._folder
        if folder is None or not _DIGEST.fullmatch(digest):
            write_frame(sock, encode_message(BlobRefused(f"{digest!r} names no blob of this job")))
            return
        try:
            file = (folder / digest).open("rb")
        except OSError as error:
            write_frame(sock, encode_message(BlobRefused(str(error))))
            return
        with file:
            chunk = file.read(CHUNK_BYTES)
            while True:
                following = file.read(CHUNK_BYTES)
                write_frame(sock, encode_message(BlobChunk(chunk, not following)))
                if not following:
                    return
                chunk = following


class _HashingSink:
    """A file to write to that keeps the digest of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self._file.write(data)
