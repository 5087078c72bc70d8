"""The bytes of a batch of results on their way to ``execute_and_collect``.

A batch is any number of elements, each as ``u32 big-endian length`` and so many bytes of the
codec of the collected type.  Both ends read and write it with the functions below.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from penstock.errors import CorruptStreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LENGTH = struct.Struct(">I")


def append_element(batch: bytearray, element: bytes) -> None:
    """Appends one encoded element."""
    batch += _LENGTH.pack(len(element))
    batch += element


def split_batch(batch: bytes) -> Iterator[bytes]:
    """The encoded elements of a batch.

    Raises:
        CorruptStreamError: The batch ends within an element.
    """
    position, end = 0, len(batch)
    while position < end:
        start = position + _LENGTH.size
        if start > end:
            raise CorruptStreamError("a batch of results ends within a length")
        (length,) = _LENGTH.unpack_from(batch, position)
        position = start + length
        if position > end:
            raise CorruptStreamError("a batch of results ends within an element")
        yield batch[start:position]
