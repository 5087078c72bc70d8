"""Rows of maps and lists: one for each pair of a map, and one for each piece of a list.

`docs/formats/checkpoint.md` specifies the bytes.
"""

from __future__ import annotations

import itertools
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.serialization.key_form import form_of
from penstock.serialization.pure.dynamic_codec import DICT, decode_dynamic
from penstock.serialization.pure.keys import is_plain
from penstock.serialization.pure.value_bytes import Reader, write_varint
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.rocksdb.namespaces import (
    GROUP_BYTES,
    has_original,
    state_tail,
    tail_in,
)
from penstock.taskexecutor.rocksdb.row_format import group_prefix, rows_of, successor
from penstock.taskexecutor.state.state_rows import FORM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.taskexecutor.rocksdb.database import Database

#: Precedes the key of an element: its length.
_KEY_LENGTH: Final = struct.Struct(">I")

#: Follows the key in a list.
SEQUENCE: Final = struct.Struct(">Q")

#: First byte of a pair's value: whether the pair's key follows, or is the row key's suffix.
_HAS_KEY: Final = b"\x01"
_NO_KEY: Final = b"\x00"

_SERIALIZER: Final = TypeSerializer[Any]()
encode: Final = _SERIALIZER.serialize
decode: Final = _SERIALIZER.deserialize


def element_prefix(row: bytes, tail: bytes) -> bytes:
    """Return the key prefix of an entry's elements.

    Args:
        row: The row key that the entry itself would have.
        tail: The tail of its state and namespace.
    """
    start = GROUP_BYTES + len(tail)
    return row[:start] + _KEY_LENGTH.pack(len(row) - start) + row[start:]


def pair_suffix(key: object) -> bytes:
    """Return the key suffix of a pair's row, which is the same for equal keys.

    Raises:
        SerializationError: The key cannot be serialised.
    """
    kind = type(key)
    if kind is str or kind is int:
        return encode(key)
    return encode(key) if is_plain(key, 0) else form_of(_as_python_equals(key))


def _as_python_equals(key: object) -> object:
    """Convert a number of another class to the integer or float that equals it, if there is one.

    Dictionaries compare keys this way, so maps in memory do.
    """
    if isinstance(key, bool):
        return int(key)
    if type(key) is float and key.is_integer():
        return int(key)
    if type(key) is Decimal and key.is_finite() and abs(key.adjusted()) < 300:
        number = float(key)
        return _as_python_equals(number) if Decimal(number) == key else key
    return tuple(map(_as_python_equals, key)) if type(key) is tuple else key


def pair_value(original: bytes, suffix: bytes, pair: tuple[object, object]) -> bytes:
    """Return the value of a pair's row, with the parts that its key lacks first."""
    key, value = pair
    written = encode(key)
    if written == suffix:
        return original + _NO_KEY + encode(value)
    return original + _HAS_KEY + written + encode(value)


def read_pair(suffix: bytes, data: bytes) -> tuple[object, object]:
    """Return key and value of a pair, from its row's value without the prefix."""
    if data[:1] == _NO_KEY:
        return decode(suffix), decode(data[1:])
    reader = Reader(data, 1)
    return decode_dynamic(reader), decode_dynamic(reader)


def without_original(prefix: bytes, tail: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Return the serialised key of an entry, if the value has it, and the rest of the value."""
    key_start = GROUP_BYTES + len(tail) + _KEY_LENGTH.size
    is_form = prefix[key_start] == FORM
    if not is_form and not has_original(tail):
        return b"", value
    reader = Reader(value)
    if has_original(tail):
        decode_dynamic(reader)
    start = reader.position
    if is_form:
        decode_dynamic(reader)
    return value[start : reader.position], value[reader.position :]


def prefix_in(key: bytes, tail: bytes) -> bytes:
    """Return the key prefix of all elements of an element's entry."""
    start = GROUP_BYTES + len(tail)
    return key[: start + _KEY_LENGTH.size + _KEY_LENGTH.unpack_from(key, start)[0]]


def elements_of(database: Database, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield an entry's elements: the key behind its prefix, and the value without its prefix."""
    tail = tail_in(prefix)
    size = len(prefix)
    for key, value in rows_of(database, prefix):
        yield key[size:], without_original(prefix, tail, value)[1]


def whole_entries(
    database: Database, key_group: int, state: int, kind: str
) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """Yield the entries of a state in a key group, each assembled from its rows.

    Yields:
        The tail, the value of one of its rows, and key and value in the format of whole entries.
    """
    rows = rows_of(database, group_prefix(key_group) + state_tail(state))
    for prefix, found in itertools.groupby(rows, lambda row: prefix_in(row[0], tail_in(row[0]))):
        tail = tail_in(prefix)
        elements = list(found)
        first = elements[0][1]
        key = without_original(prefix, tail, first)[0]
        key = key or prefix[GROUP_BYTES + len(tail) + _KEY_LENGTH.size + 1 :]
        size = len(prefix)
        parts = ((row[size:], without_original(prefix, tail, value)[1]) for row, value in elements)
        yield tail, first, key, _map_of(parts) if kind == "map" else _list_of(parts)


def num_entries(database: Database, key_groups: Iterable[int], state: int) -> int:
    """Return the number of entries with rows."""
    found = 0
    cursor = database.cursor()
    for group in key_groups:
        begin = group_prefix(group) + state_tail(state)
        cursor.seek(begin)
        while cursor.valid() and cursor.key().startswith(begin):
            found += 1
            key = cursor.key()
            cursor.seek(successor(prefix_in(key, tail_in(key))))
        database.check(cursor)
    return found


def _map_of(parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    pairs = [suffix + data[1:] if data[:1] == _NO_KEY else data[1:] for suffix, data in parts]
    out = bytearray((DICT,))
    write_varint(out, len(pairs))
    return bytes(out) + b"".join(pairs)


def _list_of(parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    values: list[Any] = []
    for _, data in parts:
        values += decode(data)
    return encode(values)
