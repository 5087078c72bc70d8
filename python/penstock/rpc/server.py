"""The driver's one listening port.

One thread accepts connections and lets their peers authenticate, within a single deadline each;
then the handler registered for the proved role owns the socket, in a thread of its own.  A peer
that sends garbage or a wrong token, that is too slow, or that is one of too many unauthenticated
ones, is dropped and disturbs no other peer.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable

from penstock.errors import AuthenticationError
from penstock.rpc.admission import (
    ACCEPT_PAUSE_S,
    ACCEPTS_PER_TURN,
    DropLog,
    Unproven,
    is_scarcity,
    origin_of,
)
from penstock.rpc.authentication import ServerHandshake
from penstock.rpc.encryption import encrypted_by_server

logger = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S = 10.0
LISTEN_BACKLOG = 1024
"""Connections that the kernel queues: all workers of a large job may connect at once."""

Handler = Callable[[socket.socket, str], None]
"""Receives an authenticated socket, encrypted if the server encrypts, and the peer's address;
called in the connection's own thread, which ends when the handler returns.  The handler owns the
socket: closing the server leaves it alone.
"""


class _Guest:
    """A connection whose peer has not authenticated yet."""

    def __init__(
        self, sock: socket.socket, peer: str, handshake: ServerHandshake, deadline_s: float
    ) -> None:
        self.socket = sock
        self.peer = peer
        self.deadline_s = deadline_s
        self.handshake = handshake

    def greet(self) -> None:
        """Send the server's greeting.

        Raises:
            OSError: the peer is gone.
        """
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._send(self.handshake.greeting)

    def hear(self) -> str | None:
        """Process the received bytes; return the peer's role once it is proved.

        Raises:
            AuthenticationError: it does not hold the token, or sends something else.
            OSError: it is gone.
        """
        while missing := self.handshake.missing_bytes:
            try:
                # Not a byte more: the following bytes are for the handler.
                data = self.socket.recv(missing)
            except (BlockingIOError, InterruptedError):
                return None
            if not data:
                raise AuthenticationError("the peer disconnected while authenticating")
            if proof := self.handshake.receive(data):
                self._send(proof)
        return self.handshake.role

    def _send(self, data: bytes) -> None:
        # The first bytes of a connection always fit.
        if self.socket.send(data) < len(data):
            raise AuthenticationError("the peer reads nothing while authenticating")


class RpcServer:
    """Accepts connections on one port and passes them to the handler of their role.

    Args:
        token: the token that peers must hold.
        bind_host: the address to listen on.
        port: the port; the kernel chooses if 0.
        handshake_timeout_s: the total time in which a peer must authenticate.
        tls_identity: the certificate that both ends of every connection present, and its key (DER);
            None for plain connections.
    """

    def __init__(
        self,
        token: bytes,
        bind_host: str = "127.0.0.1",
        port: int = 0,
        *,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
        tls_identity: tuple[bytes, bytes] | None = None,
    ) -> None:
        self._token = token
        self._handshake_timeout_s = handshake_timeout_s
        self._tls_identity = tls_identity
        self._handlers: dict[str, Handler] = {}
        self._listener = socket.create_server((bind_host, port), backlog=LISTEN_BACKLOG)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._wake_receive, self._wake_send = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_receive, selectors.EVENT_READ)
        self._guests: Unproven[_Guest] = Unproven()
        self._drops = DropLog(logger)
        self._paused_until_s: float | None = 0.0
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="rpc server", daemon=True)

    def register(self, role: str, handler: Handler) -> None:
        """Register the handler of a role; before `start`."""
        if role in self._handlers:
            raise ValueError(f"role {role!r} has a handler already")
        self._handlers[role] = handler

    def start(self) -> None:
        """Start accepting."""
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop listening and drop unauthenticated connections; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            with contextlib.suppress(OSError):  # the thread has ended because of a defect
                self._wake_send.send(b"\0")
        if self._thread.ident is None:
            self._release()
        elif threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    # ---- the server's thread -----------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closed:
                self._turn()
        finally:
            self._release()

    def _release(self) -> None:
        for guest in list(self._guests):
            guest.socket.close()
        self._listener.close()
        self._selector.close()
        self._wake_receive.close()
        self._wake_send.close()

    def _turn(self) -> None:
        now_s = time.monotonic()
        if self._paused_until_s is not None and now_s >= self._paused_until_s:
            self._paused_until_s = None
            self._selector.register(self._listener, selectors.EVENT_READ)
        self._drop_late(now_s)
        self._drops.tell(now_s)
        accepting = False
        for key, _ in self._selector.select(self._wait_s(now_s)):
            if key.fileobj is self._listener:
                accepting = True
            elif isinstance(key.data, _Guest):
                self._hear(key.data)
        # Last: a connection that has sent something by now is not dropped for new ones.
        if accepting:
            self._accept()

    def _wait_s(self, now_s: float) -> float | None:
        """Return the time until the next deadline, in s; None if there is none."""
        first = next(iter(self._guests), None)
        times = (
            self._paused_until_s,
            self._drops.next_line_s(),
            None if first is None else first.deadline_s,
        )
        due_s = min((time_s for time_s in times if time_s is not None), default=None)
        return None if due_s is None else max(0.0, due_s - now_s)

    def _drop_late(self, now_s: float) -> None:
        # They are ordered by their deadlines.
        while (guest := next(iter(self._guests), None)) and guest.deadline_s <= now_s:
            self._drop(guest, "it did not authenticate in time")

    def _accept(self) -> None:
        for accepted in range(ACCEPTS_PER_TURN):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if not is_scarcity(error):
                    # That connection is gone again; others are waiting.
                    logger.debug("a connection was not accepted: %s", error)
                    continue
                if accepted:
                    # Perhaps no connection waits any more; the system reports the same error then.
                    return
                if (guest := self._guests.dispensable()) is not None:
                    self._drop(guest, f"its place is needed for another connection: {error}")
                    return
                self._pause(error)
                return
            self._admit(sock, address)

    def _pause(self, error: OSError) -> None:
        now_s = time.monotonic()
        self._drops.note(f"no connection can be accepted for the moment: {error}", now_s)
        self._selector.unregister(self._listener)
        self._paused_until_s = now_s + ACCEPT_PAUSE_S

    def _admit(self, sock: socket.socket, address: tuple[str, int]) -> None:
        peer = f"{address[0]}:{address[1]}"
        deadline_s = time.monotonic() + self._handshake_timeout_s
        handshake = ServerHandshake(self._token, encrypts=self._tls_identity is not None)
        guest = _Guest(sock, peer, handshake, deadline_s)
        self._selector.register(sock, selectors.EVENT_READ, guest)
        superfluous = self._guests.enter(guest, origin_of(address[0]))
        if superfluous is not None:
            self._drop(
                superfluous, "too many unauthenticated connections, most of them of its address"
            )
        try:
            guest.greet()
        except (AuthenticationError, OSError) as error:
            self._drop(guest, error)

    def _hear(self, guest: _Guest) -> None:
        try:
            role = guest.hear()
        except (AuthenticationError, OSError) as error:
            self._drop(guest, error)
            return
        if role is None:
            return
        handler = self._handlers.get(role)
        if handler is None:
            self._drop(guest, f"there is no handler for the role {role!r}")
            return
        self._leave(guest)
        guest.socket.settimeout(self._handshake_timeout_s)
        thread = threading.Thread(
            target=self._serve,
            args=(handler, guest.socket, guest.peer),
            name=f"rpc connection {guest.peer}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system cannot start another thread
            guest.socket.close()
            self._drops.note(f"dropped {guest.peer}: {error}", time.monotonic())

    def _serve(self, handler: Handler, sock: socket.socket, peer: str) -> None:
        """Serve in the connection's own thread: an authenticated peer may still be slow."""
        if self._tls_identity is not None:
            try:
                sock = encrypted_by_server(sock, self._tls_identity, self._handshake_timeout_s)
            except (AuthenticationError, OSError) as error:
                logger.warning(
                    "dropped %s, which holds the token: its connection is to be encrypted "
                    "(security.ssl.internal.enabled): %s",
                    peer,
                    error,
                )
                return
        handler(sock, peer)

    def _drop(self, guest: _Guest, reason: object) -> None:
        self._leave(guest)
        with contextlib.suppress(OSError):  # closing reports the peer's error
            guest.socket.close()
        self._drops.note(f"dropped {guest.peer}: {reason}", time.monotonic())

    def _leave(self, guest: _Guest) -> None:
        self._guests.leave(guest)
        self._selector.unregister(guest.socket)
