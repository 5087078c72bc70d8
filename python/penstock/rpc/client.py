"""Connects to the driver."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from penstock.errors import AuthenticationError, CorruptStreamError
from penstock.rpc.authentication import authenticate_to_server
from penstock.rpc.encryption import encrypted_by_client

if TYPE_CHECKING:
    from penstock.rpc.control_credentials import ControlCredentials

CONNECT_TIMEOUT_S = 20.0
FIRST_PAUSE_S = 0.02
"""Doubled after each attempt."""
DOUBLINGS = 4


def dial(
    address: tuple[str, int],
    credentials: ControlCredentials,
    role: str,
    timeout_s: float = CONNECT_TIMEOUT_S,
) -> socket.socket:
    """Connect to the driver, authenticate, and encrypt if the driver does.

    The returned socket has no timeout.

    Raises:
        AuthenticationError: the driver rejected the token, or could not prove itself; or only one
            of both encrypts.
        ConfigurationError: a package that encryption needs is not installed.
        OSError: no process listens at ``address``.
    """
    sock, identity = dial_unencrypted(address, credentials, role, timeout_s)
    if identity is not None:
        sock = encrypted_by_client(sock, identity, timeout_s)
        sock.settimeout(None)
    return sock


def dial_unencrypted(
    address: tuple[str, int],
    credentials: ControlCredentials,
    role: str,
    timeout_s: float = CONNECT_TIMEOUT_S,
) -> tuple[socket.socket, tuple[bytes, bytes] | None]:
    """Connect to the driver and authenticate.

    A driver under load may drop a connection before it has authenticated: the client then retries
    until the timeout.

    Returns:
        The socket, without a timeout, and the identity for a TLS handshake; None if the driver
        does not encrypt.

    Raises:
        AuthenticationError, ConfigurationError, OSError: as `dial`.
    """
    deadline_s = time.monotonic() + timeout_s
    attempts = 0
    while True:
        attempts += 1
        try:
            return _open(address, credentials, role, timeout_s)
        except (CorruptStreamError, ConnectionError) as error:
            if isinstance(error, ConnectionRefusedError):
                raise
            broken_off = error
        pause_s = FIRST_PAUSE_S * 2 ** min(attempts, DOUBLINGS)
        if time.monotonic() + pause_s >= deadline_s:
            raise AuthenticationError(
                f"the driver closed the connection while it was opened, {attempts} times: "
                f"{broken_off}; it does not accept this token, or drops connections of many"
            )
        time.sleep(pause_s)


def local_address_towards(host: str, port: int) -> str:
    """Return the address of this machine that the given peer sees (no packet is sent)."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return str(probe.getsockname()[0])


def _open(
    address: tuple[str, int], credentials: ControlCredentials, role: str, timeout_s: float
) -> tuple[socket.socket, tuple[bytes, bytes] | None]:
    sock = socket.create_connection(address, timeout=timeout_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        encrypts = authenticate_to_server(sock, credentials.token, role)
        identity = credentials.identity(server_encrypts=encrypts)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return sock, identity
