"""Discovers partitions, and assigns each to the subtask that owns it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.kafka.admin import Admin
from penstock.connectors.kafka.client import kafka_library
from penstock.connectors.kafka.offsets import KafkaOffsetsInitializer, OffsetsRetriever
from penstock.connectors.kafka.partitions import KafkaPartitionSplit, KafkaTopicPartition, owner_of
from penstock.connectors.split_source import SplitEnumerator, SplitEnumeratorContext
from penstock.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.connectors.kafka.descriptions import SourceDescription

logger = logging.getLogger(__name__)

#: Transient errors: a partition that was just created or moved has no leader yet; a group's
#: coordinator is loading or moving, or a transaction has pending offsets.
_PASSING: Final = frozenset({5, 6, 14, 15, 16, 88})

_PAUSE_S: Final = 0.05


@dataclass
class _Discovery:
    """Result of one discovery of partitions."""

    splits: list[KafkaPartitionSplit]
    vanished: set[KafkaTopicPartition]


class KafkaSourceEnumerator(SplitEnumerator[KafkaPartitionSplit]):
    """Discovers partitions once or at an interval.

    The first discovery uses the start offsets of the source's initializer; partitions that appear
    later are read from their beginning, so that none of their records is missed.
    """

    def __init__(
        self,
        source: SourceDescription,
        context: SplitEnumeratorContext[KafkaPartitionSplit],
        state: Any = None,
    ) -> None:
        """Create an enumerator, with the state that `snapshot_state` returned if it is restored."""
        self._source = source
        self._context = context
        self._brokers = _Brokers(source)
        self._known: set[KafkaTopicPartition] = set()
        self._waiting: dict[int, list[KafkaPartitionSplit]] = {}
        self._has_looked = False
        self._told_end: set[int] = set()
        if state is not None:
            self._has_looked = state["has_looked"]
            self._known = {KafkaTopicPartition(*named) for named in state["known"]}
            self._keep([KafkaPartitionSplit(*fields) for fields in state["waiting"]])

    def start(self) -> None:
        """Discover partitions, unless a discovery without an interval was done before."""
        if not self._has_looked or self._source.discovery_interval_ms is not None:
            self.look()

    def look(self) -> None:
        """Discover partitions, and repeat it at the interval if there is one."""
        known, is_first = frozenset(self._known), not self._has_looked
        self._context.call_async(
            lambda: self._brokers.discover(known, is_first), self._on_discovered
        )

    def handle_split_request(self, subtask_id: int, requester_hostname: str) -> None:
        """Do nothing: partitions are assigned without a request."""

    def add_splits_back(self, splits: list[KafkaPartitionSplit], subtask_id: int) -> None:
        """Assign the splits again when their reader has registered."""
        self._told_end.discard(subtask_id)
        self._keep(splits)
        self._assign()

    def add_reader(self, subtask_id: int) -> None:
        """Assign the partitions of a new reader."""
        self._told_end.discard(subtask_id)
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """Return the known partitions, and the splits that are not assigned."""
        del checkpoint_id
        waiting = [
            (split.topic, split.partition, split.starting_offset, split.stopping_offset)
            for splits in self._waiting.values()
            for split in splits
        ]
        known = [(partition.topic, partition.partition) for partition in sorted(self._known)]
        return {"has_looked": self._has_looked, "known": known, "waiting": waiting}

    def close(self) -> None:
        """End the connection."""
        self._brokers.close()

    def _on_discovered(self, discovery: _Discovery | None, error: BaseException | None) -> None:
        interval_ms = self._source.discovery_interval_ms
        if error is not None:
            if not self._has_looked or interval_ms is None:
                raise error
            logger.warning("cannot look for partitions: %s; retrying in %d ms", error, interval_ms)
        elif discovery is not None:
            self._has_looked = True
            if discovery.vanished:
                logger.warning("partitions are gone: %s", sorted(discovery.vanished))
            if discovery.splits:
                logger.info("new partitions: %s", [s.split_id() for s in discovery.splits])
            self._known.update(split.topic_partition for split in discovery.splits)
            self._keep(discovery.splits)
            self._assign()
        if interval_ms is not None:
            known = frozenset(self._known)
            self._context.call_async(
                lambda: self._brokers.discover(known, False), self._on_discovered, interval_ms
            )

    def _keep(self, splits: Collection[KafkaPartitionSplit]) -> None:
        parallelism = self._context.current_parallelism()
        for split in splits:
            owner = owner_of(split.topic, split.partition, parallelism)
            self._waiting.setdefault(owner, []).append(split)

    def _assign(self) -> None:
        readers = self._context.registered_readers()
        for subtask in [subtask for subtask in self._waiting if subtask in readers]:
            self._context.assign_splits({subtask: self._waiting.pop(subtask)})
        if self._has_looked and self._source.discovery_interval_ms is None:
            for subtask in readers:
                if subtask not in self._told_end:
                    self._told_end.add(subtask)
                    self._context.signal_no_more_splits(subtask)


class _Brokers(OffsetsRetriever):
    """Requests to brokers; used only in the enumerator's worker thread, except `close`."""

    def __init__(self, source: SourceDescription) -> None:
        self._source = source
        self._client: Admin | None = None
        self._is_closed = False
        self._asking = Lock()
        self._library: Any = kafka_library("KafkaSource")

    def discover(self, known: Collection[KafkaTopicPartition], is_first: bool) -> _Discovery:
        """Return the splits of unknown partitions, and the known partitions that are gone."""
        try:
            with self._asking:
                return self._discovered(known, is_first)
        finally:
            self._end_connection()

    def _discovered(self, known: Collection[KafkaTopicPartition], is_first: bool) -> _Discovery:
        source = self._source
        subscribed = source.subscriber.subscribed(self._topics())
        new = subscribed.difference(known)
        starting = source.starting if is_first else KafkaOffsetsInitializer.earliest()
        starts = starting.partition_offsets(new, self) if new else {}
        stops: dict[KafkaTopicPartition, int] = {}
        if source.stopping is not None and new:
            stops = source.stopping.partition_offsets(new, self)
        splits = [
            KafkaPartitionSplit(p.topic, p.partition, starts[p], stops.get(p)) for p in sorted(new)
        ]
        return _Discovery(splits, set(known).difference(subscribed))

    def committed(
        self, partitions: Collection[KafkaTopicPartition]
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offsets that the consumer group has committed."""
        what = f"the committed offsets of the consumer group {self._source.group_id}"
        return self._tried(what, lambda: self._committed(partitions))

    def latest(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """Return the offsets after the last records."""
        return self._list_offsets(partitions, self._spec().latest())

    def at_time(
        self, partitions: Collection[KafkaTopicPartition], timestamp_ms: int
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offsets of the first records with at least this timestamp."""
        return self._list_offsets(partitions, self._spec().for_timestamp(timestamp_ms))

    def close(self) -> None:
        """End the connection, and interrupt the worker thread's waits."""
        self._is_closed = True
        self._end_connection()

    def _end_connection(self) -> None:
        """End the connection once closed; a request that is running ends it when done."""
        if self._is_closed and self._asking.acquire(blocking=False):
            client, self._client = self._client, None
            if client is not None:
                client.close()
            self._asking.release()

    def _topics(self) -> dict[str, int]:
        found = self._admin().topics(self._source.api_timeout_s, lambda: self._is_closed)
        return {name: len(topic.partitions) for name, topic in found.items() if topic.error is None}

    def _list_offsets(
        self, partitions: Collection[KafkaTopicPartition], spec: Any
    ) -> dict[KafkaTopicPartition, int]:
        return self._tried("offsets", lambda: self._listed_offsets(partitions, spec))

    def _tried(
        self, what: str, ask: Callable[[], dict[KafkaTopicPartition, int]]
    ) -> dict[KafkaTopicPartition, int]:
        """Repeat a request while its error is transient."""
        deadline = time.monotonic() + self._source.api_timeout_s
        while True:
            try:
                return ask()
            except self._library.KafkaException as error:
                passes = error.args[0].retriable() or error.args[0].code() in _PASSING
                if not passes or self._is_closed or time.monotonic() >= deadline:
                    raise self._admin().failure(what, error) from None
                time.sleep(_PAUSE_S)

    def _committed(
        self, partitions: Collection[KafkaTopicPartition]
    ) -> dict[KafkaTopicPartition, int]:
        from confluent_kafka import ConsumerGroupTopicPartitions

        wanted = [self._library.TopicPartition(p.topic, p.partition) for p in partitions]
        name = self._source.group_id
        assert name is not None, "its builder asked for one"
        asked = self._admin().client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, wanted)],
            # Waits for offsets that a transaction is about to commit.
            require_stable=self._source.settings["isolation.level"] == "read_committed",
            request_timeout=self._source.api_timeout_s,
        )
        found = asked[name].result().topic_partitions
        return {KafkaTopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    def _listed_offsets(
        self, partitions: Collection[KafkaTopicPartition], spec: Any
    ) -> dict[KafkaTopicPartition, int]:
        library = self._library
        committed_only = self._source.settings["isolation.level"] == "read_committed"
        level = library.IsolationLevel
        futures = self._admin().client.list_offsets(
            {library.TopicPartition(p.topic, p.partition): spec for p in partitions},
            isolation_level=level.READ_COMMITTED if committed_only else level.READ_UNCOMMITTED,
            request_timeout=self._source.api_timeout_s,
        )
        offsets = {}
        for partition, future in futures.items():
            offset = future.result().offset
            if offset >= 0:
                offsets[KafkaTopicPartition(partition.topic, partition.partition)] = offset
        return offsets

    @staticmethod
    def _spec() -> Any:
        from confluent_kafka import admin

        return admin.OffsetSpec  # type: ignore[attr-defined]

    def _admin(self) -> Admin:
        if self._client is None:
            client_id = self._source.client_id("enumerator")
            self._client = Admin(self._source.settings, client_id, "KafkaSource", SourceError)
        return self._client
