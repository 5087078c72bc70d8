"""The driver's end of execute-and-collect: results of a job's collect sinks, as raw batches.

Each connection has a bounded queue.  If the reader of the results is too slow, the queue fills, the
connection's thread stops reading, TCP's window closes and the sink waits: the job slows down, and
the driver's memory does not grow.  Only while a requested checkpoint is pending is the queue
unbounded: its barriers wait behind results, and the program that should read those may be waiting
for the checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.errors import CorruptStreamError
from penstock.jobmaster.uncommitted_results import UncommittedResults
from penstock.rpc.collect_messages import (
    CollectAccepted,
    CollectBatch,
    CollectCommitted,
    CollectFinished,
    CollectHello,
    CollectResume,
    CollectSync,
    collect_decoder,
)
from penstock.rpc.frames import read_frame, write_frame
from penstock.rpc.message import encode_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from penstock.rpc.collect_messages import FromCollector

logger = logging.getLogger(__name__)

MAX_QUEUED_BATCHES = 16
MAX_BATCH_BYTES = 1024 * 1024 * 1024


class CollectResults:
    """The results of one collect sink, of all its subtasks together.

    The batches of one subtask are in order; between subtasks there is no order.  The end is
    reached when the job has ended (`job_ended`) and all received batches were taken.  If the sink
    takes part in checkpoints, batches become available when a complete checkpoint holds them.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches: deque[tuple[int, bytes]] = deque()
        self._waiting: dict[int, int] = {}
        self._connections: set[socket.socket] = set()
        self._uncommitted = UncommittedResults()
        self._awaited_checkpoints = 0
        #: Handles a message of a sink that takes part in checkpoints; true if it awaits an answer.
        self._handlers: dict[type[FromCollector], Callable[[Any, int, int], bool]] = {
            CollectResume: self._resume,
            CollectSync: self._sync,
            CollectCommitted: self._committed,
        }
        self._job_ended = False
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield batches until the end; block while there is none."""
        while True:
            batch = self.take()
            if batch is None:
                return
            yield batch

    def take(self, timeout_s: float | None = None) -> bytes | None:
        """Return the next batch; None at the end.

        Raises:
            TimeoutError: none arrived within ``timeout_s``.
        """
        with self._changed:
            if not self._changed.wait_for(self._can_take, timeout_s):
                raise TimeoutError(f"no result within {timeout_s} s")
            if not self._batches:
                return None
            connection, batch = self._batches.popleft()
            self._waiting[connection] -= 1
            self._changed.notify_all()
            return batch

    def job_ended(self) -> None:
        """Mark the job as ended: after the connections are drained, the end is reached."""
        with self._changed:
            self._job_ended = True
            self._changed.notify_all()

    def begin_checkpoint(self) -> None:
        """Read from the connections without a bound, until `end_checkpoint`."""
        with self._changed:
            self._awaited_checkpoints += 1
            self._changed.notify_all()

    def end_checkpoint(self, checkpoint: Future[object]) -> None:
        """Restore the bound: a requested checkpoint is complete or has failed."""
        del checkpoint
        with self._changed:
            self._awaited_checkpoints -= 1

    def close(self) -> None:
        """Reject further results and drop the connections.  Any thread, idempotent."""
        with self._changed:
            self._closed = True
            self._batches.clear()
            connections = list(self._connections)
            self._changed.notify_all()
        for sock in connections:
            with contextlib.suppress(OSError):  # the sink closed first
                sock.shutdown(socket.SHUT_RDWR)

    def _can_take(self) -> bool:
        return bool(self._batches or self._closed or (self._job_ended and not self._connections))

    def serve(self, sock: socket.socket, attempt: int = 0) -> None:
        """Read one authenticated connection to its end, in the connection's own thread.

        Args:
            sock: The connection of one attempt of a subtask.
            attempt: Its number.
        """
        key = id(sock)
        with self._changed:
            if self._closed:
                sock.close()
                return
            self._connections.add(sock)
            self._waiting[key] = 0
        try:
            self._read(sock, key, attempt)
        except (OSError, CorruptStreamError) as error:
            if not self._closed:
                logger.warning("a collect connection ended early: %s", error)
        finally:
            sock.close()
            with self._changed:
                self._connections.discard(sock)
                self._changed.notify_all()

    def _read(self, sock: socket.socket, key: int, attempt: int) -> None:
        write_frame(sock, encode_message(CollectAccepted()))
        decoder = collect_decoder()
        parts: list[bytes] = []
        commits = False
        while (body := read_frame(sock)) is not None:
            message = decoder.decode(body)
            if isinstance(message, CollectFinished):
                if commits:
                    with self._changed:
                        self._show(key, self._uncommitted.finish(attempt))
                return
            if not isinstance(message, CollectBatch):
                self._handle(message, sock, key, attempt)
                commits = True
                continue
            parts.append(message.data)
            if sum(map(len, parts)) > MAX_BATCH_BYTES:
                raise CorruptStreamError(f"a batch of more than {MAX_BATCH_BYTES} bytes")
            if message.last:
                batch = b"".join(parts)
                parts = []
                with self._changed:
                    self._changed.wait_for(
                        lambda: (
                            self._closed
                            or self._awaited_checkpoints
                            or self._waiting[key] < MAX_QUEUED_BATCHES
                        )
                    )
                    if self._closed:
                        return
                    if commits:
                        self._uncommitted.add(attempt, batch)
                    else:
                        self._show(key, [batch])
        if parts:
            raise CorruptStreamError("the connection ended inside a batch")

    def _handle(self, message: FromCollector, sock: socket.socket, key: int, attempt: int) -> None:
        """Handle a message of a sink that takes part in checkpoints, and answer if required."""
        with self._changed:
            handler = self._handlers.get(type(message))
            if handler is None:
                raise CorruptStreamError(f"unexpected {type(message).__name__} of a collect sink")
            is_question = handler(message, key, attempt)
        if is_question:
            write_frame(sock, encode_message(CollectAccepted()))

    def _resume(self, message: CollectResume, key: int, attempt: int) -> bool:
        self._show(key, self._uncommitted.resume(attempt, message.offset))
        return True

    def _sync(self, message: CollectSync, _: int, attempt: int) -> bool:
        self._uncommitted.check_complete(attempt, message.offset)
        return True

    def _committed(self, message: CollectCommitted, key: int, attempt: int) -> bool:
        self._show(key, self._uncommitted.commit(attempt, message.offset))
        return False

    def _show(self, key: int, batches: Iterable[bytes]) -> None:
        """Make batches available; the lock is held."""
        for batch in batches:
            self._waiting[key] += 1
            self._batches.append((key, batch))
        self._changed.notify_all()


class CollectService:
    """Assigns collect connections to the results that wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[tuple[bytes, str], CollectResults] = {}

    def register(self, job_id: bytes, collect_id: str) -> CollectResults:
        """Create the results of a collect sink, before the job is submitted."""
        results = CollectResults()
        with self._lock:
            if (job_id, collect_id) in self._results:
                raise ValueError(f"collect id {collect_id!r} is in use in job {job_id.hex()}")
            self._results[(job_id, collect_id)] = results
        return results

    def results(self, job_id: bytes, collect_id: str) -> CollectResults:
        """Return the results of a registered sink.

        Raises:
            KeyError: nobody registered it.
        """
        with self._lock:
            return self._results[(job_id, collect_id)]

    def take_all_until(self, job_id: bytes, checkpoint: Future[object]) -> None:
        """Receive a job's results, read or not, until a checkpoint is done."""
        for results in self._of(job_id):
            results.begin_checkpoint()
            checkpoint.add_done_callback(results.end_checkpoint)

    def job_ended(self, job_id: bytes) -> None:
        """Notify the job's results that no further sink will connect."""
        for results in self._of(job_id):
            results.job_ended()

    def forget(self, job_id: bytes) -> None:
        """Discard what is left of a job's results."""
        with self._lock:
            forgotten = [self._results.pop(key) for key in list(self._results) if key[0] == job_id]
        for results in forgotten:
            results.close()

    def close(self) -> None:
        """Drop all connections."""
        with self._lock:
            everything = list(self._results.values())
            self._results.clear()
        for results in everything:
            results.close()

    def serve(self, sock: socket.socket, peer: str) -> None:
        """Handle a connection of the role "collect"."""
        try:
            body = read_frame(sock)
            hello = None if body is None else collect_decoder().decode(body)
        except (OSError, CorruptStreamError) as error:
            logger.warning("dropped %s: %s", peer, error)
            sock.close()
            return
        if not isinstance(hello, CollectHello):
            logger.warning("dropped %s: a collect connection starts with its job", peer)
            sock.close()
            return
        with self._lock:
            results = self._results.get((hello.job_id, hello.collect_id))
        if results is None:
            logger.warning("dropped %s: no program reads the results %r", peer, hello.collect_id)
            sock.close()
            return
        sock.settimeout(None)
        results.serve(sock, hello.attempt_number)

    def _of(self, job_id: bytes) -> list[CollectResults]:
        with self._lock:
            return [results for key, results in self._results.items() if key[0] == job_id]
