"""A part file as a stream, for writers of bulk formats."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.connectors.files.part_file import PartFile


class PartStream(io.RawIOBase):
    """A part as a stream that is written from its start to its end.

    Attributes:
        now_ms: When what is written now is written.
        is_given_up: Whether what is still written is dropped.
    """

    def __init__(self, part: PartFile, now_ms: int) -> None:
        """Appends to ``part``, beginning at ``now_ms``."""
        self._part = part
        self._position = 0
        self.now_ms = now_ms
        self.is_given_up = False

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The bytes written so far, dropped ones too."""
        return self._position

    def write(self, data: Any) -> int:
        """Appends bytes, all of them."""
        size = len(memoryview(data).cast("B"))
        if not self.is_given_up:
            self._part.write(bytes(data), self.now_ms)
        self._position += size
        return size
