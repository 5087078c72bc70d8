"""Frames of the control plane: the format of messages in a TCP stream.

======  =====  ==========================================================
offset  bytes  field
======  =====  ==========================================================
0       4      length of the body, unsigned, big-endian, 1 … MAX_FRAME_BYTES
4       n      body
======  =====  ==========================================================

The length is checked before the body is read, so a peer that sends garbage costs no memory beyond
the received bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from penstock.errors import CorruptStreamError

if TYPE_CHECKING:
    import socket

MAX_FRAME_BYTES = 10 * 1024 * 1024
"""Largest body that is sent or accepted; larger data is sent in chunks."""

_LENGTH = struct.Struct(">I")

_READ_BYTES = 65_536
"""Number of bytes that a `FrameReader` reads from the kernel at once."""


def write_frame(sock: socket.socket, body: bytes) -> None:
    """Send one frame; block until the kernel has accepted it.

    Raises:
        ValueError: the body is empty or larger than `MAX_FRAME_BYTES`.
        OSError: the connection is broken.
    """
    sock.sendall(framed(body))


def framed(body: bytes) -> bytes:
    """Return the bytes of one frame.

    Raises:
        ValueError: the body is empty or larger than `MAX_FRAME_BYTES`.
    """
    if not 1 <= len(body) <= MAX_FRAME_BYTES:
        raise ValueError(f"a frame body has 1 to {MAX_FRAME_BYTES} bytes, this one has {len(body)}")
    return _LENGTH.pack(len(body)) + body


def read_frame(sock: socket.socket) -> bytes | None:
    """Read one frame; return None if the peer closed the connection between two frames.

    Raises:
        CorruptStreamError: the length is out of range or the stream ends inside a frame.
        OSError: the connection is broken or its timeout passed.
    """
    header = _read(sock, _LENGTH.size)
    if not header:
        return None
    if len(header) < _LENGTH.size:
        raise CorruptStreamError(f"the stream ends after {len(header)} bytes of a frame's length")
    (length,) = _LENGTH.unpack(header)
    if not 1 <= length <= MAX_FRAME_BYTES:
        raise CorruptStreamError(
            f"a frame of {length} bytes was announced; allowed are 1 to {MAX_FRAME_BYTES}"
        )
    body = _read(sock, length)
    if len(body) < length:
        raise CorruptStreamError(f"the stream ends after {len(body)} of {length} bytes of a frame")
    return body


class FrameReader:
    """Reads the frames of a socket as its only reader: many small ones by one system call."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._data = b""
        self._position = 0

    def read(self) -> bytes | None:
        """Read one frame; return None if the peer closed the connection between two frames.

        Raises:
            CorruptStreamError: the length is out of range or the stream ends inside a frame.
            OSError: the connection is broken or its timeout passed.
        """
        if (body := self.read_received()) is not None:
            return body
        if not self._fill(_LENGTH.size):
            left = len(self._data) - self._position
            if not left:
                return None
            raise CorruptStreamError(f"the stream ends after {left} bytes of a frame's length")
        length = self._announced_length()
        if not self._fill(_LENGTH.size + length):
            left = len(self._data) - self._position - _LENGTH.size
            raise CorruptStreamError(f"the stream ends after {left} of {length} bytes of a frame")
        return self.read_received()

    def read_received(self) -> bytes | None:
        """Return one frame that is already received; None if none is complete.

        Raises:
            CorruptStreamError: the length is out of range.
        """
        left = len(self._data) - self._position - _LENGTH.size
        if left < 0 or left < (length := self._announced_length()):
            return None
        begin = self._position + _LENGTH.size
        self._position = begin + length
        return self._data[begin : self._position]

    def _announced_length(self) -> int:
        length: int = _LENGTH.unpack_from(self._data, self._position)[0]
        if not 1 <= length <= MAX_FRAME_BYTES:
            raise CorruptStreamError(
                f"a frame of {length} bytes was announced; allowed are 1 to {MAX_FRAME_BYTES}"
            )
        return length

    def _fill(self, count: int) -> bool:
        """Read until ``count`` bytes are available; return False if the stream ends before."""
        missing = count - (len(self._data) - self._position)
        if missing <= 0:
            return True
        parts = [self._data[self._position :]]
        while missing > 0:
            received = self._socket.recv(_READ_BYTES)
            if not received:
                break
            parts.append(received)
            missing -= len(received)
        self._data, self._position = b"".join(parts), 0
        return missing <= 0


def read_exactly(sock: socket.socket, count: int) -> bytes:
    """Read ``count`` bytes.

    Raises:
        CorruptStreamError: the stream ends before that.
    """
    data = _read(sock, count)
    if len(data) < count:
        raise CorruptStreamError(f"the stream ends after {len(data)} of {count} bytes")
    return data


def _read(sock: socket.socket, count: int) -> bytes:
    """Read ``count`` bytes, fewer only at the end of the stream."""
    first = sock.recv(count)
    if len(first) == count or not first:
        return first
    buffer = bytearray(count)
    buffer[: len(first)] = first
    view = memoryview(buffer)
    position = len(first)
    while position < count:
        received = sock.recv_into(view[position:])
        if received == 0:
            break
        position += received
    return bytes(view[:position])
