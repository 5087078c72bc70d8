"""Reads rows: what a database holds of a state, by key group and namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.serialization.pure.dynamic_codec import decode_dynamic
from penstock.serialization.pure.value_bytes import Reader
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.rocksdb.namespaces import (
    GROUP_BYTES,
    has_original,
    namespace_of,
    state_tail,
    tail_in,
)
from penstock.taskexecutor.state.key_group_entries import ENTRY, NAMESPACE
from penstock.taskexecutor.state.state_rows import FORM

if TYPE_CHECKING:
    from penstock.taskexecutor.rocksdb.database import Database

_ENTRY: Final = bytes((ENTRY,))


def group_prefix(key_group: int) -> bytes:
    """What the keys of the rows of a key group begin with."""
    return key_group.to_bytes(GROUP_BYTES, "big")


def successor(prefix: bytes) -> bytes:
    """The first key after all that begin so; it does not consist of the byte 255 alone."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,))


def rows_of(database: Database, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The rows whose keys begin so, as they are now."""
    for key, value in database.items(prefix):
        if not key.startswith(prefix):
            return
        yield key, value


def tails_of(database: Database, key_group: int, state: int) -> Iterator[tuple[bytes, bytes]]:
    """The namespaces of a state that have rows in a key group: tail, and the value of a row."""
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


def read_row(tail: bytes, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The serialised key and value of an entry."""
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


class StateEntries(Mapping[int, bytes]):
    """The entries of a state by key group, as a snapshot serialises them, each when asked for."""

    def __init__(
        self,
        database: Database,
        state: int,
        key_groups: range,
        kept: Callable[[Any], Any] | None = None,
    ) -> None:
        """Reads a database.

        Args:
            database: The database.
            state: The number of the state.
            key_groups: Those that are read.
            kept: Gives what is kept of a value, None for nothing; None keeps all.
        """
        self._kept = kept
        self._database = database
        self._state = state
        self._key_groups = key_groups

    def __getitem__(self, key_group: int) -> bytes:
        if key_group not in self._key_groups:
            raise KeyError(key_group)
        serializer = TypeSerializer[Any]()
        encode, decode = serializer.serialize, serializer.deserialize
        prefix = group_prefix(key_group) + state_tail(self._state)
        parts: list[bytes] = []
        begin, tail = b"", b""
        for key, value in rows_of(self._database, prefix):
            if not begin or not key.startswith(begin):
                tail = tail_in(key)
                begin = key[: GROUP_BYTES + len(tail)]
                namespace = namespace_of(tail, value)
                if namespace is not None:
                    parts += (bytes((NAMESPACE,)), encode(namespace))
            entry = read_row(tail, key, value)
            if self._kept is not None:
                kept = self._kept(decode(entry[1]))
                if kept is None:
                    continue
                entry = entry[0], encode(kept)
            parts += (_ENTRY, *entry)
        if not parts:
            raise KeyError(key_group)
        return b"".join(parts)

    def __iter__(self) -> Iterator[int]:
        return (
            group
            for group in self._key_groups
            if next(tails_of(self._database, group, self._state), None) is not None
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


def entry_of(tail: bytes, key: bytes, value: bytes) -> tuple[Any, Any]:
    """Key and value of an entry."""
    decode = TypeSerializer[Any]().deserialize
    written_key, written_value = read_row(tail, key, value)
    return decode(written_key), decode(written_value)
