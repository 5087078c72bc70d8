"""One authenticated, framed connection, served by the event loop."""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
from collections import deque
from typing import TYPE_CHECKING, Protocol

from penstock.errors import (
    AuthenticationError,
    IllegalStateError,
    NetworkError,
)
from penstock.network.pure.transport import same_host
from penstock.network.pure.transport.frame_decoder import FrameDecoder
from penstock.network.pure.wire import messages as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.network.pure.transport.event_loop import EventLoop
    from penstock.network.pure.transport.handshake import Handshake
    from penstock.network.pure.transport.listener import Drops
    from penstock.network.pure.transport.tls import TlsSession

logger = logging.getLogger(__name__)

_RECEIVES_PER_TURN = 8
_MAX_VECTORS = min(64, os.sysconf("SC_IOV_MAX"))
SEND_WATERMARK_BYTES = 256 << 10
"""If more than this waits to be sent, the connection requests no more data."""


_SOCKET_OPTIONS = {
    "TCP_NODELAY": 1,
    # A peer that vanished silently (half-open connection) is detected within half a minute.
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 30_000,
}


def _configure(sock: socket.socket) -> None:
    if sock.family == socket.AF_UNIX:
        same_host.configure(sock)
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _SOCKET_OPTIONS.items():
        # Linux has all of these options; elsewhere, set those that exist.
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


class ConnectionHandler(Protocol):
    """The role of a connection: server or client.  Called on the loop's thread."""

    def descriptors_to_show(self) -> Sequence[int]:
        """Return descriptors that the server's proof carries to a peer on this host."""

    def on_open(self, shown: Sequence[int]) -> None:
        """Start after the authentication; the peer's descriptors are closed after this call."""

    def on_message(self, message: wire.Message) -> None:
        """Handle a message."""

    def on_buffer_header(self, header: wire.BufferHeader) -> memoryview | None:
        """Return the target of a payload, or None to skip it."""

    def on_buffer_complete(self, header: wire.BufferHeader) -> None:
        """Handle a complete payload."""

    def on_writable(self) -> None:
        """Send more, since the socket is writable."""

    def on_closed(self, error: Exception | None) -> None:
        """Handle the end of the connection; the error is None if this end closed it."""


class Connection:
    """Sends and receives for one handler.  Everything happens on the loop's thread."""

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        peer: str,
        handshake: Handshake,
        handler: ConnectionHandler,
        *,
        accepts_buffers: bool,
        handshake_timeout_ms: int,
        tls: TlsSession | None,
        drops: Drops | None = None,
    ) -> None:
        """Start the handshake; `is_closed` is true if it has failed already.

        Args:
            loop: serves the socket.
            sock: connected; owned by the connection.
            peer: for messages.
            handshake: the handshake of this end.
            handler: the role of the connection.
            accepts_buffers: whether the peer may send buffers.
            handshake_timeout_ms: the total time in which the peer must authenticate.
            tls: encrypts the connection; None for plain text.
            drops: logs why unauthenticated peers are dropped, for accepted connections.
        """
        self._drops = drops
        self._loop = loop
        self._socket = sock
        self.peer = peer
        self._handler = handler
        self._handshake: Handshake | None = handshake
        self._handshake_bytes = bytearray()
        self._tls = tls
        self._decoder = FrameDecoder(handler, accepts_buffers=accepts_buffers)
        self._outgoing: deque[tuple[memoryview, Callable[[], None] | None]] = deque()
        self._outgoing_bytes = 0
        self._shown: list[int] = []
        """Descriptors received with the handshake."""
        self._awaits_descriptors = accepts_buffers and sock.family == socket.AF_UNIX
        self._mask = selectors.EVENT_READ
        self._closed = False
        sock.setblocking(False)
        _configure(sock)
        loop.register(sock, self._mask, self)
        self._timer = loop.call_later(handshake_timeout_ms / 1000, self._on_handshake_timeout)
        if tls is None:
            self._greet(handshake)
        else:
            tls.shake_hands()
            self._send_of_tls(tls)

    @property
    def is_closed(self) -> bool:
        """Return whether the connection has ended."""
        return self._closed

    @property
    def is_open(self) -> bool:
        """Return whether the peer is authenticated and the connection is open."""
        return self._handshake is None and not self._closed

    @property
    def was_open(self) -> bool:
        """Return whether the peer was authenticated, even if the connection has ended since."""
        return self._handshake is None

    @property
    def is_writable(self) -> bool:
        """Return whether more data should be queued now."""
        return self.is_open and self._outgoing_bytes < SEND_WATERMARK_BYTES

    def send(self, message: wire.Message) -> None:
        """Send a message."""
        self.queue(message)
        self._write()

    def queue(self, message: wire.Message) -> None:
        """Queue a message without sending yet."""
        self._enqueue(wire.encode(message), None)

    def queue_buffer(
        self, header: wire.BufferHeader, payload: memoryview, done: Callable[[], None]
    ) -> None:
        """Queue a buffer without sending yet; ``done`` is called when it is sent or dropped."""
        self._enqueue(wire.encode_buffer_header(header), None if len(payload) else done)
        if len(payload):
            self._enqueue(payload, done)

    def flush(self) -> None:
        """Send queued data, as far as the socket accepts it."""
        self._write()

    def drop(self, reason: str) -> None:
        """Close to make room for other connections, and log it."""
        self._log_drop(reason)
        self.close(AuthenticationError(f"{reason} (on the connection with '{self.peer}')"))

    def close(self, error: Exception | None) -> None:
        """Close now and notify the handler once, with the cause."""
        if self._closed:
            return
        self._closed = True
        self._decoder.stop()
        self._timer.cancel()
        self._loop.unregister(self._socket)
        self._socket.close()
        self._close_shown()
        outgoing, self._outgoing = self._outgoing, deque()
        for _, done in outgoing:
            if done is not None:
                done()
        self._handler.on_closed(error)

    # -- socket ---------------------------------------------------------------------------

    def on_ready(self, mask: int) -> None:
        """Serve the socket."""
        if self._closed:
            # Another event of this turn has ended the connection.
            return
        if mask & selectors.EVENT_READ:
            self._read()
        if mask & selectors.EVENT_WRITE and not self._closed:
            self._write()

    def _read(self) -> None:
        for _ in range(_RECEIVES_PER_TURN):
            buffer = self._loop.receive_buffer
            try:
                count = self._receive(buffer)
            except BlockingIOError:
                return
            except OSError as error:
                self._lost(error)
                return
            if count == 0:
                self._lost(None)
                return
            try:
                self._consume(self._decrypt(buffer[:count]))
            except (NetworkError, AuthenticationError, IllegalStateError) as error:
                # Keep only the text: the error itself would keep the buffers in its frames alive.
                text = str(error)
                self._log_drop(text)
                self.close(type(error)(f"{text} (on the connection with '{self.peer}')"))
            if self._closed or count < len(buffer):
                return

    def _receive(self, into: memoryview) -> int:
        if self._handshake is None or not self._awaits_descriptors:
            # The kernel closes descriptors that are not received.
            return self._socket.recv_into(into)
        count, shown = same_host.receive(self._socket, into)
        self._shown += shown
        # If there are too many, the peer is rejected and none needs to be kept.
        while len(self._shown) > same_host.MAX_DESCRIPTORS:
            os.close(self._shown.pop())
        return count

    def _close_shown(self) -> None:
        shown, self._shown = self._shown, []
        for descriptor in shown:
            os.close(descriptor)

    def _decrypt(self, data: memoryview) -> memoryview:
        tls = self._tls
        if tls is None:
            return data
        was_established = tls.is_established
        try:
            plaintext = tls.open(data)
        finally:
            # Also after a failure, since the alert tells the peer the cause.
            self._send_of_tls(tls)
        if self._handshake is not None and tls.is_established and not was_established:
            self._greet(self._handshake)
        return memoryview(plaintext)

    def _send_of_tls(self, tls: TlsSession) -> None:
        if data := tls.take_outgoing():
            self._append(data, None)
            self._write()

    def _greet(self, handshake: Handshake) -> None:
        if greeting := handshake.greeting():
            self._enqueue(greeting, None)
            self._write()

    def _consume(self, data: memoryview) -> None:
        while not self._closed and self._handshake is not None and len(data):
            handshake = self._handshake
            count = min(handshake.expects_bytes - len(self._handshake_bytes), len(data))
            self._handshake_bytes += data[:count]
            data = data[count:]
            if len(self._handshake_bytes) < handshake.expects_bytes:
                return
            received, self._handshake_bytes = bytes(self._handshake_bytes), bytearray()
            answer, done = handshake.answer(received)
            if answer:
                self._answer(answer, is_proof=done)
            if done and not self._closed:
                self._handshake = None
                self._timer.cancel()
                try:
                    self._handler.on_open(self._shown)
                finally:
                    self._close_shown()
        if len(data) and not self._closed:
            self._decoder.feed(data)

    def _answer(self, answer: bytes, *, is_proof: bool) -> None:
        # The descriptors belong to the proof, so no data may be queued before it.
        if is_proof and self._socket.family == socket.AF_UNIX and not self._outgoing:
            answer = self._show(answer)
        if answer:
            self._enqueue(answer, None)
            self._write()

    def _show(self, proof: bytes) -> bytes:
        """Send a proof with its descriptors, if any; return the remaining bytes."""
        descriptors = self._handler.descriptors_to_show()
        if not descriptors:
            return proof
        try:
            return proof[socket.send_fds(self._socket, [proof], descriptors) :]
        except OSError as error:
            logger.warning("buffers go to %s by the socket: %s", self.peer, error)
            return proof

    def _enqueue(self, data: bytes | memoryview, done: Callable[[], None] | None) -> None:
        if self._closed:
            if done is not None:
                done()
            return
        if self._tls is not None:
            data = self._tls.seal(data)
            if done is not None:
                # The ciphertext is sent, so the buffer is no longer needed.
                done()
                done = None
        self._append(data, done)

    def _append(self, data: bytes | memoryview, done: Callable[[], None] | None) -> None:
        self._outgoing.append((memoryview(data), done))
        self._outgoing_bytes += len(data)

    def _write(self) -> None:
        while self._outgoing and not self._closed:
            vectors = [self._outgoing[i][0] for i in range(min(_MAX_VECTORS, len(self._outgoing)))]
            try:
                sent = self._socket.sendmsg(vectors)
            except BlockingIOError:
                break
            except OSError as error:
                self._lost(error)
                return
            self._outgoing_bytes -= sent
            self._drop_sent(sent)
            if self.is_writable:
                self._handler.on_writable()
        if self._closed:
            return
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        if mask != self._mask:
            self._mask = mask
            self._loop.modify(self._socket, mask, self)

    def _drop_sent(self, sent: int) -> None:
        while sent:
            head, done = self._outgoing[0]
            if sent < len(head):
                self._outgoing[0] = (head[sent:], done)
                return
            sent -= len(head)
            self._outgoing.popleft()
            if done is not None:
                done()

    def _lost(self, error: OSError | None) -> None:
        if self._handshake is not None:
            self._log_drop("it disconnected before it had authenticated")
        if error is None:
            text = f"Connection unexpectedly closed by remote task manager '{self.peer}'"
        elif error.errno == errno.ECONNRESET:
            text = f"Connection reset by peer '{self.peer}'"
        else:
            text = f"Connection with '{self.peer}' failed: {error}"
        self.close(ConnectionError(text + "; the remote task manager may have been lost"))

    def _on_handshake_timeout(self) -> None:
        self._log_drop("it did not authenticate in time")
        # The timer is stopped when the handshake ends.
        assert self._handshake is not None
        self.close(self._handshake.too_late(self.peer))

    def _log_drop(self, reason: str) -> None:
        if self._drops is not None and self._handshake is not None:
            self._drops.note(f"dropped {self.peer}: {reason}")
        else:
            logger.warning("dropping the connection with %s: %s", self.peer, reason)
