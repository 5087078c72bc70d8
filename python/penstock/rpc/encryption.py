"""TLS 1.3 on control connections, with one certificate on both ends, after the token is proved.

A peer without the token costs the server no handshake.  The server's first encrypted byte confirms
the client's certificate, so that a client whose certificate is rejected notices at once.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from penstock.errors import AuthenticationError, PartitionConnectionError

if TYPE_CHECKING:
    from penstock.network.pure.transport.tls import TlsSession

WELCOME = b"\x01"
_READ_BYTES = 64 << 10
"""Number of bytes read from the kernel at once: four TLS records."""
_SEAL_BYTES = 256 << 10
"""Size of the plaintext encrypted at once, so that a large frame is not held twice."""


class EncryptedSocket(socket.socket):
    """A socket that encrypts its bytes; one thread may read while another writes.

    It takes over the descriptor of the plain socket.
    """

    def __init__(self, plain: socket.socket, session: TlsSession) -> None:
        timeout_s = plain.gettimeout()
        super().__init__(fileno=plain.detach())
        self.settimeout(timeout_s)
        self._session = session
        self._session_lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._received = bytearray()
        self._unsent = b""

    # ---- reading: one thread -----------------------------------------------------------------

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Receive as a plain socket does."""
        self._no_flags(flags)
        while not self._received:
            data = super().recv(_READ_BYTES)
            if not data:
                return b""
            self._open(data)
        piece = bytes(self._received[:bufsize])
        del self._received[:bufsize]
        return piece

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive as a plain socket does."""
        view = memoryview(buffer).cast("B")
        piece = self.recv(nbytes or len(view), flags)
        view[: len(piece)] = piece
        return len(piece)

    def _open(self, data: bytes) -> None:
        try:
            with self._session_lock:
                self._received += self._session.open(memoryview(data))
        except PartitionConnectionError as error:
            raise ConnectionAbortedError(str(error)) from error

    # ---- writing -----------------------------------------------------------------------------

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send as a plain socket does."""
        self._no_flags(flags)
        view = memoryview(data).cast("B")
        with self._send_lock:
            for start in range(0, len(view), _SEAL_BYTES):
                super().sendall(self._take_unsent() + self._seal(view[start : start + _SEAL_BYTES]))

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send as a plain socket does; the next call sends any rest of the accepted bytes first.

        Raises:
            BlockingIOError: No byte was accepted.
        """
        self._no_flags(flags)
        with self._send_lock:
            if self._unsent:
                self._unsent = self._unsent[super().send(self._unsent) :]
                if self._unsent:
                    raise BlockingIOError
            self._unsent = self._seal(memoryview(data).cast("B"))
            with contextlib.suppress(BlockingIOError):  # the next call sends it first
                self._unsent = self._unsent[super().send(self._unsent) :]
        return len(data)

    def _seal(self, plaintext: memoryview) -> bytes:
        with self._session_lock:
            return self._session.seal(plaintext)

    def _take_unsent(self) -> bytes:
        unsent, self._unsent = self._unsent, b""
        return unsent

    def _no_flags(self, flags: int) -> None:
        if flags:
            raise ValueError("an encrypted socket supports no flags")

    # ---- the beginning -----------------------------------------------------------------------

    def shake_hands(self, timeout_s: float) -> None:
        """Block until both ends have proved the certificate.

        Raises:
            AuthenticationError: The peer has another certificate, or does not use TLS.
            OSError: It is gone, or was too slow.
        """
        deadline_s = time.monotonic() + timeout_s
        session = self._session
        try:
            session.shake_hands()
            while True:
                if outgoing := session.take_outgoing():
                    super().sendall(outgoing)
                if session.is_established:
                    return
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError("the peer was too slow to show its certificate")
                self.settimeout(left_s)
                data = super().recv(_READ_BYTES)
                if not data:
                    raise AuthenticationError("the peer disconnected before the TLS handshake")
                self._received += session.open(memoryview(data))
        except (AuthenticationError, PartitionConnectionError) as error:
            if alert := session.take_outgoing():
                super().sendall(alert)
            raise AuthenticationError(str(error)) from error


def encrypted_by_server(
    sock: socket.socket, identity: tuple[bytes, bytes], timeout_s: float
) -> EncryptedSocket:
    """Return the server's end of a connection whose peer has proved the token.

    It owns the socket.

    Raises:
        AuthenticationError: The peer has another certificate or none, or does not use TLS.
        OSError: It is gone, or was too slow.
    """
    encrypted = EncryptedSocket(sock, _contexts(identity).accept())
    try:
        encrypted.shake_hands(timeout_s)
        encrypted.settimeout(timeout_s)
        encrypted.sendall(WELCOME)
    except BaseException:
        encrypted.close()
        raise
    return encrypted


def encrypted_by_client(
    sock: socket.socket, identity: tuple[bytes, bytes], timeout_s: float
) -> EncryptedSocket:
    """Return the client's end of a connection; it owns the socket.

    Raises:
        AuthenticationError: The server has another certificate, or rejects this one.
        OSError: It is gone, or was too slow.
    """
    encrypted = EncryptedSocket(sock, _contexts(identity).connect())
    try:
        encrypted.shake_hands(timeout_s)
        encrypted.settimeout(timeout_s)
        try:
            welcome = encrypted.recv(1)
        except ConnectionError as error:
            raise AuthenticationError(f"the server refuses this certificate: {error}") from error
        if welcome != WELCOME:
            raise AuthenticationError("the server refuses this certificate")
    except BaseException:
        encrypted.close()
        raise
    return encrypted


def _contexts(identity: tuple[bytes, bytes]) -> Any:
    # Imported here because most processes do not need it.
    from penstock.network.pure.transport.tls import TlsContexts

    return TlsContexts(*identity)
