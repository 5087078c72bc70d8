"""The partitions that a source reads: topics by name or pattern, or single partitions."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.connectors.kafka.partitions import KafkaTopicPartition
from penstock.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Subscriber(ABC):
    """Choice among the partitions that the brokers have."""

    @abstractmethod
    def subscribed(self, topics: Mapping[str, int]) -> set[KafkaTopicPartition]:
        """Return the partitions to read.

        Args:
            topics: The number of partitions of each topic.

        Raises:
            SourceError: A requested topic or partition does not exist.
        """


@dataclass(frozen=True)
class TopicList(Subscriber):
    """All partitions of some topics."""

    topics: tuple[str, ...]

    def subscribed(self, topics: Mapping[str, int]) -> set[KafkaTopicPartition]:
        """Return the partitions of the topics."""
        missing = [topic for topic in self.topics if topic not in topics]
        if missing:
            raise SourceError(
                f"there is no topic {', '.join(missing)}; set_topic_pattern() waits for topics "
                "that are created later; a user only sees topics that it may DESCRIBE"
            )
        return {KafkaTopicPartition(t, number) for t in self.topics for number in range(topics[t])}


@dataclass(frozen=True)
class TopicPattern(Subscriber):
    """All partitions of the topics whose whole names match a pattern."""

    pattern: str

    def subscribed(self, topics: Mapping[str, int]) -> set[KafkaTopicPartition]:
        """Return the partitions of the topics that match."""
        matches = re.compile(self.pattern).fullmatch
        return {
            KafkaTopicPartition(topic, number)
            for topic, count in topics.items()
            if matches(topic)
            for number in range(count)
        }


@dataclass(frozen=True)
class PartitionSet(Subscriber):
    """Some partitions."""

    partitions: frozenset[KafkaTopicPartition]

    def subscribed(self, topics: Mapping[str, int]) -> set[KafkaTopicPartition]:
        """Return the partitions, all of which must exist."""
        missing = sorted(p for p in self.partitions if p.partition >= topics.get(p.topic, 0))
        if missing:
            raise SourceError(f"there is no partition {', '.join(map(repr, missing))}")
        return set(self.partitions)
