"""A part file as a stream, for writers of bulk formats."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.connectors.files.part_file import PartFile


class PartStream(io.RawIOBase):
    """A part as a stream that is written sequentially.

    Attributes:
        now_ms: The time to note for the next writes.
        is_given_up: Whether further writes are dropped.
    """

    def __init__(self, part: PartFile, now_ms: int) -> None:
        """Create a stream that appends to ``part``, at the time ``now_ms``."""
        self._part = part
        self._position = 0
        self.now_ms = now_ms
        self.is_given_up = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written so far, including dropped ones."""
        return self._position

    def write(self, data: Any) -> int:
        """Append all bytes."""
        size = len(memoryview(data).cast("B"))
        if not self.is_given_up:
            self._part.write(bytes(data), self.now_ms)
        self._position += size
        return size
