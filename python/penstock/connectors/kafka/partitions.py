"""Partitions of topics, and a source's splits for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.connectors.split_source import SourceSplit
from penstock.errors import InvalidProgramError

__all__ = ["KafkaPartitionSplit", "KafkaTopicPartition", "check_topic", "owner_of"]

#: Valid names of topics.
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def check_topic(where: str, topic: Any) -> None:
    """Check the name of a topic.

    Raises:
        InvalidProgramError: The name is invalid.
    """
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise InvalidProgramError(
            f"{where} takes names of topics, 1 to 249 of A-Z, a-z, 0-9, '.', '_' and '-', got "
            f"{topic!r}"
        )


@checks_arguments
class KafkaTopicPartition:
    """A partition of a topic, from 0."""

    def __init__(self, topic: str, partition: int) -> None:
        """Create the name of a partition.

        Raises:
            InvalidProgramError: The topic's name is invalid, or the number is negative.
        """
        check_topic("KafkaTopicPartition", topic)
        if partition < 0:
            raise InvalidProgramError(
                f"KafkaTopicPartition: partitions are numbered from 0, got {partition}"
            )
        self._topic = topic
        self._partition = partition

    @property
    def topic(self) -> str:
        """Return the topic."""
        return self._topic

    @property
    def partition(self) -> int:
        """Return the number of the partition, from 0."""
        return self._partition

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KafkaTopicPartition):
            return False
        return self._topic == other._topic and self._partition == other._partition

    def __hash__(self) -> int:
        return hash((self._topic, self._partition))

    def __lt__(self, other: KafkaTopicPartition) -> bool:
        return (self._topic, self._partition) < (other._topic, other._partition)

    def __repr__(self) -> str:
        return f"{self._topic}-{self._partition}"


@dataclass(frozen=True)
class KafkaPartitionSplit(SourceSplit):
    """A partition and the range of offsets to read.

    Attributes:
        topic: The topic.
        partition: The partition, from 0.
        starting_offset: The offset of the first record; negative values are librdkafka's logical
            offsets, of which `offsets.EARLIEST` is used.
        stopping_offset: The offset after the last record; None to read without end.
    """

    topic: str
    partition: int
    starting_offset: int
    stopping_offset: int | None = None

    def split_id(self) -> str:
        """Return the topic and the partition."""
        return f"{self.topic}-{self.partition}"

    @property
    def topic_partition(self) -> KafkaTopicPartition:
        """Return the partition of the split."""
        return KafkaTopicPartition(self.topic, self.partition)

    @property
    def is_empty(self) -> bool:
        """Return whether the range contains no offset."""
        return self.stopping_offset is not None and self.starting_offset >= self.stopping_offset


def owner_of(topic: str, partition: int, parallelism: int) -> int:
    """Return the subtask that reads a partition, as in Flink's connector.

    A topic's partitions are distributed round-robin, from a subtask that its name selects.
    """
    hashed = 0
    for unit in topic.encode("ascii"):  # as topics' names are
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    start = ((hashed * 31) & 0x7FFFFFFF) % parallelism
    return (start + partition) % parallelism
