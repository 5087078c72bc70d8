"""Start and stop offsets of each partition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.connectors.kafka.partitions import KafkaTopicPartition
from penstock.errors import InvalidProgramError, SourceError

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["EARLIEST", "KafkaOffsetResetStrategy", "KafkaOffsetsInitializer", "OffsetsRetriever"]

#: The offset that stands for the first record that still exists when reading starts.
EARLIEST: Final = -2


class KafkaOffsetResetStrategy(Enum):
    """Start position when no offset is stored, or the stored one has been deleted."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class OffsetsRetriever(ABC):
    """Source of the brokers' offsets; partitions without an offset are left out."""

    @abstractmethod
    def committed(
        self, partitions: Collection[KafkaTopicPartition]
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offsets that the consumer group has committed."""

    @abstractmethod
    def latest(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """Return the offsets after the last records."""

    @abstractmethod
    def at_time(
        self, partitions: Collection[KafkaTopicPartition], timestamp_ms: int
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offsets of the first records with at least this timestamp."""


class KafkaOffsetsInitializer(NoJavaMembers):
    """Offsets at which reading starts or stops; use the static methods."""

    def __init__(self, j_initializer: None) -> None:
        """Create an initializer; subclasses pass None.

        Raises:
            JvmOnlyError: A Java initializer was passed.
        """
        if j_initializer is not None:
            requires_jvm("KafkaOffsetsInitializer(j_initializer)", "use its static methods")

    #: The consumer's reset strategy for an offset that no longer exists.
    reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE

    def partition_offsets(
        self, partitions: Collection[KafkaTopicPartition], retriever: OffsetsRetriever
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offset of each partition; called in the driver, and may be overridden.

        Raises:
            SourceError: A partition has no offset.
        """
        raise NotImplementedError(f"{type(self).__name__}.partition_offsets")

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Use the offsets that the consumer group has committed, or else the strategy."""
        return Committed(_strategy(offset_reset_strategy))

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Use the first records whose timestamp in ms is at least this one, or else the end."""
        given: Any = timestamp
        if type(given) is not int or given < 0:
            raise InvalidProgramError(
                f"KafkaOffsetsInitializer.timestamp takes ms since 1970, got {timestamp!r}"
            )
        return _AtTime(timestamp)

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Use the first existing records."""
        return _Earliest(None)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Use the end of the records that exist when the job starts."""
        return _Latest(None)

    @staticmethod
    def offsets(
        offsets: dict[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Use offsets by partition, and the strategy for partitions without one."""
        found: Any = offsets
        if not isinstance(found, Mapping):
            raise InvalidProgramError(
                "KafkaOffsetsInitializer.offsets takes a dictionary of offsets by "
                f"KafkaTopicPartition, got {offsets!r}"
            )
        for partition, offset in offsets.items():
            if not isinstance(partition, KafkaTopicPartition):
                raise InvalidProgramError(
                    f"KafkaOffsetsInitializer.offsets takes KafkaTopicPartitions, got {partition!r}"
                )
            given: Any = offset
            if type(given) is not int or given < 0:
                raise InvalidProgramError(
                    f"the offset of {partition!r} must be 0 or more, got {offset!r}"
                )
        return _Specified(dict(offsets), _strategy(offset_reset_strategy))


def _strategy(given: KafkaOffsetResetStrategy) -> KafkaOffsetResetStrategy:
    if not isinstance(given, KafkaOffsetResetStrategy):
        raise InvalidProgramError(f"expected a KafkaOffsetResetStrategy, got {given!r}")
    return given


def _by_strategy(
    strategy: KafkaOffsetResetStrategy,
    partitions: Collection[KafkaTopicPartition],
    retriever: OffsetsRetriever,
    reason: str,
) -> dict[KafkaTopicPartition, int]:
    """Return the offsets that the strategy sets for partitions without another one."""
    if not partitions:
        return {}
    if strategy is KafkaOffsetResetStrategy.EARLIEST:
        return dict.fromkeys(partitions, EARLIEST)
    if strategy is KafkaOffsetResetStrategy.LATEST:
        return retriever.latest(partitions)
    raise SourceError(
        f"{reason} for {', '.join(map(repr, sorted(partitions)))}; "
        "set an offset reset strategy other than NONE to choose the start"
    )


class _Earliest(KafkaOffsetsInitializer):
    reset_strategy = KafkaOffsetResetStrategy.EARLIEST

    def partition_offsets(
        self, partitions: Collection[KafkaTopicPartition], retriever: OffsetsRetriever
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offsets of the first records."""
        return _by_strategy(self.reset_strategy, partitions, retriever, "")


class _Latest(KafkaOffsetsInitializer):
    reset_strategy = KafkaOffsetResetStrategy.LATEST

    def partition_offsets(
        self, partitions: Collection[KafkaTopicPartition], retriever: OffsetsRetriever
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offsets after the last records."""
        return retriever.latest(partitions)


class _AtTime(KafkaOffsetsInitializer):
    def __init__(self, timestamp_ms: int) -> None:
        super().__init__(None)
        self._timestamp_ms = timestamp_ms

    def partition_offsets(
        self, partitions: Collection[KafkaTopicPartition], retriever: OffsetsRetriever
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offsets of the first records from the time on, or else the end."""
        found = retriever.at_time(partitions, self._timestamp_ms)
        missing = [partition for partition in partitions if partition not in found]
        return {**found, **(retriever.latest(missing) if missing else {})}


class Committed(KafkaOffsetsInitializer):
    def __init__(self, strategy: KafkaOffsetResetStrategy) -> None:
        super().__init__(None)
        self.reset_strategy = strategy

    def partition_offsets(
        self, partitions: Collection[KafkaTopicPartition], retriever: OffsetsRetriever
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offsets that the group committed."""
        found = retriever.committed(partitions)
        missing = [partition for partition in partitions if partition not in found]
        reason = "the consumer group has committed no offset"
        return {**found, **_by_strategy(self.reset_strategy, missing, retriever, reason)}


class _Specified(KafkaOffsetsInitializer):
    def __init__(
        self, offsets: dict[KafkaTopicPartition, int], strategy: KafkaOffsetResetStrategy
    ) -> None:
        super().__init__(None)
        self._given = offsets
        self.reset_strategy = strategy

    def partition_offsets(
        self, partitions: Collection[KafkaTopicPartition], retriever: OffsetsRetriever
    ) -> dict[KafkaTopicPartition, int]:
        """Return the given offsets, or else the strategy's."""
        found = {p: self._given[p] for p in partitions if p in self._given}
        missing = [partition for partition in partitions if partition not in found]
        reason = "no offset was given"
        return {**found, **_by_strategy(self.reset_strategy, missing, retriever, reason)}
