"""Reads partitions of several clusters: a reader of Kafka's for each of them."""

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
    """Reads the partitions of one subtask, of the clusters that the enumerator has named."""

    def __init__(self, source: DynamicSourceDescription, context: SourceReaderContext) -> None:
        """Create a reader that knows no cluster."""
        self._source, self._context = source, context
        self._clusters: dict[str, tuple[list[str], dict[str, str]]] = {}
        self._readers: dict[str, KafkaSourceReader] = {}
        #: Splits of clusters of which nothing is known yet.
        self._unknown: list[DynamicKafkaSourceSplit] = []
        #: The outputs of splits that are read no more.
        self._released: list[str] = []
        self._no_more_splits = False
        self._waits: list[Future[Any]] = []
        self._waiting: Future[Any] | None = None

    def start(self) -> None:
        """Nothing: the enumerator names the clusters."""

    def add_splits(self, splits: list[DynamicKafkaSourceSplit]) -> None:
        """Starts to read partitions."""
        for split in splits:
            if split.cluster in self._clusters:
                self._reader(split.cluster).add_splits([split])
            else:
                self._unknown.append(split)

    def notify_no_more_splits(self) -> None:
        """No partition will come."""
        self._no_more_splits = True
        for reader in self._readers.values():
            reader.notify_no_more_splits()

    def handle_source_events(self, source_event: Any) -> None:
        """Reads what of the clusters is to be read from now on."""
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
        """Emits some records of each cluster."""
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
        """Done when records of a cluster have come."""
        waits = [
            wait for reader in self._readers.values() if (wait := reader.is_available()) is not None
        ]
        if not waits:
            return None
        # The same one while it waits for the same: each would stay with what it waits for.
        if self._waiting is None or waits != self._waits:
            self._waits, self._waiting = waits, Future()
            for wait in waits:
                wait.add_done_callback(_teller(self._waiting))
        return self._waiting

    def pause_or_resume_splits(
        self, splits_to_pause: list[str], splits_to_resume: list[str]
    ) -> None:
        """Stops and goes on reading partitions."""
        for reader in self._readers.values():
            reader.pause_or_resume_splits(splits_to_pause, splits_to_resume)

    def snapshot_state(self, checkpoint_id: int) -> list[DynamicKafkaSourceSplit]:
        """Return the partitions with their next offsets."""
        found = list(self._unknown)
        for name, reader in self._readers.items():
            found += self._splits_of(name, reader.snapshot_state(checkpoint_id))
        return found

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commits the offsets of the checkpoint in the consumer group's name."""
        for reader in self._readers.values():
            reader.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forgets its offsets."""
        for reader in self._readers.values():
            reader.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Ends the connections."""
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
        """The number of subtasks of the source."""
        return self._context.current_parallelism()

    def metric_group(self) -> Any:
        """As in Flink: ``kafkaCluster`` with the cluster's name."""
        return self._context.metric_group().add_group("kafkaCluster", self._cluster)

    def get_configuration(self) -> Configuration:
        """Return the job's configuration."""
        return self._context.get_configuration()

    def send_split_request(self) -> None:
        """Asks the enumerator for a split."""
        self._context.send_split_request()

    def send_source_event_to_coordinator(self, source_event: Any) -> None:
        """Sends an event to the enumerator."""
        self._context.send_source_event_to_coordinator(source_event)


def _teller(told: Future[Any]) -> Any:
    def tell(_: Future[Any]) -> None:
        # Of several that are done at once the first has told it.
        with suppress(Exception):
            told.set_result(None)

    return tell
