"""The same-host path: a Unix socket beside every data port.

An executor listens on its data port and on a Unix socket in Linux's abstract namespace, whose name
is derived from the data port's address.  Abstract names, like ports, belong to a network namespace,
and a port has one owner in it: a process that finds the name of an address has found its executor,
on its own host.  From another host or namespace the name is not visible, and TCP is used.
Processes of other users are neither trusted with a name nor accepted; both paths also require the
token.
"""

from __future__ import annotations

import array
import logging
import os
import socket
import struct

logger = logging.getLogger(__name__)

_NAME_PREFIX = "penstock-data/"
"""Prefix of every name; the native runtime uses the same."""

_SEND_BUFFER_BYTES = 1 << 20
"""Requested size of the kernel's buffer for the reader; it is doubled and limited."""

_LISTEN_BACKLOG = 1024
"""Connections that the kernel queues: all TaskExecutors of a job may connect at once."""
BIND_ATTEMPTS = 16
"""Number of ports that are tried for one whose name is free."""
_PEER_CREDENTIALS = struct.Struct("3i")
MAX_DESCRIPTORS = 3
"""More than any peer passes, so that too many are detected."""


def _name_of(address: tuple[str, int]) -> bytes:
    return f"\0{_NAME_PREFIX}{address[0]}/{address[1]}".encode()


def listen(address: tuple[str, int]) -> socket.socket | None:
    """Listen beside a data port; return None if another process holds the name."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.bind(_name_of(address))
        sock.listen(_LISTEN_BACKLOG)
    except OSError as error:
        sock.close()
        logger.debug("no same-host path beside %s:%d: %s", *address, error)
        return None
    return sock


def connect(address: tuple[str, int]) -> socket.socket | None:
    """Connect to the executor with the data port ``address`` if it is on this host."""
    try:
        try:
            return _dial(address)
        except ConnectionRefusedError:
            wildcard = _wildcard(address)
            if wildcard is None:
                raise
            return _dial(wildcard)
    except OSError as error:
        logger.debug("%s:%d is reached by TCP: %s", *address, error)
        return None


def _dial(address: tuple[str, int]) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect(_name_of(address))
        if not is_own(sock):
            raise PermissionError("its same-host name is held by another user's process")
    except OSError:
        sock.close()
        raise
    return sock


def is_own(sock: socket.socket) -> bool:
    """Return whether the process at the other end belongs to this user."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    _, owner, _ = _PEER_CREDENTIALS.unpack(credentials)
    return bool(owner == os.geteuid())


def configure(sock: socket.socket) -> None:
    """Allow more than one buffer in flight."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)


def receive(sock: socket.socket, into: memoryview) -> tuple[int, list[int]]:
    """Receive bytes with their descriptors; return the number of bytes, and the descriptors."""
    descriptors = array.array("i")
    space = socket.CMSG_SPACE(MAX_DESCRIPTORS * descriptors.itemsize)
    count, ancillary, _, _ = sock.recvmsg_into([into], space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data)
    return count, descriptors.tolist()


def _wildcard(address: tuple[str, int]) -> tuple[str, int] | None:
    """Return the wildcard address of this host's executor that listens on all addresses."""
    host, port = address
    family, everywhere = (socket.AF_INET6, "::") if ":" in host else (socket.AF_INET, "0.0.0.0")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Only a local address can be bound.
            probe.bind((host, 0))
        except OSError:
            return None
    return everywhere, port
