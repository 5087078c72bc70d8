"""The entries of a state as a snapshot serialises them, read from its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.serialization.former_layouts import former_fields_taken
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.rocksdb.element_rows import whole_entries
from penstock.taskexecutor.rocksdb.namespaces import (
    GROUP_BYTES,
    namespace_of,
    state_tail,
    tail_in,
)
from penstock.taskexecutor.rocksdb.row_format import group_prefix, read_row, rows_of, tails_of
from penstock.taskexecutor.state.key_group_entries import ENTRY, NAMESPACE

if TYPE_CHECKING:
    from penstock.taskexecutor.rocksdb.database import Database

_ENTRY: Final = bytes((ENTRY,))


class StoredKind(NamedTuple):
    """Layout of a state in a database.

    Attributes:
        kind: Its kind.
        number: The state's number in the keys of rows.
        has_elements: Whether each element of a map or a list is a row, instead of each entry.
    """

    kind: str
    number: int
    has_elements: bool


def states_in(meta: Mapping[str, Any]) -> dict[str, StoredKind]:
    """Return the layout of each state by name, from the description of files.

    In version 1, each entry of any state is a row.
    """
    return {
        str(name): StoredKind(str(kind), int(number), bool(rest and rest[0]))
        for name, kind, number, *rest in meta["states"]
    }


class StateEntries(Mapping[int, bytes]):
    """The entries of a state by key group, as a snapshot serialises them, read on demand."""

    def __init__(
        self,
        database: Database,
        state: StoredKind,
        key_groups: range,
        kept: Callable[[object], object] | None = None,
    ) -> None:
        """Create a view of a database.

        Args:
            database: The database.
            state: The layout of the state.
            key_groups: The key groups to read.
            kept: Returns the stored part of a value, or None to drop it; None stores all.
        """
        self._kept = kept
        self._database = database
        self._state = state
        self._key_groups = key_groups

    def __getitem__(self, key_group: int) -> bytes:
        if key_group not in self._key_groups:
            raise KeyError(key_group)
        # A row may come from a checkpoint of another version of the program.
        with former_fields_taken():
            return self._entries(key_group)

    def _entries(self, key_group: int) -> bytes:
        serializer = TypeSerializer[Any]()
        encode, decode = serializer.serialize, serializer.deserialize
        parts: list[bytes] = []
        last = None
        for tail, row, key, value in self._rows(key_group):
            if tail != last:
                last = tail
                namespace = namespace_of(tail, row)
                if namespace is not None:
                    parts += (bytes((NAMESPACE,)), encode(namespace))
            if self._kept is not None:
                kept = self._kept(decode(value))
                if kept is None:
                    continue
                parts += (_ENTRY, key, encode(kept))
            else:
                parts += (_ENTRY, key, value)
        if last is None:
            raise KeyError(key_group)
        return b"".join(parts)

    def _rows(self, key_group: int) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
        """Yield the tail, the value of a row, and key and value of each entry."""
        state = self._state
        if state.has_elements:
            yield from whole_entries(self._database, key_group, state.number, state.kind)
            return
        begin, tail = b"", b""
        prefix = group_prefix(key_group) + state_tail(state.number)
        for row, value in rows_of(self._database, prefix):
            if not begin or not row.startswith(begin):
                tail = tail_in(row)
                begin = row[: GROUP_BYTES + len(tail)]
            yield tail, value, *read_row(tail, row, value)

    def __iter__(self) -> Iterator[int]:
        return (
            group
            for group in self._key_groups
            if next(tails_of(self._database, group, self._state.number), None) is not None
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)
