"""A log of the rows set in or removed from a database, in order (M66).

It is kept in memory from the earliest snapshot from which a segment may continue.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from penstock.errors import CorruptStreamError
from penstock.taskexecutor.rocksdb.namespaces import GROUP_BYTES, state_in
from penstock.taskexecutor.rocksdb.row_format import group_prefix, successor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock.taskexecutor.rocksdb.database import Database

#: Kinds of changes: a row set or removed, or all rows from one key up to another removed.
_SET, _REMOVED, _RANGE_REMOVED = range(3)

#: The kind of a change, and the lengths of its two parts, which follow.
_HEAD: Final = struct.Struct(">BII")

#: Most bytes kept; beyond, the next checkpoint is full.
MOST_BYTES: Final = 128 << 20

#: Rows replayed at a time.
_BATCH_ROWS: Final = 16_384

_STATE_END: Final = GROUP_BYTES + 2

#: A change: its kind, and its key and value, or the ends of a range.
Change = tuple[int, bytes, bytes]


class RowLog:
    """The changes of a database's rows."""

    def __init__(self) -> None:
        """Create an empty log; it records nothing before the first snapshot."""
        self._by_snapshot: dict[int, list[Change]] = {}
        self._last: list[Change] | None = None
        self._size = 0

    def begin(self, snapshot_id: int) -> None:
        """Start the log of a snapshot: later changes are not in it."""
        self._last = self._by_snapshot[snapshot_id] = []

    def written(self, removed: Collection[bytes], rows: Collection[tuple[bytes, bytes]]) -> None:
        """Record rows that were removed, then others that were set."""
        if self._last is None:
            return
        self._last += [(_REMOVED, key, b"") for key in removed]
        self._last += [(_SET, key, value) for key, value in rows]
        self._add(sum(map(len, removed)) + sum(len(key) + len(value) for key, value in rows))

    def range_removed(self, first: bytes, end: bytes) -> None:
        """Record the removal of rows from one key up to another, in one key group."""
        if self._last is not None:
            self._last.append((_RANGE_REMOVED, first, end))
            self._add(len(first) + len(end))

    def since(self, snapshot_id: int) -> list[list[Change]] | None:
        """Return the changes from a snapshot to the last one; None if they are unknown."""
        ids = list(self._by_snapshot)
        if snapshot_id not in self._by_snapshot:
            return None
        return [self._by_snapshot[id_] for id_ in ids[ids.index(snapshot_id) : -1]]

    def forget(self, needed: Collection[int]) -> None:
        """Drop the changes before the earliest of the needed snapshots."""
        for snapshot_id in list(self._by_snapshot):
            if snapshot_id in needed:
                return
            if self._by_snapshot[snapshot_id] is self._last:
                return
            gone = self._by_snapshot.pop(snapshot_id)
            self._size -= sum(len(key) + len(value) for _, key, value in gone)

    def _add(self, size: int) -> None:
        self._size += size
        if self._size > MOST_BYTES:
            self._by_snapshot.clear()
            self._last = None
            self._size = 0


def grouped(changes: Sequence[Sequence[Change]]) -> dict[int, bytes]:
    """Return the changes as bytes, by key group."""
    groups: dict[bytes, list[bytes]] = {}
    pack = _HEAD.pack
    for of_snapshot in changes:
        for kind, key, value in of_snapshot:
            parts = groups.setdefault(key[:GROUP_BYTES], [])
            parts += (pack(kind, len(key), len(value)), key, value)
    return {int.from_bytes(group, "big"): b"".join(parts) for group, parts in groups.items()}


def replay_rows(
    data: bytes, key_group: int, database: Database, numbers: Mapping[int, bytes] | None
) -> None:
    """Apply a log to the rows of a key group.

    Args:
        data: The bytes from `grouped`.
        key_group: The key group.
        database: The database with the rows.
        numbers: New state numbers, in their form in keys; None to keep the numbers.

    Raises:
        CorruptStreamError: The bytes are not a valid log.
        StateBackendError: The database cannot be written.
    """
    renumbered = _renumbering(numbers)
    removed: dict[bytes, None] = {}
    rows: dict[bytes, bytes] = {}

    def write() -> None:
        database.write(sorted(removed), sorted(rows.items()))
        removed.clear()
        rows.clear()

    position = 0
    while position < len(data):
        kind, key, value, position = _change_at(data, position)
        if kind > _RANGE_REMOVED or key[:GROUP_BYTES] != group_prefix(key_group):
            raise CorruptStreamError(f"a change of kind {kind} in the log of group {key_group}")
        if kind == _RANGE_REMOVED:
            write()
            first = renumbered(key)
            is_prefix = value == successor(key)
            database.remove_range(first, successor(first) if is_prefix else renumbered(value))
        elif kind == _SET:
            rows[renumbered(key)] = value
            removed.pop(renumbered(key), None)
        else:
            rows.pop(renumbered(key), None)
            removed[renumbered(key)] = None
        if len(rows) + len(removed) >= _BATCH_ROWS:
            write()
    write()


def _change_at(data: bytes, position: int) -> tuple[int, bytes, bytes, int]:
    begin = position + _HEAD.size
    if begin > len(data):
        raise CorruptStreamError("the log of a database ends in the middle of a change")
    kind, of_key, of_value = _HEAD.unpack_from(data, position)
    middle, end = begin + of_key, begin + of_key + of_value
    if end > len(data):
        raise CorruptStreamError("the log of a database ends in the middle of a change")
    return kind, data[begin:middle], data[middle:end], end


def _renumbering(numbers: Mapping[int, bytes] | None) -> Callable[[bytes], bytes]:
    if numbers is None:
        return lambda key: key
    return lambda key: key[:GROUP_BYTES] + numbers[state_in(key)] + key[_STATE_END:]
