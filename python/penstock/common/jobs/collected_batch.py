"""Batches of records from a collect sink to the driver: each record with its length in front."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from penstock.errors import CorruptStreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Length of a record in bytes, big-endian.
_LENGTH: Final = struct.Struct(">I")


def append_element(batch: bytearray, element: bytes) -> None:
    """Append an encoded record to a batch."""
    batch += _LENGTH.pack(len(element))
    batch += element


def elements_of(batch: bytes) -> Iterator[bytes]:
    """Return the encoded records of a batch.

    Raises:
        CorruptStreamError: The batch ends within a record.
    """
    position = 0
    while position < len(batch):
        start = position + _LENGTH.size
        if start <= len(batch):
            position = start + _LENGTH.unpack_from(batch, position)[0]
        if not start <= position <= len(batch):
            raise CorruptStreamError(
                f"a batch of {len(batch)} collected bytes ends within a record"
            )
        yield batch[start:position]
