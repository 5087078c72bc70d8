"""Follows streams across clusters, with an enumerator of partitions for each cluster."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.connectors.dynamic_kafka.metadata import Cluster, clusters_of
from penstock.connectors.dynamic_kafka.splits import DynamicKafkaSourceSplit, MetadataUpdateEvent
from penstock.connectors.kafka.enumerator import KafkaSourceEnumerator
from penstock.connectors.split_parts import PartContext
from penstock.connectors.split_source import SplitEnumerator, SplitEnumeratorContext

if TYPE_CHECKING:
    from penstock.connectors.dynamic_kafka.descriptions import DynamicSourceDescription
    from penstock.connectors.kafka.partitions import KafkaPartitionSplit

logger = logging.getLogger(__name__)


class DynamicKafkaSourceEnumerator(SplitEnumerator[DynamicKafkaSourceSplit]):
    """Requests the locations of the streams, once or periodically, and notifies the readers."""

    def __init__(
        self,
        source: DynamicSourceDescription,
        context: SplitEnumeratorContext[DynamicKafkaSourceSplit],
        state: Any = None,
    ) -> None:
        """Create an enumerator, or restore it from the result of `snapshot_state`."""
        self._source, self._context = source, context
        self._failures = 0
        self._has_looked = False
        self._parts: dict[str, _Part] = {}
        for name, (topics, properties, held) in (state or {}).items():
            cluster = Cluster(frozenset(topics), properties)
            self._parts[name] = self._part(name, cluster, held)

    def start(self) -> None:
        """Search for the streams; those of a checkpoint are read meanwhile."""
        for part in self._parts.values():
            part.enumerator.start()
        self._look(0)

    def handle_split_request(self, subtask_id: int, requester_hostname: str) -> None:
        """Ignore requests: partitions are assigned without them."""

    def add_splits_back(self, splits: list[DynamicKafkaSourceSplit], subtask_id: int) -> None:
        """Assign the partitions when their reader returns, unless they are no longer read."""
        for name, part in self._parts.items():
            own: list[Any] = [s for s in splits if s.cluster == name and s.topic in part.topics]
            part.enumerator.add_splits_back(own, subtask_id)

    def add_reader(self, subtask_id: int) -> None:
        """Send the current topics to a new reader, and assign its partitions."""
        for part in self._parts.values():
            part.ended.discard(subtask_id)
        if self._parts or self._has_looked:
            self._context.send_event_to_source_reader(subtask_id, self._event())
        for part in self._parts.values():
            part.enumerator.add_reader(subtask_id)
        self.signal_end()

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """Return the read positions of each cluster, and its enumerator's state."""
        return {
            name: (
                sorted(part.topics),
                part.properties,
                part.enumerator.snapshot_state(checkpoint_id),
            )
            for name, part in self._parts.items()
        }

    def close(self) -> None:
        """Close the connections."""
        for part in self._parts.values():
            part.enumerator.close()
        self._source.service.close()

    def signal_end(self) -> None:
        """Notify readers if no cluster has more partitions and no search is pending."""
        if not self._has_looked or self._source.metadata_interval_ms is not None:
            return
        for subtask in self._context.registered_readers():
            if all(subtask in part.ended for part in self._parts.values()):
                self._context.signal_no_more_splits(subtask)

    def _look(self, delay_ms: int) -> None:
        subscriber, service = self._source.subscriber, self._source.service
        self._context.call_async(
            lambda: clusters_of(subscriber.get_subscribed_streams(service)),
            self._on_clusters,
            delay_ms,
        )

    def _on_clusters(
        self, clusters: dict[str, Cluster] | None, error: BaseException | None
    ) -> None:
        interval_ms = self._source.metadata_interval_ms
        if error is not None:
            self._failures += 1
            if (
                not self._has_looked
                or interval_ms is None
                or self._failures >= self._source.failure_threshold
            ):
                raise error
            logger.warning("cannot look for streams: %s; retrying in %d ms", error, interval_ms)
        elif clusters is not None:
            self._failures, self._has_looked = 0, True
            self._update(clusters)
        if interval_ms is not None:
            self._look(interval_ms)

    def _update(self, clusters: dict[str, Cluster]) -> None:
        former, self._parts = self._parts, {}
        begun = []
        for name, cluster in clusters.items():
            part = former.pop(name, None)
            if part is not None and part.reads(cluster):
                self._parts[name] = part
                continue
            held = None
            if part is not None:
                held = _kept(part.enumerator.snapshot_state(0), cluster.topics)
                part.close()
            self._parts[name] = self._part(name, cluster, held)
            begun.append(name)
        for name, part in former.items():
            logger.info("the cluster %s is no longer read", name)
            part.close()
        event = self._event()
        for subtask in self._context.registered_readers():
            self._context.send_event_to_source_reader(subtask, event)
        for name in begun:
            logger.info("reading %s of the cluster %s", sorted(clusters[name].topics), name)
            self._parts[name].enumerator.look()
        self.signal_end()

    def _event(self) -> MetadataUpdateEvent:
        return MetadataUpdateEvent(
            {name: (sorted(part.topics), part.properties) for name, part in self._parts.items()}
        )

    def _part(self, name: str, cluster: Cluster, state: Any) -> _Part:
        return _Part(self, self._source, self._context, name, cluster, state)


class _Part(PartContext["KafkaPartitionSplit"]):
    """Context of one cluster's enumerator, with the topics that are read."""

    enumerator: KafkaSourceEnumerator

    def __init__(
        self,
        whole: DynamicKafkaSourceEnumerator,
        source: DynamicSourceDescription,
        context: SplitEnumeratorContext[DynamicKafkaSourceSplit],
        name: str,
        cluster: Cluster,
        state: Any,
    ) -> None:
        super().__init__(context)
        self._whole, self._name = whole, name
        self.topics, self.properties = cluster.topics, cluster.properties
        self.ended: set[int] = set()
        description = source.description_of(name, cluster.topics, cluster.properties)
        self.enumerator = KafkaSourceEnumerator(description, self, state)

    def reads(self, cluster: Cluster) -> bool:
        """Return whether the topics and properties equal those of the cluster."""
        return (self.topics, self.properties) == (cluster.topics, cluster.properties)

    def split_of_whole(self, split: KafkaPartitionSplit) -> DynamicKafkaSourceSplit:
        """Add the name of the cluster."""
        return DynamicKafkaSourceSplit.of(self._name, split)

    def signal_no_more_splits(self, subtask_id: int) -> None:
        """Store the signal; a reader is notified when all clusters have sent it."""
        self.ended.add(subtask_id)
        self._whole.signal_end()


def _kept(state: Any, topics: frozenset[str]) -> Any:
    """Remove topics that are no longer read from an enumerator's state."""
    return {
        "has_looked": state["has_looked"],
        "known": [named for named in state["known"] if named[0] in topics],
        "waiting": [split for split in state["waiting"] if split[0] in topics],
    }
