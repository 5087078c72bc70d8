"""StateTtlConfig: the time after which state expires, and how it is removed."""

from __future__ import annotations

from abc import ABC
from enum import Enum

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.time import Duration, Time
from penstock.errors import InvalidProgramError


def _time_of(period: Duration | Time | None) -> Time:
    """Return the period as a Time, or Flink's 30 days for None."""
    return Time.days(30) if period is None else Time.milliseconds(period.to_milliseconds())


@checks_arguments
class StateTtlConfig:
    """The time to live of a state; build one with `new_builder`."""

    class UpdateType(Enum):
        """Operations that extend the life of a value."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Visibility of values that have expired."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The clock that measures the time to live."""

        ProcessingTime = 0

    def __init__(
        self,
        update_type: StateTtlConfig.UpdateType,
        state_visibility: StateTtlConfig.StateVisibility,
        ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic,
        ttl: Duration | Time,
        cleanup_strategies: StateTtlConfig.CleanupStrategies,
    ) -> None:
        """Create a configuration.

        Raises:
            InvalidProgramError: The time to live or a number of entries to check is not
                positive, or a period is negative.
        """
        if ttl.to_milliseconds() <= 0:
            raise InvalidProgramError(f"a time to live must be positive, got {ttl}")
        incremental = cleanup_strategies.get_incremental_cleanup_strategy()
        if incremental is not None and incremental.get_cleanup_size() <= 0:
            raise InvalidProgramError(
                "cleanup_incrementally must check at least one entry each time, got "
                f"{incremental.get_cleanup_size()}"
            )
        compaction = cleanup_strategies.get_rocksdb_compact_filter_cleanup_strategy()
        if compaction is not None and compaction.get_query_time_after_num_entries() <= 0:
            raise InvalidProgramError(
                "cleanup_in_rocksdb_compact_filter must read the clock again after at least one "
                f"entry, got {compaction.get_query_time_after_num_entries()}"
            )
        period = None if compaction is None else compaction.get_periodic_compaction_time()
        if period is not None and period.to_milliseconds() < 0:
            raise InvalidProgramError(
                "the periodic_compaction_time of cleanup_in_rocksdb_compact_filter cannot be "
                f"negative, got {period}"
            )
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = Time.milliseconds(ttl.to_milliseconds())
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Duration | Time) -> StateTtlConfig.Builder:
        """Create a builder with a time to live."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Return the operations that extend the life of a value."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Return whether an expired value may still be returned."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Return the time to live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Return the clock that measures the time to live."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Return whether values expire at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """Return the strategies that remove expired values."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        # The text is exactly PyFlink's: logs and tests may compare it.
        return (
            f"StateTtlConfig<update_type={self._update_type}, "
            f"state_visibility={self._state_visibility},"
            f"ttl_time_characteristic ={self._ttl_time_characteristic},ttl={self._ttl}>"
        )

    @checks_arguments
    class Builder(MissingMethods):
        """Collects the settings of a time to live."""

        def __init__(self, ttl: Duration | Time) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies,
                StateTtlConfig.CleanupStrategies.CleanupStrategy,
            ] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Set the operations that extend the life of a value."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Extend the life of a value when it is written."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Extend the life of a value when it is written or read."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(
            self, state_visibility: StateTtlConfig.StateVisibility
        ) -> StateTtlConfig.Builder:
            """Set whether an expired value may still be returned."""
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Return an expired value until it is removed."""
            return self.set_state_visibility(
                StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
            )

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Never return an expired value."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Set the clock that measures the time to live."""
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Measure the time to live by processing time."""
            return self.set_ttl_time_characteristic(
                StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            )

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leave expired values out of full snapshots."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.FULL_STATE_SCAN_SNAPSHOT] = (
                strategies.EMPTY_STRATEGY
            )
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Remove a few expired values at each access.

            Args:
                cleanup_size: Number of entries to check at each access.
                run_cleanup_for_every_record: Whether to check entries at each record as well.
            """
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.INCREMENTAL_CLEANUP] = (
                strategies.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self,
            query_time_after_num_entries: int,
            periodic_compaction_time: Duration | Time | None = None,
        ) -> StateTtlConfig.Builder:
            """Remove expired values from RocksDB, a few whenever values are written.

            Args:
                query_time_after_num_entries: Number of entries after which the clock is read again.
                periodic_compaction_time: Time after which all entries are checked, even if few are
                    written; 30 days by default, 0 for never.
            """
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                strategies.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                )
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Remove expired values only when they are accessed."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Duration | Time) -> StateTtlConfig.Builder:
            """Set the time to live."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """Return the configuration."""
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(
                    dict(self._strategies), self._is_cleanup_in_background
                ),
            )

    class CleanupStrategies:
        """Strategies that remove expired values."""

        class Strategies(Enum):
            """The kinds of cleanup."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy(ABC):  # noqa: B024
            """The settings of one kind of cleanup."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A kind of cleanup without settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Removal of a few values at each access."""

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                """Return the number of entries checked each time."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Return whether entries are checked at each record as well."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Removal from RocksDB."""

            def __init__(
                self,
                query_time_after_num_entries: int,
                periodic_compaction_time: Duration | Time | None = None,
            ) -> None:
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = _time_of(periodic_compaction_time)

            def get_query_time_after_num_entries(self) -> int:
                """Return the number of entries after which the clock is read again."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Time:
                """Return the time after which all entries are checked."""
                return self._periodic_compaction_time

        EMPTY_STRATEGY = EmptyCleanupStrategy()

        DEFAULT_COMPACT_FILTER = RocksdbCompactFilterCleanupStrategy(1000)
        """The default, which the options ``state.backend.rocksdb.compaction.filter.*`` override."""

        def __init__(
            self,
            strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies,
                StateTtlConfig.CleanupStrategies.CleanupStrategy,
            ],
            is_cleanup_in_background: bool,
        ) -> None:
            self._strategies = strategies
            self._is_cleanup_in_background = is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            """Return whether expired values are removed even if they are not accessed."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            """Return whether full snapshots leave expired values out."""
            return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            """Return the settings of removal at each access: the default if none were chosen."""
            chosen = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP)
            if isinstance(chosen, self.IncrementalCleanupStrategy):
                return chosen
            if self._is_cleanup_in_background:
                return self.IncrementalCleanupStrategy(5, False)
            return None

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            """Return the settings of removal from RocksDB: the default if none were chosen."""
            chosen = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER)
            if isinstance(chosen, self.RocksdbCompactFilterCleanupStrategy):
                return chosen
            return self.DEFAULT_COMPACT_FILTER if self._is_cleanup_in_background else None
