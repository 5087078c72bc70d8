"""A control connection: one reading thread, one writing thread.

Sending never blocks the caller: messages wait in a bounded queue for the writing thread, so a
peer that stops reading cannot block the JobMaster's main thread.  A full queue means that the peer
is practically lost, and the connection is closed.

A message that may wait is sent with the next one that may not, or after a delay: otherwise each of
hundreds of simultaneous reports would wake the writing thread here and the reader there.  The order
is preserved.

`on_closed` is called exactly once, from the reading thread, after the last `on_messages`.
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
from penstock.rpc.message import Message, MessageDecoder, encode_message, encode_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

MAX_QUEUED_MESSAGES = 4096

MAX_HELD_MESSAGES = 256
"""Number of messages that wait for a delayed one."""

HELD_S = 0.01
"""Time that a message may be delayed."""

MAX_RECEIVED_MESSAGES = 64
"""Number of messages passed on at once."""

MAX_SENT_BYTES = 65_536
"""Bytes of several messages sent at once, except for the last one."""

CLOSE_TIMEOUT_S = 2.0


class Connection:
    """Sends and receives the messages of one authenticated connection."""

    def __init__(
        self,
        sock: socket.socket,
        decoder: MessageDecoder[Any],
        on_messages: Callable[[list[Any]], None],
        on_closed: Callable[[str], None],
        name: str,
        encode_held: Callable[[Sequence[Message]], list[bytes]] = encode_messages,
    ) -> None:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name = name
        self._socket = sock
        self._decoder = decoder
        self._on_messages = on_messages
        self._on_closed = on_closed
        # An empty list signals that there are messages that may wait.
        self._outgoing: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self._held: list[Message] = []
        self._encode_held = encode_held
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._closing = False
        self._reason = ""
        self._reader = threading.Thread(target=self._read, name=f"{name} reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name=f"{name} writer", daemon=True)

    def start(self) -> None:
        """Start both threads; messages may arrive before this returns.

        A connection that was closed before ends at once.
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
        """Number of messages waiting to be sent."""
        return self._outgoing.qsize() + len(self._held)

    def send(self, message: Message, *, may_wait: bool = False) -> bool:
        """Queue a message; return False if the connection is closed or its peer is stuck.

        Args:
            message: The message.
            may_wait: Whether it may be delayed by `HELD_S`, to be sent with others.
        """
        if self._closing:
            return False
        body = None if may_wait else encode_message(message)
        with self._sending:
            if body is not None:
                bodies = [*self._encoded_held(), body]
            else:
                self._held.append(message)
                if len(self._held) >= MAX_HELD_MESSAGES:
                    bodies = self._encoded_held()
                elif len(self._held) == 1:
                    bodies = []
                else:
                    return True
            is_full = self._outgoing.qsize() >= MAX_QUEUED_MESSAGES
            if not is_full:
                self._outgoing.put(bodies)
        if is_full:
            self.close(f"{self.name}: {MAX_QUEUED_MESSAGES} messages wait, the peer does not read")
        return not is_full

    def close(self, reason: str) -> None:
        """Close at once and drop queued messages.  Any thread, idempotent."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._reason = reason
        self._outgoing.put(None)
        with contextlib.suppress(OSError):  # the peer closed first
            self._socket.shutdown(socket.SHUT_RDWR)

    def close_after_flush(self, reason: str) -> None:
        """Send queued messages, then close, after `CLOSE_TIMEOUT_S` at the latest."""
        with self._sending:
            self._outgoing.put(self._encoded_held())
            self._outgoing.put(None)
        self._reason = self._reason or reason
        if threading.current_thread() is not self._writer:
            self._writer.join(CLOSE_TIMEOUT_S)
        self.close(reason)

    def join(self, timeout_s: float) -> bool:
        """Wait for both threads to end, if they were started; return whether they did."""
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
                self._receive(body, frames)
        except CorruptStreamError as error:
            reason = f"dropped for invalid data: {error}"
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

    def _receive(self, body: bytes, frames: FrameReader) -> None:
        """Pass on a message and those received with it."""
        received: list[Any] = []
        following: bytes | None = body
        try:
            while following is not None:
                received.append(self._decoder.decode(following))
                if len(received) == MAX_RECEIVED_MESSAGES:
                    break
                following = frames.read_received()
        finally:
            # Messages before an invalid one count.
            if received:
                self._on_messages(received)

    def _with_those_behind(self, bodies: list[bytes]) -> tuple[bytes, bool]:
        """Return frames, with small ones queued behind them, and whether the end follows."""
        taken = list(map(framed, bodies))
        size = sum(map(len, taken))
        while size < MAX_SENT_BYTES:
            try:
                following = self._outgoing.get_nowait()
            except queue.Empty:
                break
            if following is None:
                return b"".join(taken), True
            frames = list(map(framed, following or self._take_held()))
            taken += frames
            size += sum(map(len, frames))
        return b"".join(taken), False

    def _take_held(self) -> list[bytes]:
        with self._sending:
            return self._encoded_held()

    def _encoded_held(self) -> list[bytes]:
        """Take the held messages, under the lock."""
        if not self._held:
            return []
        held, self._held = self._held, []
        return self._encode_held(held)

    def _next(self) -> list[bytes] | None:
        """Return the next bytes to send; None at the end."""
        bodies = self._outgoing.get()
        if bodies is None or bodies:
            return bodies
        try:
            return self._outgoing.get(timeout=HELD_S)
        except queue.Empty:
            return self._take_held()

    def _write(self) -> None:
        try:
            while (bodies := self._next()) is not None:
                if self._closing:
                    return
                frames, is_last = self._with_those_behind(bodies)
                if frames:
                    self._socket.sendall(frames)
                if is_last:
                    return
        except OSError as error:
            self.close(f"the connection broke: {error}")
        except ValueError as error:
            logger.error("%s: %s", self.name, error)
            self.close(str(error))
