"""Storage of blocked channels' data for a `BarrierBuffer` (internals M55).

A blocker stores buffers and events in order.  Rolled over, it returns them as a sequence, which can
be read once, in that order.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections import deque
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol

from penstock.errors import CorruptStreamError
from penstock.network.data_type import DataType

_HEADER: Final = struct.Struct(">iiB")
"""Channel, length of the payload, and data type: 0 for a data buffer, else that of the event."""


class BufferOrEvent(NamedTuple):
    """Buffer or event of a channel.

    Attributes:
        channel: The channel.
        data_type: The type of `data`.
        data: The bytes.
    """

    channel: int
    data_type: DataType
    data: bytes


class BufferSequence(Protocol):
    """Data stored during one alignment."""

    @property
    def size(self) -> int:
        """Remaining bytes."""

    def get_next(self) -> BufferOrEvent | None:
        """Return the next buffer or event; None at the end."""

    def cleanup(self) -> None:
        """Discard the rest."""


class BufferBlocker(Protocol):
    """Stores buffers and events until their channels are unblocked."""

    @property
    def size(self) -> int:
        """Bytes stored since the last roll-over."""

    def add(self, element: BufferOrEvent) -> None:
        """Store a buffer or event.

        Raises:
            OSError: Writing failed.
        """

    def roll_over(self) -> BufferSequence | None:
        """Return the data stored since the last call; None if there is none."""

    def close(self) -> None:
        """Discard the stored data."""


class QueuedSequence:
    """Buffers and events in memory."""

    def __init__(self, elements: deque[BufferOrEvent], size: int) -> None:
        self._elements = elements
        self.size = size

    def get_next(self) -> BufferOrEvent | None:
        """Return the next buffer or event; None at the end."""
        if not self._elements:
            return None
        element = self._elements.popleft()
        self.size -= _HEADER.size + len(element.data)
        return element

    def cleanup(self) -> None:
        """Discard the rest."""
        self._elements.clear()
        self.size = 0


class CachedBufferBlocker:
    """Stores buffers and events in memory, as Flink 1.5 with credit-based flow control."""

    def __init__(self) -> None:
        self._elements: deque[BufferOrEvent] = deque()
        self.size = 0

    def add(self, element: BufferOrEvent) -> None:
        """Store a buffer or event."""
        self._elements.append(element)
        self.size += _HEADER.size + len(element.data)

    def roll_over(self) -> QueuedSequence | None:
        """Return the data stored since the last call; None if there is none."""
        if not self._elements:
            return None
        sequence = QueuedSequence(self._elements, self.size)
        self._elements, self.size = deque(), 0
        return sequence

    def close(self) -> None:
        """Discard the stored data."""
        self._elements.clear()
        self.size = 0


class SpilledSequence:
    """Buffers and events in an unlinked file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self.size = size
        file.seek(0)

    def get_next(self) -> BufferOrEvent | None:
        """Return the next buffer or event; None at the end.

        Raises:
            CorruptStreamError: The file is shorter than the data written to it.
        """
        if not self.size:
            self.cleanup()
            return None
        channel, length, kind = _HEADER.unpack(self._read(_HEADER.size))
        data_type = DataType(kind) if kind else DataType.DATA_BUFFER
        return BufferOrEvent(channel, data_type, self._read(length))

    def cleanup(self) -> None:
        """Discard the rest."""
        self.size = 0
        self._file.close()

    def _read(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise CorruptStreamError(
                f"truncated spill file of an alignment: expected {count} bytes, got {len(data)}"
            )
        self.size -= count
        return data


class BufferSpiller:
    """Stores buffers and events in unlinked files, which vanish even if the process is killed."""

    def __init__(self, directory: str) -> None:
        """Create a spiller with files in ``directory``."""
        self._directory = directory
        self._file: IO[bytes] | None = None
        self.size = 0

    def add(self, element: BufferOrEvent) -> None:
        """Store a buffer or event.

        Raises:
            OSError: Writing failed.
        """
        if self._file is None:
            self._file = self._create()
        kind = 0 if element.data_type.is_buffer else int(element.data_type)
        self._file.write(_HEADER.pack(element.channel, len(element.data), kind))
        self._file.write(element.data)
        self.size += _HEADER.size + len(element.data)

    def roll_over(self) -> SpilledSequence | None:
        """Return the data stored since the last call; None if there is none."""
        if self._file is None:
            return None
        sequence = SpilledSequence(self._file, self.size)
        self._file, self.size = None, 0
        return sequence

    def close(self) -> None:
        """Discard the stored data."""
        if self._file is not None:
            self._file.close()
            self._file, self.size = None, 0

    def _create(self) -> IO[bytes]:
        descriptor, path = tempfile.mkstemp(".buffer", dir=self._directory)
        Path(path).unlink()
        return os.fdopen(descriptor, "w+b")
