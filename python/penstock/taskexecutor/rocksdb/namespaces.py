"""Namespaces in the keys of rows: a state's number, the namespace's length, and its bytes."""

from __future__ import annotations

import struct
from typing import Final

from penstock.datastream.window import TimeWindow
from penstock.serialization.key_form import form_of
from penstock.serialization.pure.dynamic_codec import decode_dynamic, encode_dynamic
from penstock.serialization.pure.keys import is_plain
from penstock.serialization.pure.value_bytes import Reader

#: The first byte of a namespace; None has no bytes.
_READABLE: Final = 0
_TIME_WINDOW: Final = 1
_FORM: Final = 2

_HEAD: Final = struct.Struct(">HI")
#: Numbers whose bytes have the numbers' order.
_TIMES: Final = struct.Struct(">QQ")
_SIGN: Final = 1 << 63

#: Bytes of the key group in front of the tail, and of everything before the namespace.
GROUP_BYTES: Final = 2
HEAD_BYTES: Final = GROUP_BYTES + _HEAD.size


def state_tail(state: int) -> bytes:
    """Return the prefix of a state's namespace tails."""
    return struct.pack(">H", state)


def tail_of(state: int, namespace: object) -> tuple[bytes, bytes]:
    """Return the state and namespace part of row keys, and the prefix of their values."""
    original = b""
    if namespace is None:
        written = b""
    elif type(namespace) is TimeWindow:
        written = bytes((_TIME_WINDOW,)) + _TIMES.pack(
            namespace.start + _SIGN, namespace.end + _SIGN
        )
    else:
        encoded = bytearray()
        encode_dynamic(encoded, namespace)
        if is_plain(namespace, 0):
            written = bytes((_READABLE,)) + encoded
        else:
            written = bytes((_FORM,)) + form_of(namespace)
            original = bytes(encoded)
    return _HEAD.pack(state, len(written)) + written, original


def tail_in(key: bytes) -> bytes:
    """Return the tail in the key of a row."""
    size = _HEAD.unpack_from(key, GROUP_BYTES)[1]
    return key[GROUP_BYTES : HEAD_BYTES + size]


def state_in(key: bytes) -> int:
    """Return the number of the state in the key of a row."""
    return int(_HEAD.unpack_from(key, GROUP_BYTES)[0])


def has_original(tail: bytes) -> bool:
    """Return whether the values of rows start with their namespace."""
    return len(tail) > _HEAD.size and tail[_HEAD.size] == _FORM


def namespace_of(tail: bytes, value: bytes) -> object:
    """Return the namespace of a row, given its tail and its value."""
    written = tail[_HEAD.size :]
    if not written:
        return None
    if written[0] == _TIME_WINDOW:
        start, end = _TIMES.unpack_from(written, 1)
        return TimeWindow(start - _SIGN, end - _SIGN)
    return decode_dynamic(Reader(value if written[0] == _FORM else written[1:]))
