"""The splits of a dynamic source, and what its enumerator tells its readers."""

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
        """A partition as one of a cluster."""
        return DynamicKafkaSourceSplit(
            split.topic, split.partition, split.starting_offset, split.stopping_offset, cluster
        )


@dataclass(frozen=True)
class MetadataUpdateEvent:
    """Topics to read from now on.

    Attributes:
        clusters: By a cluster's name its topics, and the properties that reach it.
    """

    clusters: dict[str, tuple[list[str], dict[str, str]]] = field(default_factory=dict)
