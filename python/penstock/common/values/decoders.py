"""Creates the decoders of msgspec's structs, one at a time.

msgspec prepares a struct when the first decoder is created.  Two threads that do so at once may see
a half-prepared struct, and crash.  So decoders are created only here, under a lock, and cached.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_making: Final = threading.Lock()


def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return a decoder of JSON for a type; any thread."""
    with _making:
        return msgspec.json.Decoder(kind)


def msgpack_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    """Return a decoder of MessagePack for a type; any thread."""
    with _making:
        return msgspec.msgpack.Decoder(kind)


def converter(kind: type[T]) -> Callable[[Any], T]:
    """Return a function that creates a struct from dictionaries and lists; any thread."""
    with _making:
        msgspec.json.Decoder(kind)
    return partial(msgspec.convert, type=kind)
