"""Dialling the driver."""

from __future__ import annotations

import socket
import time

from penstock.errors import AuthenticationError, CorruptStreamError
from penstock.rpc.authentication import authenticate_to_server

CONNECT_TIMEOUT_S = 20.0
ATTEMPTS = 5
FIRST_PAUSE_S = 0.02
"""Doubled with each attempt."""


def dial(
    address: tuple[str, int], token: bytes, role: str, timeout_s: float = CONNECT_TIMEOUT_S
) -> socket.socket:
    """Connects to the driver and authenticates; the socket is left without a timeout.

    A driver that is besieged may drop a connection before it was heard: that is tried again.

    Raises:
        AuthenticationError: the driver refused, or could not prove itself.
        OSError: nobody answers at ``address``.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(FIRST_PAUSE_S * 2**attempt)
        sock = socket.create_connection(address, timeout=timeout_s)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            authenticate_to_server(sock, token, role)
            sock.settimeout(None)
        except (CorruptStreamError, ConnectionError) as error:
            sock.close()
            broken_off = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise AuthenticationError(
        f"the driver closed the connection while it was opened, {ATTEMPTS} times: {broken_off}; "
        "it does not accept this token, or drops connections of many"
    )
