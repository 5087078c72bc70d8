"""Reads partitions of several clusters, with a Kafka reader for each."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.connectors.dynamic_kafka.splits import DynamicKafkaSourceSplit, MetadataUpdateEvent
from penstock.connectors.kafka.reader import KafkaSourceReader
from penstock.connectors.split_source import (
    InputStatus,
    ReaderOutput,
    SourceReader,
    SourceReaderContext,
)

if TYPE_CHECKING:
    from penstock.common import Configuration
    from penstock.connectors.dynamic_kafka.descriptions import DynamicSourceDescription


class DynamicKafkaSourceReader(SourceReader[DynamicKafkaSourceSplit]):
    """Reads one subtask's partitions, in the clusters that the enumerator has announced."""

    def __init__(self, source: DynamicSourceDescription, context: SourceReaderContext) -> None:
        """Create a reader without clusters."""
        self._source, self._context = source, context
        self._clusters: dict[str, tuple[list[str], dict[str, str]]] = {}
        self._readers: dict[str, KafkaSourceReader] = {}
        #: Splits of clusters that were not announced yet.
        self._unknown: list[DynamicKafkaSourceSplit] = []
        #: The split outputs to release.
        self._released: list[str] = []
        self._no_more_splits = False
        self._waits: list[Future[Any]] = []
        self._waiting: Future[Any] | None = None

    def start(self) -> None:
        """Do nothing: the enumerator announces the clusters."""

    def add_splits(self, splits: list[DynamicKafkaSourceSplit]) -> None:
        """Start to read partitions."""
        for split in splits:
            if split.cluster in self._clusters:
                self._reader(split.cluster).add_splits([split])
            else:
                self._unknown.append(split)

    def notify_no_more_splits(self) -> None:
        """Note that no more partitions follow."""
        self._no_more_splits = True
        for reader in self._readers.values():
            reader.notify_no_more_splits()

    def handle_source_events(self, source_event: Any) -> None:
        """Update the clusters and topics to read."""
        assert isinstance(source_event, MetadataUpdateEvent)
        former, self._clusters = self._clusters, source_event.clusters
        for name in list(self._readers):
            if self._clusters.get(name) != former.get(name):
                reader = self._readers.pop(name)
                self._unknown += self._splits_of(name, reader.snapshot_state(0))
                reader.close()
        held, self._unknown = self._unknown, []
        for split in held:
            if split.topic in self._clusters.get(split.cluster, ([], {}))[0]:
                self._reader(split.cluster).add_splits([split])
            else:
                self._released.append(split.split_id())

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit some records of each cluster."""
        for name in self._released:
            output.release_output_for_split(name)
        self._released.clear()
        found = [reader.poll_next(output) for reader in self._readers.values()]
        if InputStatus.MORE_AVAILABLE in found:
            return InputStatus.MORE_AVAILABLE
        is_whole = self._no_more_splits and not self._unknown
        if is_whole and all(status is InputStatus.END_OF_INPUT for status in found):
            return InputStatus.END_OF_INPUT
        return InputStatus.NOTHING_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return a future that completes when records of a cluster have arrived."""
        waits = [
            wait for reader in self._readers.values() if (wait := reader.is_available()) is not None
        ]
        if not waits:
            return None
        # Reuse the future while its inputs are the same: each of them keeps a callback to it.
        if self._waiting is None or waits != self._waits:
            self._waits, self._waiting = waits, Future()
            for wait in waits:
                wait.add_done_callback(_teller(self._waiting))
        return self._waiting

    def pause_or_resume_splits(
        self, splits_to_pause: list[str], splits_to_resume: list[str]
    ) -> None:
        """Pause and resume partitions."""
        for reader in self._readers.values():
            reader.pause_or_resume_splits(splits_to_pause, splits_to_resume)

    def snapshot_state(self, checkpoint_id: int) -> list[DynamicKafkaSourceSplit]:
        """Return the partitions with their next offsets."""
        found = list(self._unknown)
        for name, reader in self._readers.items():
            found += self._splits_of(name, reader.snapshot_state(checkpoint_id))
        return found

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit the offsets of the checkpoint for the consumer group."""
        for reader in self._readers.values():
            reader.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget the offsets of the checkpoint."""
        for reader in self._readers.values():
            reader.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the connections."""
        for reader in self._readers.values():
            reader.close()

    def _reader(self, cluster: str) -> KafkaSourceReader:
        reader = self._readers.get(cluster)
        if reader is None:
            topics, properties = self._clusters[cluster]
            description = self._source.description_of(cluster, topics, properties)
            reader = KafkaSourceReader(description, _ClusterContext(self._context, cluster))
            self._readers[cluster] = reader
            if self._no_more_splits:
                reader.notify_no_more_splits()
        return reader

    @staticmethod
    def _splits_of(cluster: str, splits: list[Any]) -> list[DynamicKafkaSourceSplit]:
        return [DynamicKafkaSourceSplit.of(cluster, split) for split in splits]


class _ClusterContext(SourceReaderContext):
    """Context of a cluster's reader: its metrics are in a group of the cluster."""

    def __init__(self, context: SourceReaderContext, cluster: str) -> None:
        self._context, self._cluster = context, cluster

    def get_index_of_subtask(self) -> int:
        """Return the reader's subtask."""
        return self._context.get_index_of_subtask()

    def current_parallelism(self) -> int:
        """Return the number of subtasks of the source."""
        return self._context.current_parallelism()

    def metric_group(self) -> Any:
        """Return the group ``kafkaCluster`` with the cluster's name, as in Flink."""
        return self._context.metric_group().add_group("kafkaCluster", self._cluster)

    def get_configuration(self) -> Configuration:
        """Return the job's configuration."""
        return self._context.get_configuration()

    def send_split_request(self) -> None:
        """Request a split from the enumerator."""
        self._context.send_split_request()

    def send_source_event_to_coordinator(self, source_event: Any) -> None:
        """Send an event to the enumerator."""
        self._context.send_source_event_to_coordinator(source_event)


def _teller(told: Future[Any]) -> Any:
    def tell(_: Future[Any]) -> None:
        # If several complete, the first one has set the result.
        with suppress(Exception):
            told.set_result(None)

    return tell
