"""Canonical key hashing, in plain Python: a key's hash is the same in every process and runtime.

Python's own ``hash`` is salted per process and would send equal keys to different subtasks.  The
32-bit results equal those of Java's ``hashCode`` where Flink would hash such a key:

==================  ============================================================================
int                 its value, if within 32 bits; high xor low word, if within 64;
                    else the 31-polynomial of the 32-bit words of its magnitude, with its sign
LONG (declared)     high xor low word, whatever the size
str                 31-polynomial over UTF-16 code units
bytes, bytearray    31-polynomial over signed bytes
tuple, Row          31-polynomial over the elements' hashes
list                the same, starting from 1
bool                1231 and 1237
float               high xor low word of the IEEE bits; every NaN is 0x7ff80000
FLOAT (declared)    the 32 IEEE bits; every NaN is 0x7fc00000
set, frozenset      sum of the elements' hashes
dict                sum of key hash xor value hash
None                0
anything else       31-polynomial over the signed bytes of its canonical form
==================  ============================================================================
"""

import contextlib
import functools
import operator
from collections.abc import Callable
from typing import Any, Final

from penstock.common.types import Row
from penstock.errors import SerializationError
from penstock.serialization.key_form import form_of
from penstock.serialization.pure.value_bytes import F32, F64, MAX_DEPTH

_MASK = 0xFFFFFFFF

#: Classes whose instances need no rule of their own.
_hashed_by_form: Final[set[type]] = set()
_MAX_CLASSES: Final = 4096


def signed32(value: int) -> int:
    """Wrap to a signed 32-bit number."""
    return ((value & _MASK) ^ 0x80000000) - 0x80000000


def hash_any(key: Any, depth: int = 0) -> int:
    """Return the hash of a key of undeclared type.

    Raises:
        SerializationError: The key nests too deep or cannot be encoded.
    """
    if depth > MAX_DEPTH:
        raise SerializationError(f"a key nests deeper than {MAX_DEPTH}")
    if key is None:
        return 0
    if key is True:
        return 1231
    if key is False:
        return 1237
    if isinstance(key, int):
        return hash_int(key)
    if isinstance(key, str):
        return hash_str(key)
    if isinstance(key, float):
        return hash_double(key)
    if type(key) in _hashed_by_form:
        return _hash_of_form(form_of(key))
    if isinstance(key, bytes | bytearray):
        return hash_bytes(key)
    if isinstance(key, tuple | Row):
        return _polynomial(key, 0, depth)
    if isinstance(key, list):
        return _polynomial(key, 1, depth)
    if isinstance(key, set | frozenset):
        return signed32(sum(hash_any(item, depth + 1) for item in key))
    if isinstance(key, dict):
        pairs = ((hash_any(k, depth + 1), hash_any(v, depth + 1)) for k, v in key.items())
        return signed32(sum(k ^ v for k, v in pairs))
    if hasattr(type(key), "__index__") and hasattr(type(key), "__int__"):
        # A number of another library equals the int, so it must have the same hash.
        with contextlib.suppress(TypeError):  # numpy's bool has the method and refuses
            return hash_int(operator.index(key))
    elif len(_hashed_by_form) < _MAX_CLASSES:
        _hashed_by_form.add(type(key))
    return _hash_of_form(form_of(key))


def hash_int(key: int) -> int:
    """Return the hash of an integer of any size."""
    if -0x80000000 <= key <= 0x7FFFFFFF:
        return key
    if -0x8000000000000000 <= key <= 0x7FFFFFFFFFFFFFFF:
        return hash_long(key)
    magnitude = abs(key)
    result = 0
    for shift in range((magnitude.bit_length() + 31) // 32 * 32 - 32, -1, -32):
        result = 31 * result + (magnitude >> shift & _MASK) & _MASK
    return signed32(-result if key < 0 else result)


def hash_long(key: Any) -> int:
    """Return the hash of a 64-bit integer: high word xor low word."""
    value = operator.index(key)
    return signed32(value ^ value >> 32)


def hash_str(key: str) -> int:
    """Return the hash of a string: the polynomial in 31 over its UTF-16 code units."""
    result = 0
    if key.isascii():
        for unit in key.encode("ascii"):
            result = 31 * result + unit & _MASK
    else:
        data = key.encode("utf-16-be", "surrogatepass")
        for i in range(0, len(data), 2):
            result = 31 * result + (data[i] << 8 | data[i + 1]) & _MASK
    return signed32(result)


def hash_bytes(key: bytes | bytearray) -> int:
    """Return the hash of bytes: the polynomial in 31 over them as signed numbers."""
    result = 0
    for byte in key:
        result = 31 * result + (byte - 256 if byte > 127 else byte) & _MASK
    return signed32(result)


#: Keys repeat, and hashing one takes a step for each byte, so hashes are cached.
_hash_of_form: Final = functools.lru_cache(maxsize=8192)(hash_bytes)


def hash_double(key: Any) -> int:
    """Return the hash of a 64-bit float."""
    number = float(key)
    if number != number:
        return 0x7FF80000
    bits = int.from_bytes(F64.pack(number), "big")
    return signed32(bits ^ bits >> 32)


def hash_float(key: Any) -> int:
    """Return the hash of a 32-bit float."""
    number = float(key)
    if number != number:
        return 0x7FC00000
    try:
        return signed32(int.from_bytes(F32.pack(number), "big"))
    except OverflowError:
        return signed32(0x7F800000 if number > 0 else 0xFF800000)


def hash_boolean(key: Any) -> int:
    """Return the hash of a value's truth."""
    return 1231 if key else 1237


def _polynomial(items: Any, start: int, depth: int) -> int:
    result = start
    for item in items:
        result = 31 * result + hash_any(item, depth + 1) & _MASK
    return signed32(result)


_BY_KIND: dict[str, Callable[[Any], int]] = {
    "LONG": hash_long,
    "FLOAT": hash_float,
    "DOUBLE": hash_double,
    "BOOLEAN": hash_boolean,
}


def key_hash(kind: str | None = None) -> Callable[[Any], int]:
    """Return the hash function of keys of a declared kind.

    Args:
        kind: LONG, FLOAT, DOUBLE or BOOLEAN, whose hash also depends on the declaration; keys of
            any other kind, or of None, are hashed by value.
    """
    by_kind = _BY_KIND.get(kind or "")
    if by_kind is None:
        return hash_any
    return lambda key: 0 if key is None else by_kind(key)
