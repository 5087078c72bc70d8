"""Settings of a Kafka source or sink, for its parts in driver and workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.base import DeliveryGuarantee
from penstock.connectors.kafka.offsets import KafkaOffsetsInitializer
from penstock.connectors.kafka.subscribers import Subscriber, TopicList
from penstock.connectors.split_source import Boundedness

if TYPE_CHECKING:
    from penstock.datastream.output_tag import OutputTag

#: How long the enumerator waits for brokers unless the properties say otherwise, as Java's client.
API_TIMEOUT_MS: Final = 60_000

#: How long to wait for brokers where a transaction begins or ends unless the properties say
#: otherwise, as Java's client.
MAX_BLOCK_MS: Final = 60_000


class SourceDescription:
    """Configuration of a KafkaSource.

    Attributes:
        subscriber: Which partitions.
        starting: Where to start in each partition.
        stopping: Where to stop, or None.
        boundedness: Whether the job counts it as bounded.
        deserializer: Makes records of records.
        settings: The settings of the client library.
        group_id: The consumer group, or None.
        discovery_interval_ms: How often to look for new partitions; None for once.
        commits_offsets: Whether the group's offsets are committed with each checkpoint.
        skips_undecodable: Whether records that cannot be deserialized are left out.
        dead_letters: The side output that such records go to, or None.
        api_timeout_s: How long the enumerator waits for brokers.
    """

    def __init__(self) -> None:
        """Describes a source of nothing."""
        self.subscriber: Subscriber = TopicList(())
        self.starting = KafkaOffsetsInitializer.earliest()
        self.stopping: KafkaOffsetsInitializer | None = None
        self.boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self.deserializer: Any = None
        self.settings: dict[str, Any] = {}
        self.group_id: str | None = None
        self.client_id_prefix = ""
        self.discovery_interval_ms: int | None = None
        self.commits_offsets = False
        self.skips_undecodable = False
        self.dead_letters: OutputTag | None = None
        self.api_timeout_s = API_TIMEOUT_MS / 1000

    def client_id(self, part: str) -> str:
        """The name of one of the source's clients, for the brokers' logs."""
        prefix = self.client_id_prefix or self.group_id or "penstock"
        return f"{prefix}-{part}"


class SinkDescription:
    """Configuration of a KafkaSink.

    Attributes:
        guarantee: What is promised when the job fails and goes on.
        record_serializer: Makes records of records.
        settings: The settings of the client library.
        transactional_id_prefix: What the names of transactions begin with.
        max_block_s: How long to wait for brokers where a transaction begins or ends.
        has_fixed_partitions: Whether a subtask writes to one partition only, so that the records
            of a key keep their order without a key of their own.
        writes_timestamps: Whether records have the timestamps of their records.
    """

    def __init__(self) -> None:
        """Describes a sink without promise."""
        self.has_fixed_partitions = False
        self.writes_timestamps = True
        self.guarantee = DeliveryGuarantee.NONE
        self.record_serializer: Any = None
        self.settings: dict[str, Any] = {}
        self.transactional_id_prefix = ""
        self.max_block_s = MAX_BLOCK_MS / 1000
