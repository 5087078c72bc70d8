"""Rows of looked-up keys that are kept for some time."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence


@dataclass(frozen=True)
class CacheOptions:
    """The limits of a cache.

    Attributes:
        max_rows: The most keys; None for any number.
        after_write_ms: The time that rows stay after they were read; None for any time.
        after_access_ms: The time that rows stay after they were used; None for any time.
        keeps_missing: Whether keys without rows are kept.
    """

    max_rows: int | None = None
    after_write_ms: int | None = None
    after_access_ms: int | None = None
    keeps_missing: bool = True


@dataclass
class _Entry:
    rows: Sequence[Any]
    written_ms: int
    used_ms: int


class LookupCache:
    """The rows of the keys that were used last.

    Args:
        options: The limits.
        clock: Returns the time in ms.

    Attributes:
        hits: The number of keys that were found.
        misses: The number of keys that were not.
    """

    def __init__(
        self,
        options: CacheOptions,
        clock: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._options = options
        self._clock = clock
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Sequence[Any] | None:
        """Return the rows of a key; None if they are not there or too old."""
        entry = self._entries.get(key)
        now = self._clock()
        if entry is not None and self._is_over(entry, now):
            del self._entries[key]
            entry = None
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        entry.used_ms = now
        self._entries.move_to_end(key)
        return entry.rows

    def put(self, key: Hashable, rows: Sequence[Any]) -> None:
        """Keep the rows of a key; drop those of the key that was used longest ago if needed."""
        if not rows and not self._options.keeps_missing:
            return
        now = self._clock()
        self._entries[key] = _Entry(rows, now, now)
        self._entries.move_to_end(key)
        if self._options.max_rows is not None and len(self._entries) > self._options.max_rows:
            self._entries.popitem(last=False)

    def _is_over(self, entry: _Entry, now: int) -> bool:
        options = self._options
        return (
            options.after_write_ms is not None and now - entry.written_ms >= options.after_write_ms
        ) or (
            options.after_access_ms is not None and now - entry.used_ms >= options.after_access_ms
        )
