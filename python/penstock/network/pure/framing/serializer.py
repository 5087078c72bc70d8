"""The writing side of record framing (internals M9)."""

from __future__ import annotations

import struct

from penstock.errors import IllegalStateError
from penstock.network.pure.arguments import amount, octets
from penstock.serialization.pure.uncopied import Uncopied

_LENGTH = struct.Struct(">i")
_MAX_RECORD_BYTES = 2**31 - 1


class RecordSerializer(Uncopied):
    """Frames one record at a time and returns it piece by piece."""

    def __init__(self) -> None:
        self._framed = b""
        self._taken = 0

    @property
    def has_serialized_data(self) -> bool:
        """Return whether bytes of the current record remain."""
        return self._taken < len(self._framed)

    def add_record(self, payload: bytes | bytearray | memoryview) -> None:
        """Set the next record.

        Raises:
            IllegalStateError: the previous record is pending, or this one exceeds the
                maximum length.
        """
        content = octets(payload)
        if self.has_serialized_data:
            raise IllegalStateError("the previous record is still pending")
        if len(content) > _MAX_RECORD_BYTES:
            raise IllegalStateError(f"a record of {len(content)} bytes is too long")
        self._framed = b"".join((_LENGTH.pack(len(content)), content))
        self._taken = 0

    def take(self, limit: int) -> bytes:
        """Return up to ``limit`` of the pending bytes.

        Raises:
            OverflowError: the limit is negative.
        """
        limit = amount(limit)
        piece = self._framed[self._taken : self._taken + limit]
        self._taken += len(piece)
        if not self.has_serialized_data:
            self._framed, self._taken = b"", 0
        return piece
