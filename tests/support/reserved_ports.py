"""Ports for servers that bind them long after the choice, or again after a restart."""

import atexit
import socket


def reserved_ports(count=1):
    """Return reserved ports of 127.0.0.1."""
    found = []
    for _ in range(count):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        # Until then the kernel assigns it to no other process.  It does not listen: a server that
        # reuses addresses can bind it, and until that connections are refused.
        atexit.register(sock.close)
        found.append(sock.getsockname()[1])
    return found
