"""Ports for servers that bind them long after the choice, or again after a restart."""

import socket

#: Bound for as long as the tests run, so that the kernel assigns them to no other process.  They do
#: not listen: a server that reuses addresses can bind them, and until then connections are refused.
_RESERVED = []


def reserved_ports(count=1):
    """Return reserved ports of 127.0.0.1."""
    found = []
    for _ in range(count):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        _RESERVED.append(sock)
        found.append(sock.getsockname()[1])
    return found
