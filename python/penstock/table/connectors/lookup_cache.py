"""Cache of the rows of looked-up keys."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.table.options.connector_options import (
    OptionSpec,
    boolean,
    choice,
    duration_ms,
    positive,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

Key = tuple[Any, ...]
Rows = list[tuple[Any, ...]]

CACHE_OPTIONS: Final[dict[str, OptionSpec]] = {
    "lookup.cache": OptionSpec(choice("NONE", "PARTIAL"), "NONE"),
    "lookup.partial-cache.max-rows": OptionSpec(positive),
    "lookup.partial-cache.expire-after-write": OptionSpec(duration_ms),
    "lookup.partial-cache.expire-after-access": OptionSpec(duration_ms),
    "lookup.partial-cache.cache-missing-key": OptionSpec(boolean, True),
}
"""The options of the cache of a connector."""


def partial_cache(values: Mapping[str, Any]) -> CacheOptions | None:
    """Return the cache limits of a connector's options; None without a cache."""
    if values["lookup.cache"] != "PARTIAL":
        return None
    return CacheOptions(
        values["lookup.partial-cache.max-rows"],
        values["lookup.partial-cache.expire-after-write"],
        values["lookup.partial-cache.expire-after-access"],
        values["lookup.partial-cache.cache-missing-key"],
    )


@dataclass(frozen=True)
class CacheOptions:
    """The limits of a cache.

    Attributes:
        max_rows: The largest number of keys; None for no limit.
        after_write_ms: The time after which rows expire once read; None for never.
        after_access_ms: The time after which unused rows expire; None for never.
        keeps_missing: Whether keys without rows are cached.
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
    """The rows of the most recently used keys; expired rows are removed when others are stored.

    Args:
        options: The limits.
        clock: Returns the time in ms.

    Attributes:
        hits: The number of keys that were found.
        misses: The number of keys that were not found.
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
        """Return the rows of a key; None if they are missing or expired."""
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
        """Store the rows of a key; evict the least recently used key if the cache is full."""
        if not rows and not self._options.keeps_missing:
            return
        now = self._clock()
        self._entries[key] = _Entry(rows, now, now)
        self._entries.move_to_end(key)
        if self._options.max_rows is not None and len(self._entries) > self._options.max_rows:
            self._entries.popitem(last=False)
        # Expired rows of keys that never come again would stay: those used longest ago are first.
        while self._entries and self._is_over(next(iter(self._entries.values())), now):
            self._entries.popitem(last=False)

    def _is_over(self, entry: _Entry, now: int) -> bool:
        options = self._options
        return (
            options.after_write_ms is not None and now - entry.written_ms >= options.after_write_ms
        ) or (
            options.after_access_ms is not None and now - entry.used_ms >= options.after_access_ms
        )


class CachedKeyLookup(ABC):
    """Looks up the rows of keys in the cache, if any, and then in the database.

    Args:
        cache: The limits of the cache; None for no cache.

    Attributes:
        queries: The number of queries that were executed.
    """

    #: The largest number of keys in a query.
    keys_a_query: int = 100

    def __init__(self, cache: CacheOptions | None) -> None:
        self._cache = None if cache is None else LookupCache(cache)
        self.queries = 0

    @abstractmethod
    def ask(self, names: Sequence[str], keys: Sequence[Key]) -> dict[Key, Rows]:
        """Query the database for the rows of each key.

        Raises:
            SourceError: The database does not respond, or has other columns.
        """

    def register(self, metrics: Any) -> None:
        """Register the counters as metrics of an operator."""
        cache = self._cache
        metrics.gauge("lookupQueries", lambda: self.queries)
        if cache is not None:
            metrics.gauge("hitCount", lambda: cache.hits)
            metrics.gauge("missCount", lambda: cache.misses)
            metrics.gauge("numCachedRecord", lambda: len(cache))

    def lookup(self, names: Sequence[str], keys: Sequence[Key]) -> dict[Key, Rows]:
        """Return the rows of each key.

        Args:
            names: The columns of a key.
            keys: The keys, without NULL.

        Raises:
            SourceError: The database does not respond, or has other columns.
        """
        found: dict[Key, Rows] = {}
        asked = []
        for key in keys:
            rows = None if self._cache is None else self._cache.get((*names, *key))
            if rows is None:
                asked.append(key)
            else:
                found[key] = list(rows)
        for start in range(0, len(asked), self.keys_a_query):
            found |= self.ask(names, asked[start : start + self.keys_a_query])
        if self._cache is not None:
            for key in asked:
                self._cache.put((*names, *key), found[key])
        return found
