"""Removes rows of expired state, some each time that other rows are written.

RocksDB can do this during compaction, by a filter that rocksdict does not offer.  As there, the
work follows the amount written: each written row pays for a check of another one.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.rocksdb.element_rows import (
    decode,
    encode,
    prefix_in,
    read_pair,
    without_original,
)
from penstock.taskexecutor.rocksdb.namespaces import state_tail, tail_in
from penstock.taskexecutor.rocksdb.row_format import group_prefix, read_row, rows_of
from penstock.taskexecutor.state.time_to_live import Aged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.taskexecutor.rocksdb.row_store import CachedState, RowStore
    from penstock.taskexecutor.state.time_to_live import TimeToLive

#: Fewest rows checked each time.
_LEAST_ROWS: Final = 1000


class ExpiredRows:
    """Checks the rows of one state in their order, round after round.

    Changes in memory are written back before a check, so a cached entry has expired if its row has,
    and is ignored when it is read.
    """

    def __init__(self, store: RowStore, state: CachedState, ttl: TimeToLive) -> None:
        """Start at the first row.

        Args:
            store: The store with the rows.
            state: The state.
            ttl: The time to live, the clock interval, and the longest time of a round.
        """
        self._store = store
        self._state = state
        self._clock = ttl.now
        self._now_ms = ttl.now()
        #: Sees the time of the last reading of the clock.
        self._ttl = replace(ttl, now=lambda: self._now_ms)
        self._began_ms = self._now_ms
        #: The next position: the index of a key group, and the part of a row's key behind its
        #: state.
        self._group = 0
        self._rest = b""

    def run(self, num_written: int) -> None:
        """Check the next rows: as many as were written, or all if the round takes too long.

        Raises:
            StateBackendError: The database cannot be written.
        """
        self._now_ms = self._clock()
        is_late = 0 < self._ttl.compaction_period_ms <= self._now_ms - self._began_ms
        rows = itertools.islice(
            self._rows_left(), None if is_late else max(num_written, _LEAST_ROWS)
        )
        removed: list[bytes] = []
        changed: list[tuple[bytes, bytes]] = []
        for number, (row, value) in enumerate(rows, 1):
            if number % self._ttl.compaction_query_rows == 0:
                self._now_ms = self._clock()
            kept = self._kept(row, value)
            if kept is None:
                removed.append(row)
            elif kept is not value:
                changed.append((row, kept))
        if removed or changed:
            self._store.database.write(removed, changed)
        if self._group >= len(self._store.key_groups):
            self._group = 0
            self._began_ms = self._now_ms

    def _rows_left(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the unchecked rows of this round."""
        state = state_tail(self._state.stored_kind.number)
        for group in self._store.key_groups[self._group :]:
            prefix = group_prefix(group) + state
            for row, value in rows_of(self._store.database, prefix, prefix + self._rest):
                self._rest = row[len(prefix) :] + b"\x00"
                yield row, value
            self._group += 1
            self._rest = b""

    def _kept(self, row: bytes, value: bytes) -> bytes | None:
        """Return a row's new value: None to remove the row, the same object for no change."""
        kind, _, has_elements = self._state.stored_kind
        tail = tail_in(row)
        if has_elements:
            prefix = prefix_in(row, tail)
            written = without_original(prefix, tail, value)[1]
            if kind == "map":
                aged = read_pair(row[len(prefix) :], written)[1]
                is_expired = isinstance(aged, Aged) and self._ttl.unexpired(aged) is None
                return None if is_expired else value
        else:
            written = read_row(tail, row, value)[1]
        stored = decode(written)
        if not _has_times(stored):
            return value
        kept = self._ttl.unexpired(stored)
        if kept is None or kept is stored:
            return value if kept is stored else None
        return value[: len(value) - len(written)] + encode(kept)


def _has_times(stored: Any) -> bool:
    """Return whether a value carries its times; it does not before its conversion."""
    elements = stored.values() if isinstance(stored, dict) else stored
    if isinstance(stored, list | dict):
        return all(isinstance(one, Aged) for one in elements)
    return isinstance(stored, Aged)
