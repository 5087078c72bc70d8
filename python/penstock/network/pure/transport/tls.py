"""TLS between hosts: TLS 1.3, in which both ends present the single certificate of their job.

The session works on bytes without a socket; the connection transfers its output.
"""

from __future__ import annotations

import base64
import os
import ssl

from penstock.errors import AuthenticationError, PartitionConnectionError

_SERVER_NAME = "executor.penstock.internal"
"""The name in every job's certificate; the native runtime and the driver use the same."""

_READ_BYTES = 16 << 10
"""Largest plaintext in one TLS record."""


class TlsContexts:
    """Opens both ends of TLS connections with one identity."""

    def __init__(self, certificate: bytes, private_key: bytes) -> None:
        """Load the job's certificate (X.509) and its key (PKCS #8), both in DER.

        Raises:
            AuthenticationError: the certificate or the key is unusable.
        """
        try:
            self._client = _context(ssl.PROTOCOL_TLS_CLIENT, certificate, private_key)
            self._server = _context(ssl.PROTOCOL_TLS_SERVER, certificate, private_key)
        except (ssl.SSLError, ValueError) as error:
            raise AuthenticationError(f"the job's certificate cannot be used: {error}") from error
        self._server.num_tickets = 0

    def connect(self) -> TlsSession:
        """Return the connecting end."""
        return TlsSession(self._client, server_side=False)

    def accept(self) -> TlsSession:
        """Return the accepting end."""
        return TlsSession(self._server, server_side=True)


def _context(protocol: int, certificate: bytes, private_key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    key = base64.encodebytes(private_key).decode()
    pem = (
        f"{ssl.DER_cert_to_PEM_cert(certificate)}"
        f"-----BEGIN PRIVATE KEY-----\n{key}-----END PRIVATE KEY-----\n"
    )
    # The ssl module reads keys only from files: this one is in memory and vanishes on close.
    file = os.memfd_create("penstock-job-certificate")
    try:
        os.write(file, pem.encode())
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context


class TlsSession:
    """One end of one connection."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._session = context.wrap_bio(
            self._received,
            self._to_send,
            server_side=server_side,
            server_hostname=None if server_side else _SERVER_NAME,
        )
        self.is_established = False
        """True if the peer has proved its certificate, so that data may flow."""

    def shake_hands(self) -> None:
        """Continue the handshake as far as the received bytes allow.

        Raises:
            PartitionConnectionError: the peer's certificate belongs to another job, or it does
                not use TLS.
        """
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise _failed(error) from error
        self.is_established = True

    def open(self, data: memoryview) -> bytearray:
        """Decrypt received bytes; the plaintext may be empty.

        Raises:
            PartitionConnectionError: the handshake fails, or the bytes are not TLS records of this
                connection.
        """
        self._received.write(data)
        plaintext = bytearray()
        if not self.is_established:
            self.shake_hands()
            if not self.is_established:
                return plaintext
        try:
            while piece := self._session.read(_READ_BYTES):
                plaintext += piece
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return plaintext
        except ssl.SSLError as error:
            raise _failed(error) from error
        return plaintext

    def seal(self, plaintext: bytes | memoryview) -> bytes:
        """Encrypt bytes to send, after the bytes that `take_outgoing` has not returned yet."""
        if len(plaintext):
            self._session.write(plaintext)
        return self.take_outgoing()

    def take_outgoing(self) -> bytes:
        """Return the session's own bytes for the peer."""
        return self._to_send.read()


def _failed(error: ssl.SSLError) -> PartitionConnectionError:
    return PartitionConnectionError(f"TLS: {error.reason or error}")
