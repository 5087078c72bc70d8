"""Detection of a lost host on a connection that is silent."""

from __future__ import annotations

import socket
import sys
from typing import Final

_IDLE_S: Final = 20
_INTERVAL_S: Final = 5
_PROBES: Final = 4


def keep_alive(sock: socket.socket) -> None:
    """Let the kernel probe the other host, and break the connection if it does not answer."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        for option, value in (
            (socket.TCP_KEEPIDLE, _IDLE_S),
            (socket.TCP_KEEPINTVL, _INTERVAL_S),
            (socket.TCP_KEEPCNT, _PROBES),
        ):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
