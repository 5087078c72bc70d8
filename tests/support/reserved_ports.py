"""Ports for servers that take theirs long after it was chosen, or again when they are restarted."""

import socket

#: Bound for as long as the tests run, so that the kernel gives them to nobody else.  They do not
#: listen: a server that reuses addresses can, and until it does connections are refused.
_RESERVED = []


def reserved_ports(count=1):
    """Ports of 127.0.0.1 that are nobody else's."""
    found = []
    for _ in range(count):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        _RESERVED.append(sock)
        found.append(sock.getsockname()[1])
    return found
