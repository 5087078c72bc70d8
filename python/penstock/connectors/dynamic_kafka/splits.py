"""The splits of a dynamic source, and the events from its enumerator to its readers."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.connectors.kafka.partitions import KafkaPartitionSplit


@dataclass(frozen=True)
class DynamicKafkaSourceSplit(KafkaPartitionSplit):
    """A partition of a cluster.

    Attributes:
        cluster: The cluster's name.
    """

    cluster: str = ""

    def split_id(self) -> str:
        """Return the cluster, the topic and the partition."""
        return f"{self.cluster}-{super().split_id()}"

    @staticmethod
    def of(cluster: str, split: KafkaPartitionSplit) -> DynamicKafkaSourceSplit:
        """Return a partition as a split of a cluster."""
        return DynamicKafkaSourceSplit(
            split.topic, split.partition, split.starting_offset, split.stopping_offset, cluster
        )


@dataclass(frozen=True)
class MetadataUpdateEvent:
    """New topics to read.

    Attributes:
        clusters: Topics and properties of each cluster, by its name.
    """

    clusters: dict[str, tuple[list[str], dict[str, str]]] = field(default_factory=dict)
