"""Settings of a dynamic source, for its parts in driver and workers."""

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
        subscriber: Which streams.
        service: What says where they are.
        metadata_interval_ms: How often to ask it; None for once.
        failure_threshold: How many failures to ask one after the other fail the job.
        each: Describes how each cluster is read, but for where it is and its topics.
        properties: Those for all clusters.
    """

    def __init__(self) -> None:
        """Describes a source of nothing."""
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
            InvalidProgramError: They do not say where the cluster is.
        """
        given = {**self.properties, **properties}
        if not given.get("bootstrap.servers"):
            raise InvalidProgramError(
                f"the properties of the cluster {cluster} lack bootstrap.servers"
            )
        builder: KafkaSourceBuilder = copy.deepcopy(self.each)
        return builder.set_properties(given).set_topics(*sorted(topics)).build()
