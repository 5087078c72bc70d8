"""StreamsDescription: the configuration of a source of streams."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.connectors.kinesis.shards import InitialPosition, KinesisShardAssigner

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation
    from penstock.connectors.kinesis.client import AwsClientConfig


@dataclass(frozen=True)
class StreamsDescription:
    """Streams, and the settings of their readers.

    Attributes:
        aws: Region, endpoint and credentials.
        names: The names or ARNs of the streams.
        deserialize: Converts a record with ``Data``, ``PartitionKey``, ``SequenceNumber`` and
            ``ApproximateArrivalTimestamp``; None skips it.
        type_info: The type of the converted records.
        position: The position from which a new job reads.
        assigner: Decides which subtask reads a shard.
        discovery_interval_ms: The interval between two searches for shards, in ms.
        poll_interval_ms: The interval between two reads of a shard, in ms.
        batch_size: The largest number of records that one read returns.
        retry_timeout_ms: How long to retry while the service does not respond, in ms.
    """

    aws: AwsClientConfig
    names: tuple[str, ...]
    deserialize: Callable[[Any], Any]
    type_info: TypeInformation | None
    position: InitialPosition
    assigner: KinesisShardAssigner = field(default_factory=KinesisShardAssigner)
    discovery_interval_ms: int = 10_000
    poll_interval_ms: int = 200
    batch_size: int = 10_000
    retry_timeout_ms: int = 60_000

    @property
    def shown(self) -> str:
        """The streams, for messages."""
        return f"Kinesis stream {', '.join(self.names)}"

    def with_assigner(self, assigner: KinesisShardAssigner) -> StreamsDescription:
        """Return the same streams with another assigner."""
        return replace(self, assigner=assigner)
