"""Configuration of a dynamic source, for its parts in driver and workers."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.connectors.kafka.source import KafkaSource, KafkaSourceBuilder


class DynamicSourceDescription:
    """Configuration of a DynamicKafkaSource.

    Attributes:
        subscriber: The selection of streams.
        service: The service that locates them.
        metadata_interval_ms: The interval between requests to it; None for a single one.
        failure_threshold: The number of consecutive failed requests that fails the job.
        each: The source configuration of each cluster, except its address and topics.
        properties: The properties for all clusters.
    """

    def __init__(self) -> None:
        """Create a configuration without streams."""
        self.subscriber: Any = None
        self.service: Any = None
        self.metadata_interval_ms: int | None = None
        self.failure_threshold = 1
        self.each: Any = None
        self.properties: dict[str, str] = {}

    def description_of(
        self, cluster: str, topics: Collection[str], properties: Mapping[str, str]
    ) -> KafkaSource:
        """Return the description of one cluster: its own properties override the source's.

        Raises:
            InvalidProgramError: The properties lack the cluster's address.
        """
        given = {**self.properties, **properties}
        if not given.get("bootstrap.servers"):
            raise InvalidProgramError(
                f"the properties of the cluster {cluster} lack bootstrap.servers"
            )
        builder: KafkaSourceBuilder = copy.deepcopy(self.each)
        return builder.set_properties(given).set_topics(*sorted(topics)).build()
