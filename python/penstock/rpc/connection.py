"""A control connection: one reading thread, one writing thread, messages in and out.

Sending never blocks the caller: messages wait in a bounded queue for the writing thread, so a
peer that stops reading cannot hold up the JobMaster's main thread.  A queue that is full means
that the peer is gone in all but name, and the connection is closed.

`on_closed` is called exactly once, from the reading thread, after the last `on_message`.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import threading
from typing import TYPE_CHECKING, Any

from penstock.errors import CorruptStreamError
from penstock.rpc.frames import FrameReader, framed
from penstock.rpc.message import Message, MessageDecoder, encode_message

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

MAX_QUEUED_MESSAGES = 4096

MAX_SENT_BYTES = 65_536
"""What is sent at once of several messages, but for the last one."""

CLOSE_TIMEOUT_S = 2.0


class Connection:
    """Sends and receives the messages of one authenticated connection."""

    def __init__(
        self,
        sock: socket.socket,
        decoder: MessageDecoder[Any],
        on_message: Callable[[Any], None],
        on_closed: Callable[[str], None],
        name: str,
    ) -> None:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name = name
        self._socket = sock
        self._decoder = decoder
        self._on_message = on_message
        self._on_closed = on_closed
        self._outgoing: queue.Queue[bytes | None] = queue.Queue(MAX_QUEUED_MESSAGES)
        self._lock = threading.Lock()
        self._closing = False
        self._reason = ""
        self._reader = threading.Thread(target=self._read, name=f"{name} reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name=f"{name} writer", daemon=True)

    def start(self) -> None:
        """Starts both threads; messages may arrive before this returns.

        A connection that was closed before is over at once.
        """
        with self._lock:
            if not self._closing:
                self._writer.start()
                self._reader.start()
                return
        self._socket.close()
        self._on_closed(self._reason)

    @property
    def waiting(self) -> int:
        """How many messages wait to be sent."""
        return self._outgoing.qsize()

    def send(self, message: Message) -> bool:
        """Queues a message; returns False when the connection is closed or its peer stuck."""
        if self._closing:
            return False
        try:
            self._outgoing.put_nowait(encode_message(message))
        except queue.Full:
            self.close(f"{self.name}: {MAX_QUEUED_MESSAGES} messages wait, the peer does not read")
            return False
        return True

    def close(self, reason: str) -> None:
        """Closes at once; queued messages are dropped.  Any thread, idempotent."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._reason = reason
        with contextlib.suppress(
            queue.Full
        ):  # the writer is busy sending and wakes by the shutdown below
            self._outgoing.put_nowait(None)
        with contextlib.suppress(OSError):  # the peer was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def close_after_flush(self, reason: str) -> None:
        """Sends what is queued, then closes; gives up after `CLOSE_TIMEOUT_S`."""
        try:
            self._outgoing.put_nowait(None)
        except queue.Full:
            self.close(reason)
            return
        self._reason = self._reason or reason
        if threading.current_thread() is not self._writer:
            self._writer.join(CLOSE_TIMEOUT_S)
        self.close(reason)

    def join(self, timeout_s: float) -> bool:
        """Waits for both threads to end, if they were started; returns whether they did."""
        with self._lock:
            if self._writer.ident is None:
                return True
        for thread in (self._reader, self._writer):
            if thread is not threading.current_thread():
                thread.join(timeout_s)
        return not (self._reader.is_alive() or self._writer.is_alive())

    def _read(self) -> None:
        reason = "the peer closed the connection"
        frames = FrameReader(self._socket)
        try:
            while (body := frames.read()) is not None:
                self._on_message(self._decoder.decode(body))
        except CorruptStreamError as error:
            reason = f"dropped for sending something that is no message: {error}"
            logger.warning("%s: %s", self.name, reason)
        except OSError as error:
            reason = f"the connection broke: {error}"
        except Exception:
            logger.exception("%s: a message could not be handled", self.name)
            reason = "a message could not be handled"
        self.close(reason)
        self._writer.join(CLOSE_TIMEOUT_S)
        self._socket.close()
        self._on_closed(self._reason)

    def _with_those_behind(self, frames: bytes) -> tuple[bytes, bool]:
        """Small messages that wait behind one, to be sent with it; whether the end is behind."""
        taken, size = [frames], len(frames)
        while size < MAX_SENT_BYTES:
            try:
                body = self._outgoing.get_nowait()
            except queue.Empty:
                break
            if body is None:
                return b"".join(taken), True
            taken.append(framed(body))
            size += len(body)
        return b"".join(taken), False

    def _write(self) -> None:
        try:
            while (body := self._outgoing.get()) is not None:
                if self._closing:
                    return
                frames, is_last = self._with_those_behind(framed(body))
                self._socket.sendall(frames)
                if is_last:
                    return
        except OSError as error:
            self.close(f"the connection broke: {error}")
        except ValueError as error:
            logger.error("%s: %s", self.name, error)
            self.close(str(error))
