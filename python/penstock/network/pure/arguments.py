"""Conversions of arguments, with the exceptions of the native runtime.

The native classes convert every argument before they act on any.  Without that, a float is taken
for an index, a string for bytes, and the failure comes later, out of an operation half done.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mmap
    from typing import SupportsIndex, SupportsInt


def integer(value: SupportsIndex, bits: int = 64) -> int:
    """Return a signed integer of at most ``bits`` bits.

    Raises:
        TypeError: the value is not an integer.
        OverflowError: the value has more bits.
    """
    return _of_bits(operator.index(value), bits)


def _of_bits(number: int, bits: int) -> int:
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError(f"{number} has more than {bits} bits")
    return int(number)


def integers(*values: SupportsIndex) -> tuple[int, ...]:
    """Return each value as `integer` does."""
    return tuple(integer(value) for value in values)


def amount(value: SupportsIndex, bits: int = 64) -> int:
    """Return an integer of at most ``bits`` bits that is not negative.

    Raises:
        TypeError: the value is not an integer.
        OverflowError: the value is negative, or has more bits.
    """
    number = int(operator.index(value))
    if not 0 <= number < 1 << bits:
        raise OverflowError(f"{number} is negative or has more than {bits} bits")
    return number


def truncated(value: SupportsInt, bits: int = 64) -> int:
    """Return a number, such as a timestamp, without its fraction.

    Raises:
        TypeError: the value is not a number.
        OverflowError: the value has more bits.
    """
    if not hasattr(type(value), "__int__"):
        raise TypeError("an integer is required")
    return _of_bits(int(value), bits)


def boolean(value: object) -> bool:
    """Return True or False, also of numpy's type.

    Raises:
        TypeError: the value is not a bool.
    """
    kind = type(value)
    if kind is not bool and (kind.__module__, kind.__name__.rstrip("_")) != ("numpy", "bool"):
        raise TypeError(f"{value!r} is not a bool")
    return bool(value)


def octets(data: bytes | bytearray | memoryview | mmap.mmap) -> bytes | memoryview:
    """Return bytes, or the bytes of an object with a buffer of bytes, in the order of its indexes.

    Raises:
        TypeError: the object has no buffer.
        BufferError: the items of the buffer are not bytes.
    """
    if isinstance(data, bytes):
        return data
    view = memoryview(data)
    if view.format not in ("B", "c"):
        raise BufferError(f"the buffer has items of format {view.format!r}, not bytes")
    return view if view.format == "B" and view.c_contiguous and view.ndim == 1 else view.tobytes()


def exact_bytes(data: bytes) -> bytes:
    """Return ``data``.

    Raises:
        TypeError: it is not a bytes object.
    """
    if not isinstance(data, bytes):
        raise TypeError(f"{type(data).__name__!r} object is not an instance of 'bytes'")
    return data


def text(value: str) -> str:
    """Return ``value``.

    Raises:
        TypeError: it is not a string.
    """
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__!r} object is not an instance of 'str'")
    return value


def items_of(values: Sequence[object]) -> None:
    """Check that an argument is a list, a tuple or the like, and not a string.

    Raises:
        TypeError: it is not.
    """
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{type(values).__name__!r} object is not an instance of 'Sequence'")
