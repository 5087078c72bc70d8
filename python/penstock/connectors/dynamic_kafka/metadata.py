"""Metadata of streams: the clusters and topics that currently hold them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.connectors.kafka.admin import Admin
from penstock.connectors.kafka.client import check_brokers, client_settings
from penstock.connectors.kafka.partitions import check_topic
from penstock.errors import InvalidProgramError, SourceError

#: How long to wait for the brokers' list of topics, in seconds.
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class ClusterMetadata:
    """Topics of a cluster that belong to a stream.

    Attributes:
        topics: The topics.
        properties: The properties that reach it, as ``bootstrap.servers``.
    """

    topics: frozenset[str]
    properties: Mapping[str, str]

    def __post_init__(self) -> None:
        """Check the types, which a service may get wrong while a job runs.

        Raises:
            InvalidProgramError: An attribute has another type.
        """
        given: Any = self.topics
        if isinstance(given, (str, bytes)) or not isinstance(given, Collection):
            raise InvalidProgramError(f"ClusterMetadata takes a set of topics, got {given!r}")
        for topic in given:
            check_topic("ClusterMetadata", topic)
        object.__setattr__(self, "topics", frozenset(given))
        _check_properties("ClusterMetadata", self.properties)


@dataclass(frozen=True)
class KafkaStream:
    """A stream, which may be distributed over several clusters.

    Attributes:
        stream_id: The name of the stream.
        cluster_metadata_map: The stream's topics in each cluster, by the cluster's name.
    """

    stream_id: str
    cluster_metadata_map: Mapping[str, ClusterMetadata]

    def __post_init__(self) -> None:
        """Check the types, which a service may get wrong while a job runs.

        Raises:
            InvalidProgramError: An attribute has another type.
        """
        name: Any = self.stream_id
        if not isinstance(name, str) or not name:
            raise InvalidProgramError(f"KafkaStream: a stream needs a name, got {name!r}")
        held: Any = self.cluster_metadata_map
        if not isinstance(held, Mapping) or not all(
            isinstance(cluster, str) and isinstance(metadata, ClusterMetadata)
            for cluster, metadata in held.items()
        ):
            raise InvalidProgramError(
                f"KafkaStream takes a dictionary of ClusterMetadata by cluster, got {held!r}"
            )


class KafkaMetadataService(NoJavaMembers):
    """Locates streams; subclass it in Python (beyond PyFlink).

    Its methods run beside the JobMaster, never in two threads at once; they may block.
    """

    def __init__(self, j_metadata_service: None = None) -> None:
        """Create a service.

        Raises:
            JvmOnlyError: A Java service was passed.
        """
        if j_metadata_service is not None:
            requires_jvm(
                "KafkaMetadataService(j_metadata_service)",
                "subclass KafkaMetadataService in Python",
            )

    def get_all_streams(self) -> Collection[KafkaStream]:
        """Return all existing streams, for subscribers by pattern.

        Raises:
            NotImplementedError: Unless overridden.
        """
        raise NotImplementedError(f"{type(self).__name__}.get_all_streams")

    def describe_streams(self, stream_ids: Collection[str]) -> Mapping[str, KafkaStream]:
        """Return the streams with the given names; missing streams are left out.

        Raises:
            NotImplementedError: Unless overridden.
        """
        raise NotImplementedError(f"{type(self).__name__}.describe_streams")

    def close(self) -> None:
        """Release resources; called once, when the job ends."""


class SingleClusterTopicMetadataService(KafkaMetadataService):
    """The topics of one cluster, each as a stream of the same name."""

    def __init__(self, kafka_cluster_id: str, properties: dict[str, str]) -> None:
        """Create a service; it connects on its first request.

        Args:
            kafka_cluster_id: The name of the cluster.
            properties: The properties that reach it.

        Raises:
            InvalidProgramError: The name or ``bootstrap.servers`` is missing.
        """
        super().__init__()
        given: Any = kafka_cluster_id
        if not isinstance(given, str) or not given:
            raise InvalidProgramError(f"a cluster needs a name, got {given!r}")
        user = "SingleClusterTopicMetadataService"
        _check_properties(user, properties)
        if not properties.get("bootstrap.servers"):
            raise InvalidProgramError(f"{user} needs the property bootstrap.servers")
        check_brokers(properties["bootstrap.servers"], user)
        self._cluster, self._properties = kafka_cluster_id, dict(properties)

    def get_all_streams(self) -> Collection[KafkaStream]:
        """Return the topics except the brokers' internal ones."""
        return [self._stream(topic) for topic in sorted(self._topics())]

    def describe_streams(self, stream_ids: Collection[str]) -> Mapping[str, KafkaStream]:
        """Return the topics with the given names."""
        found = self._topics()
        return {topic: self._stream(topic) for topic in stream_ids if topic in found}

    def _stream(self, topic: str) -> KafkaStream:
        held = ClusterMetadata(frozenset({topic}), self._properties)
        return KafkaStream(topic, {self._cluster: held})

    def _topics(self) -> set[str]:
        user = f"SingleClusterTopicMetadataService of {self._cluster}"
        settings = client_settings(self._properties, user)
        brokers = Admin(settings, f"penstock-{self._cluster}-topics", user, SourceError)
        found = brokers.topics(_TIMEOUT_S, lambda: False)
        return {name for name, topic in found.items() if topic.error is None and name[:2] != "__"}


class KafkaStreamSubscriber(NoJavaMembers, ABC):
    """Selects streams; subclass it in Python (beyond PyFlink)."""

    def __init__(self, j_kafka_stream_subscriber: None = None) -> None:
        """Create a subscriber.

        Raises:
            JvmOnlyError: A Java subscriber was passed.
        """
        if j_kafka_stream_subscriber is not None:
            requires_jvm(
                "KafkaStreamSubscriber(j_kafka_stream_subscriber)",
                "subclass KafkaStreamSubscriber in Python",
            )

    @abstractmethod
    def get_subscribed_streams(self, service: KafkaMetadataService) -> Collection[KafkaStream]:
        """Return the streams to read now."""


class KafkaStreamSetSubscriber(KafkaStreamSubscriber):
    """Selects streams by name; all of them must exist."""

    def __init__(self, stream_ids: set[str]) -> None:
        """Create a subscriber for the names of streams.

        Raises:
            InvalidProgramError: The names are not strings, or there are none.
        """
        super().__init__()
        given: Any = stream_ids
        is_set = isinstance(given, (set, frozenset, list, tuple))
        if not is_set or not given or not all(isinstance(n, str) and n for n in given):
            raise InvalidProgramError(f"expected a set of names of streams, got {stream_ids!r}")
        self.stream_ids = frozenset(stream_ids)

    def get_subscribed_streams(self, service: KafkaMetadataService) -> Collection[KafkaStream]:
        """Return the streams.

        Raises:
            SourceError: A stream does not exist.
        """
        found = service.describe_streams(self.stream_ids)
        missing = sorted(self.stream_ids.difference(found))
        if missing:
            raise SourceError(
                f"{type(service).__name__} knows no stream {', '.join(missing)}; "
                "set_stream_pattern() also reads streams that are created later"
            )
        return list(found.values())


class StreamPatternSubscriber(KafkaStreamSubscriber):
    """Selects the streams whose whole names match a pattern, including later ones."""

    def __init__(self, stream_pattern: str) -> None:
        """Create a subscriber for a regular expression.

        Raises:
            InvalidProgramError: The expression is invalid.
        """
        super().__init__()
        if stream_pattern == "":
            raise InvalidProgramError("set_stream_pattern takes a regular expression, got ''")
        try:
            re.compile(stream_pattern)
        except (re.error, TypeError) as error:
            raise InvalidProgramError(
                f"expected a regular expression, got {stream_pattern!r}: {error}"
            ) from None
        self.pattern = stream_pattern

    def get_subscribed_streams(self, service: KafkaMetadataService) -> Collection[KafkaStream]:
        """Return the streams that match."""
        matches = re.compile(self.pattern).fullmatch
        return [stream for stream in service.get_all_streams() if matches(stream.stream_id)]


def _check_properties(where: str, properties: Any) -> None:
    is_mapping = isinstance(properties, Mapping)
    if not is_mapping or not all(isinstance(t, str) for pair in properties.items() for t in pair):
        raise InvalidProgramError(f"{where} takes a dictionary of strings, got {properties!r}")


@dataclass
class Cluster:
    """Topics and properties of a cluster.

    Attributes:
        topics: The topics of all subscribed streams in the cluster.
        properties: The properties that reach it.
    """

    topics: frozenset[str]
    properties: dict[str, str]


def clusters_of(streams: Collection[KafkaStream]) -> dict[str, Cluster]:
    """Return the topics to read of each cluster, by its name.

    Raises:
        SourceError: Two streams have different properties for a cluster, or a description is
            invalid.
    """
    found: dict[str, Cluster] = {}
    for stream in streams:
        given: Any = stream
        if not isinstance(given, KafkaStream):
            raise SourceError(f"a metadata service must return KafkaStreams, got {given!r}")
        for name, held in stream.cluster_metadata_map.items():
            properties = dict(held.properties)
            if name in found and found[name].properties != properties:
                raise SourceError(
                    f"the stream {stream.stream_id} has other properties for the cluster {name} "
                    "than another stream: all streams must reach a cluster in the same way"
                )
            topics = found[name].topics if name in found else frozenset()
            found[name] = Cluster(topics | held.topics, properties)
    return found
