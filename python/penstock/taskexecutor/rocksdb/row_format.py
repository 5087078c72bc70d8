"""Reads the rows of a state by key group and namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.serialization.pure.dynamic_codec import decode_dynamic
from penstock.serialization.pure.value_bytes import Reader
from penstock.taskexecutor.rocksdb.namespaces import (
    GROUP_BYTES,
    has_original,
    state_tail,
    tail_in,
)
from penstock.taskexecutor.state.state_rows import FORM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.taskexecutor.rocksdb.database import Database


def group_prefix(key_group: int) -> bytes:
    """Return the prefix of a key group's row keys."""
    return key_group.to_bytes(GROUP_BYTES, "big")


def successor(prefix: bytes) -> bytes:
    """Return the first key after all keys with the prefix, which must not be all bytes of 255."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,))


def rows_of(
    database: Database, prefix: bytes, begin: bytes | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the current rows whose keys have the prefix, starting at ``begin`` if given.

    Raises:
        StateBackendError: A row cannot be read.
    """
    begin = begin or prefix
    while begin is not None:
        key: bytes | None = None
        for key, value in database.items(begin):
            if not key.startswith(prefix):
                return
            yield key, value
        # After the last row of the database, or at an unreadable row.
        begin = database.first_from(begin if key is None else key + b"\x00")


def tails_of(database: Database, key_group: int, state: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the tail of each namespace of a state with rows in a key group, and one row's value."""
    prefix = group_prefix(key_group) + state_tail(state)
    cursor = database.cursor()
    cursor.seek(prefix)
    while cursor.valid():
        key = cursor.key()
        if not key.startswith(prefix):
            return
        tail = tail_in(key)
        yield tail, cursor.value()
        cursor.seek(successor(key[: GROUP_BYTES + len(tail)]))
    database.check(cursor)


def read_row(tail: bytes, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Return the serialised key and value of an entry."""
    start = GROUP_BYTES + len(tail)
    is_form = key[start] == FORM
    if not is_form and not has_original(tail):
        return key[start + 1 :], value
    reader = Reader(value)
    if has_original(tail):
        decode_dynamic(reader)
    begin = reader.position
    if not is_form:
        return key[start + 1 :], value[begin:]
    decode_dynamic(reader)
    return value[begin : reader.position], value[reader.position :]


def entry_of(
    tail: bytes, key: bytes, value: bytes, decode: Callable[[bytes], object]
) -> tuple[object, object]:
    """Return key and value of an entry, deserialised by ``decode``."""
    written_key, written_value = read_row(tail, key, value)
    return decode(written_key), decode(written_value)
