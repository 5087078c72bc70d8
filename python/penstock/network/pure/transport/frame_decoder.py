"""Splits a byte stream into frames, wherever its pieces end (internals M17).

The payload of a BufferResponse is written directly to the sink's target; all other frames are
gathered first.  Lengths are checked before anything is allocated.
"""

from __future__ import annotations

from typing import Protocol

from penstock.errors import CorruptStreamError
from penstock.network.pure.wire import messages as wire


class FrameSink(Protocol):
    """Receives decoded frames."""

    def on_message(self, message: wire.Message) -> None:
        """Handle a message that is not a BufferResponse."""

    def on_buffer_header(self, header: wire.BufferHeader) -> memoryview | None:
        """Return the target of the payload, of exactly its size, or None to skip it."""

    def on_buffer_complete(self, header: wire.BufferHeader) -> None:
        """Handle a payload that was written to its target."""


class FrameDecoder:
    """The state between two pieces of the stream."""

    __slots__ = (
        "_accepts_buffers",
        "_filled",
        "_header",
        "_message_id",
        "_need",
        "_partial",
        "_payload_left",
        "_sink",
        "_stopped",
        "_target",
    )

    def __init__(self, sink: FrameSink, *, accepts_buffers: bool) -> None:
        self._sink = sink
        self._accepts_buffers = accepts_buffers
        self._partial = bytearray()
        self._message_id = -1
        self._need = wire.FRAME_HEADER_BYTES
        self._header: wire.BufferHeader | None = None
        self._target: memoryview | None = None
        self._filled = 0
        self._payload_left = 0
        self._stopped = False

    def stop(self) -> None:
        """Stop delivering and release the target, since the connection closes."""
        self._stopped = True

    @property
    def is_at_frame_start(self) -> bool:
        """Return whether the stream is at the start of a frame, where it may end."""
        return self._message_id < 0 and not self._partial and self._header is None

    def feed(self, data: memoryview) -> None:
        """Consume a piece of the stream.

        Raises:
            CorruptStreamError: the bytes are not frames, or a frame is too long.
        """
        offset, end = 0, len(data)
        while offset < end or (self._header is not None and self._payload_left == 0):
            if self._stopped:
                return
            if self._header is not None:
                offset = self._take_payload(data, offset)
                continue
            have = len(self._partial)
            count = min(self._need - have, end - offset)
            if have == 0 and count == self._need:
                piece: memoryview | bytearray = data[offset : offset + count]
            else:
                self._partial += data[offset : offset + count]
                if len(self._partial) < self._need:
                    return
                piece, self._partial = self._partial, bytearray()
            offset += count
            self._take_piece(piece)

    def _take_piece(self, piece: memoryview | bytearray) -> None:
        if self._message_id < 0:
            self._take_frame_header(piece)
        elif self._message_id == wire.BUFFER_RESPONSE:
            self._take_buffer_header(piece)
        else:
            self._take_message(bytes(piece))

    def _take_frame_header(self, piece: memoryview | bytearray) -> None:
        length, magic, message_id = wire.FRAME_HEADER.unpack(piece)
        if magic != wire.MAGIC:
            raise CorruptStreamError(
                f"no frame begins with the magic number {magic:#010x}; does the peer run another "
                "version of penstock?"
            )
        body = length - wire.FRAME_HEADER_BYTES
        if message_id == wire.BUFFER_RESPONSE:
            payload = length - wire.BUFFER_RESPONSE_HEADER_BYTES
            if not self._accepts_buffers or not 0 <= payload <= wire.MAX_EVENT_BYTES:
                raise CorruptStreamError(f"unacceptable BufferResponse of {length} bytes")
            self._payload_left = payload
            body = wire.BUFFER_HEADER.size
        elif not 0 <= body <= wire.MAX_CONTROL_FRAME_BYTES:
            raise CorruptStreamError(
                f"message {message_id} of {length} bytes; at most "
                f"{wire.MAX_CONTROL_FRAME_BYTES} are allowed"
            )
        self._message_id = message_id
        self._need = body
        if body == 0:
            self._take_message(b"")

    def _take_buffer_header(self, piece: memoryview | bytearray) -> None:
        header = wire.decode_buffer_header(piece)
        if header.size != self._payload_left:
            raise CorruptStreamError(
                f"BufferResponse announces {header.size} bytes and carries {self._payload_left}"
            )
        self._header = header
        self._target = self._sink.on_buffer_header(header)
        self._filled = 0

    def _take_message(self, body: bytes) -> None:
        message_id = self._message_id
        self._expect_frame()
        self._sink.on_message(wire.decode(message_id, body))

    def _take_payload(self, data: memoryview, offset: int) -> int:
        count = min(self._payload_left, len(data) - offset)
        if self._target is not None and count:
            self._target[self._filled : self._filled + count] = data[offset : offset + count]
            self._filled += count
        self._payload_left -= count
        if self._payload_left == 0:
            header = self._header
            assert header is not None, "payload follows a header"
            self._expect_frame()
            self._sink.on_buffer_complete(header)
        return offset + count

    def _expect_frame(self) -> None:
        self._message_id = -1
        self._need = wire.FRAME_HEADER_BYTES
        self._header = None
        self._target = None
