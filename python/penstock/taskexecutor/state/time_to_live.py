"""Expiry of state entries, and their removal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.datastream.state_ttl_config import StateTtlConfig
    from penstock.taskexecutor.state.heap import KeyContext, StateTable

#: Identity of no key.
_NO_KEY: Final = object()


@dataclass(frozen=True)
class TimeToLive:
    """The options of a ``StateTtlConfig`` in plain numbers.

    Attributes:
        ttl_ms: Time after which an entry has expired.
        on_read: Whether reading prolongs the life of an entry.
        return_expired: Whether an expired entry may be read until it is removed.
        now: The clock, in ms.
        cleanup_size: Number of entries to check at each access; 0 for none.
        every_record: Whether to check them for each record and timer as well.
        in_snapshots: Whether snapshots leave out expired entries.
        compaction_query_rows: For a database, the number of rows between two readings of the clock;
            0 to keep expired rows.
        compaction_period_ms: Time by which all rows must be checked; 0 for any time.
        is_compaction_default: Whether the user set neither, so that options apply.
    """

    ttl_ms: int
    on_read: bool
    return_expired: bool
    now: Callable[[], int]
    cleanup_size: int = 0
    every_record: bool = False
    in_snapshots: bool = False
    compaction_query_rows: int = 0
    compaction_period_ms: int = 0
    is_compaction_default: bool = False

    @staticmethod
    def of(config: StateTtlConfig | None, now: Callable[[], int]) -> TimeToLive | None:
        """Convert a ``StateTtlConfig``; return None if it is None or disabled."""
        if config is None:
            return None
        update_type = config.get_update_type().name
        if update_type == "Disabled":
            return None
        cleanup = config.get_cleanup_strategies()
        incremental = cleanup.get_incremental_cleanup_strategy()
        compaction = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
        period = None if compaction is None else compaction.get_periodic_compaction_time()
        return TimeToLive(
            ttl_ms=config.get_ttl().to_milliseconds(),
            on_read=update_type == "OnReadAndWrite",
            return_expired=config.get_state_visibility().name == "ReturnExpiredIfNotCleanedUp",
            now=now,
            cleanup_size=0 if incremental is None else incremental.get_cleanup_size(),
            every_record=incremental is not None and incremental.run_cleanup_for_every_record(),
            in_snapshots=cleanup.in_full_snapshot(),
            compaction_query_rows=(
                0 if compaction is None else compaction.get_query_time_after_num_entries()
            ),
            compaction_period_ms=0 if period is None else period.to_milliseconds(),
            is_compaction_default=compaction is cleanup.DEFAULT_COMPACT_FILTER,
        )

    def expired(self, written_ms: int) -> bool:
        """Return whether an entry written or touched at ``written_ms`` has expired."""
        return written_ms <= self.newest_expired()

    def visible(self, written_ms: int) -> bool:
        """Return whether an entry written or touched at ``written_ms`` may still be read."""
        return self.return_expired or not self.expired(written_ms)

    def unexpired(self, stored: object) -> object:
        """Return the unexpired part of a value, list or map.

        Returns:
            None if everything has expired, the same object if nothing has, else a new one.
        """
        return self.left_of(stored, self.newest_expired())

    def newest_expired(self) -> int:
        """Return the write time, in ms, of entries that expire just now."""
        return self.now() - self.ttl_ms

    @staticmethod
    def left_of(stored: Any, expired_ms: int) -> Any:
        """Return the result of `unexpired` if all entries written by then have expired."""
        if isinstance(stored, Aged):
            return None if stored.time_ms <= expired_ms else stored
        if isinstance(stored, dict):
            pairs = {key: aged for key, aged in stored.items() if aged.time_ms > expired_ms}
            return stored if len(pairs) == len(stored) else pairs or None
        elements = [aged for aged in stored if aged.time_ms > expired_ms]
        return stored if len(elements) == len(stored) else elements or None


class Aged:
    """A value and the time in ms at which it was last written or touched."""

    __slots__ = ("time_ms", "value")

    def __init__(self, value: object, time_ms: int) -> None:
        """Pair a value with a time."""
        self.value = value
        self.time_ms = time_ms

    def __repr__(self) -> str:
        return f"Aged({self.value!r}, {self.time_ms})"


class IncrementalCleanup:
    """Removes expired entries from a table, a few at a time, in rounds.

    Attributes:
        runs_at_every_record: Whether to run for each record and timer too.
    """

    def __init__(self, table: StateTable, ttl: TimeToLive, context: KeyContext) -> None:
        """Start with the first entry; ``context`` has the current key."""
        self._table = table
        self._context = context
        self._ttl = ttl
        self._slot = 0
        self._position = 0
        self.runs_at_every_record = ttl.every_record

    def run_beside_access(self) -> None:
        """Check the next entries, except that of the current key, which its reader checks."""
        self._run(self._context.current_key)

    def run(self) -> None:
        """Check the next entries."""
        self._run(_NO_KEY)

    def _run(self, skipped: object) -> None:
        found, self._slot, self._position = self._table.peek(
            self._slot, self._position, self._ttl.cleanup_size
        )
        expired_ms = self._ttl.newest_expired()
        for contents, key, stored in found:
            # Most are one unexpired value: check for it first.
            if type(stored) is Aged and stored.time_ms > expired_ms:
                continue
            if key == skipped:
                continue
            kept = self._ttl.left_of(stored, expired_ms)
            if kept is None:
                contents.remove(key)
            elif kept is not stored:
                contents.put(key, kept)
