"""The driver's one listening port.

Every connection authenticates first, in a thread of its own and within a deadline; then the
handler that is registered for the role it proved takes the socket over.  A peer that sends
garbage or a wrong token, or that is too slow, is dropped with a log line and disturbs nobody
else.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable

from penstock.errors import AuthenticationError
from penstock.rpc.authentication import authenticate_client

logger = logging.getLogger(__name__)

AUTHENTICATION_TIMEOUT_S = 10.0
MAX_UNAUTHENTICATED = 64
"""Peers that may be authenticating at the same time; more wait in the kernel's queue."""

Handler = Callable[[socket.socket, str], None]
"""Takes an authenticated socket and the peer's address; called in the connection's own thread,
which ends when the handler returns.  The handler owns the socket: closing the server leaves it
alone."""


class RpcServer:
    """Accepts connections on one port and hands them to the handler of their role."""

    def __init__(self, token: bytes, bind_host: str = "127.0.0.1", port: int = 0) -> None:
        self._token = token
        self._handlers: dict[str, Handler] = {}
        self._listener = socket.create_server((bind_host, port), backlog=256)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._places = threading.BoundedSemaphore(MAX_UNAUTHENTICATED)
        self._lock = threading.Lock()
        self._pending: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._closed = False
        self._acceptor = threading.Thread(target=self._accept, name="rpc server", daemon=True)

    def register(self, role: str, handler: Handler) -> None:
        """Registers the handler of a role; before `start`."""
        if role in self._handlers:
            raise ValueError(f"role {role!r} has a handler already")
        self._handlers[role] = handler

    def start(self) -> None:
        """Starts accepting."""
        self._acceptor.start()

    def close(self, timeout_s: float = 5.0) -> None:
        """Stops listening and drops whoever is still authenticating; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            pending = list(self._pending)
            threads = list(self._threads)
        with contextlib.suppress(
            OSError
        ):  # not every platform lets a listening socket be shut down
            # Wakes the thread in accept(); closing alone would leave it there.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in pending:
            _shut(sock)
        for thread in (self._acceptor, *threads):
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(timeout_s)

    def _accept(self) -> None:
        while True:
            self._places.acquire()
            try:
                sock, address = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                logger.exception("the rpc server cannot accept connections")
                return
            thread = threading.Thread(
                target=self._serve,
                args=(sock, f"{address[0]}:{address[1]}"),
                name=f"rpc connection {address[1]}",
                daemon=True,
            )
            with self._lock:
                if self._closed:
                    sock.close()
                    return
                self._pending.add(sock)
                self._threads.add(thread)
            thread.start()

    def _serve(self, sock: socket.socket, peer: str) -> None:
        handler = self._authenticate(sock, peer)
        with self._lock:
            self._pending.discard(sock)
            self._threads.discard(threading.current_thread())
            closed = self._closed
        if handler is None or closed:
            sock.close()
            return
        handler(sock, peer)

    def _authenticate(self, sock: socket.socket, peer: str) -> Handler | None:
        try:
            sock.settimeout(AUTHENTICATION_TIMEOUT_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            role = authenticate_client(sock, self._token)
        except (AuthenticationError, OSError) as error:
            if not self._closed:
                logger.warning("dropped %s: %s", peer, error)
            return None
        finally:
            self._places.release()
        handler = self._handlers.get(role)
        if handler is None:
            logger.warning("dropped %s: nobody serves the role %r", peer, role)
        return handler


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed meanwhile
        sock.shutdown(socket.SHUT_RDWR)
