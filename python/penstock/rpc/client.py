"""Dialling the driver."""

from __future__ import annotations

import socket

from penstock.rpc.authentication import authenticate_to_server

CONNECT_TIMEOUT_S = 20.0


def dial(
    address: tuple[str, int], token: bytes, role: str, timeout_s: float = CONNECT_TIMEOUT_S
) -> socket.socket:
    """Connects to the driver and authenticates; the socket is left without a timeout.

    Raises:
        AuthenticationError: the driver refused, or could not prove itself.
        OSError: nobody answers at ``address``.
    """
    sock = socket.create_connection(address, timeout=timeout_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        authenticate_to_server(sock, token, role)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return sock
