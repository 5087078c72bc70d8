"""Removes rows of state that has expired, some each time that others are written.

RocksDB can do it while it compacts files, by a filter that rocksdict does not offer.  As there, the
work follows from how much is written: every row is looked at once for each that is written.
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

#: Rows that are looked at each time, at least.
_LEAST_ROWS: Final = 1000


class ExpiredRows:
    """Looks at the rows of one state in their order, round and round.

    What is in memory has been written when it does: what is there of removed rows has expired as
    well, and is not seen when it is met.
    """

    def __init__(self, store: RowStore, state: CachedState, ttl: TimeToLive) -> None:
        """Begins with the first row.

        Args:
            store: Has the rows.
            state: The state.
            ttl: When they expire, how often the clock is read, and how long a round may take.
        """
        self._store = store
        self._state = state
        self._clock = ttl.now
        self._now_ms = ttl.now()
        #: Sees the time as it was when the clock was read last.
        self._ttl = replace(ttl, now=lambda: self._now_ms)
        self._began_ms = self._now_ms
        #: The next position: a key group, by its index, and the part of a row's key behind its
        #: state.
        self._group = 0
        self._rest = b""

    def run(self, num_written: int) -> None:
        """Looks at the next rows: as many as were written, or all when the round takes too long.

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
        """The rows of this round that were not looked at."""
        state = state_tail(self._state.stored_kind.number)
        for group in self._store.key_groups[self._group :]:
            prefix = group_prefix(group) + state
            for row, value in rows_of(self._store.database, prefix, prefix + self._rest):
                self._rest = row[len(prefix) :] + b"\x00"
                yield row, value
            self._group += 1
            self._rest = b""

    def _kept(self, row: bytes, value: bytes) -> bytes | None:
        """The value that a row is to have; None for no row, the same object for no change."""
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
    """Return whether a value carries a time; it has none before its conversion."""
    elements = stored.values() if isinstance(stored, dict) else stored
    if isinstance(stored, list | dict):
        return all(isinstance(one, Aged) for one in elements)
    return isinstance(stored, Aged)
