"""Settings of a Kafka source or sink, for its parts in the driver and the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.base import DeliveryGuarantee
from penstock.connectors.kafka.offsets import KafkaOffsetsInitializer
from penstock.connectors.kafka.subscribers import Subscriber, TopicList
from penstock.connectors.split_source import Boundedness

if TYPE_CHECKING:
    from penstock.datastream.output_tag import OutputTag

#: The enumerator's longest wait for brokers, unless a property sets it; Java's client has the same.
API_TIMEOUT_MS: Final = 60_000

#: The longest wait for brokers when a transaction begins or ends, unless a property sets it; Java's
#: client has the same.
MAX_BLOCK_MS: Final = 60_000


class SourceDescription:
    """Configuration of a KafkaSource.

    Attributes:
        subscriber: The choice of partitions.
        starting: The start offset of each partition.
        stopping: The stop offsets, or None.
        boundedness: The boundedness that the job sees.
        deserializer: Converts Kafka records to records.
        settings: The settings of the client library.
        group_id: The consumer group, or None.
        discovery_interval_ms: The interval of partition discovery; None for once.
        commits_offsets: Whether the group's offsets are committed with each checkpoint.
        skips_undecodable: Whether records that cannot be deserialized are skipped.
        dead_letters: The side output for such records, or None.
        api_timeout_s: The enumerator's longest wait for brokers, in seconds.
    """

    def __init__(self) -> None:
        """Create a description without partitions."""
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
        """Return the client id of one of the source's clients, for the brokers' logs."""
        prefix = self.client_id_prefix or self.group_id or "penstock"
        return f"{prefix}-{part}"


class SinkDescription:
    """Configuration of a KafkaSink.

    Attributes:
        guarantee: The guarantee when the job fails and recovers.
        record_serializer: Converts records to Kafka records.
        settings: The settings of the client library.
        transactional_id_prefix: The prefix of the transactional ids.
        max_block_s: The longest wait for brokers when a transaction begins or ends, in seconds.
        has_fixed_partitions: Whether a subtask writes to one partition only, so that the records
            of a key keep their order without a key of their own.
        writes_timestamps: Whether Kafka records get the timestamps of their records.
    """

    def __init__(self) -> None:
        """Create a description without a guarantee."""
        self.has_fixed_partitions = False
        self.writes_timestamps = True
        self.guarantee = DeliveryGuarantee.NONE
        self.record_serializer: Any = None
        self.settings: dict[str, Any] = {}
        self.transactional_id_prefix = ""
        self.max_block_s = MAX_BLOCK_MS / 1000
