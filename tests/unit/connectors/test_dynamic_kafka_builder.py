"""Arguments that a DynamicKafkaSource rejects before any job runs."""

import pytest
from penstock.common import SimpleStringSchema
from penstock.connectors.dynamic_kafka.metadata import clusters_of
from penstock.datastream.connectors.dynamic_kafka import (
    ClusterMetadata,
    DynamicKafkaSource,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    SingleClusterTopicMetadataService,
    StreamPatternSubscriber,
)
from penstock.errors import ConfigurationError, InvalidProgramError, JvmOnlyError, SourceError

pytest.importorskip("confluent_kafka")

SERVERS = {"bootstrap.servers": "a:1"}
THRESHOLD = "stream-metadata-discovery-failure-threshold"
SERVICE = SingleClusterTopicMetadataService("a", SERVERS)


def complete():
    builder = DynamicKafkaSource.builder().set_stream_ids({"s"})
    builder.set_kafka_metadata_service(SERVICE)
    return builder.set_value_only_deserializer(SimpleStringSchema())


def test_missing_arguments_are_named():
    builder = DynamicKafkaSource.builder()
    for missing, setter in (
        ("set_stream_ids", lambda: builder.set_stream_ids({"s"})),
        ("set_kafka_metadata_service", lambda: builder.set_kafka_metadata_service(SERVICE)),
        ("set_value_only", lambda: builder.set_value_only_deserializer(SimpleStringSchema())),
    ):
        with pytest.raises(InvalidProgramError, match=missing):
            builder.build()
        setter()
    assert not builder.build().is_bounded()


def test_properties_are_checked_when_the_source_is_built():
    with pytest.raises(ConfigurationError, match="no-such"):
        complete().set_property("no-such", "1").build()
    with pytest.raises(InvalidProgramError, match="whole number"):
        complete().set_property("stream-metadata-discovery-interval-ms", "often").build()


def test_the_properties_of_a_cluster_come_before_those_of_the_source():
    source = complete().set_properties({"client.dns.lookup": "use_all_dns_ips"}).build()
    given = {**SERVERS, "client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}
    settings = source.description_of("a", ["t"], given).settings
    assert settings["client.dns.lookup"] == "resolve_canonical_bootstrap_servers_only"
    with pytest.raises(InvalidProgramError, match=r"cluster a lack bootstrap\.servers"):
        source.description_of("a", ["t"], {})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: KafkaStreamSetSubscriber(set()), "set of names"),
        (lambda: KafkaStreamSetSubscriber({1}), "set of names"),
        (lambda: StreamPatternSubscriber("("), "regular expression"),
        (lambda: SingleClusterTopicMetadataService("", SERVERS), "needs a name"),
        (lambda: SingleClusterTopicMetadataService("a", {}), r"bootstrap\.servers"),
        (lambda: complete().set_stream_pattern("s.*"), "call one of .* once"),
        (lambda: complete().set_kafka_metadata_service("a"), "KafkaMetadataService"),
        (lambda: complete().set_kafka_stream_subscriber("a"), "KafkaStreamSubscriber"),
    ],
)
def test_arguments_that_cannot_be_meant_so(make, words):
    with pytest.raises((InvalidProgramError, TypeError), match=words):
        make()


@pytest.mark.parametrize(
    "make", [KafkaMetadataService, DynamicKafkaSource, lambda java: OfJava(java)]
)
def test_java_is_refused_with_what_to_do(make):
    with pytest.raises(JvmOnlyError, match=r"subclass|builder\(\)"):
        make(object())


class OfJava(KafkaStreamSubscriber):
    def get_subscribed_streams(self, service):
        return []


def test_streams_that_share_a_cluster():
    def stream(name, topics, servers="a:1"):
        held = ClusterMetadata(frozenset(topics), {"bootstrap.servers": servers})
        return KafkaStream(name, {"a": held})

    found = clusters_of([stream("one", ["t"]), stream("two", ["u", "t"])])
    assert found["a"].topics == {"t", "u"}
    with pytest.raises(SourceError, match="has other properties for the cluster a"):
        clusters_of([stream("one", ["t"]), stream("two", ["u"], "b:1")])
    with pytest.raises(SourceError, match="must return KafkaStreams"):
        clusters_of(["one"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ClusterMetadata("orders", SERVERS), "takes a set of topics, got 'orders'"),
        (lambda: ClusterMetadata({"a b"}, SERVERS), "takes names of topics"),
        (lambda: ClusterMetadata({"t"}, {"a": 5}), "takes a dictionary of strings"),
        (lambda: KafkaStream("", {}), "a stream needs a name"),
        (lambda: KafkaStream("s", {"a": SERVERS}), "a dictionary of ClusterMetadata"),
        (lambda: SingleClusterTopicMetadataService("a", 5), "takes a dictionary of strings, got 5"),
        (
            lambda: SingleClusterTopicMetadataService("a", {"bootstrap.servers": "a:b"}),
            "takes host:port",
        ),
        (
            lambda: complete().set_property(THRESHOLD, "-1").build(),
            f"{THRESHOLD} must be at least 0",
        ),
        (lambda: DynamicKafkaSource.builder().set_stream_pattern(""), "regular expression"),
    ],
)
def test_senseless_arguments_are_rejected(make, words):
    with pytest.raises(InvalidProgramError, match=words):
        make()


def test_the_topics_of_a_cluster_may_be_any_set():
    assert ClusterMetadata({"t"}, SERVERS) == ClusterMetadata(frozenset({"t"}), SERVERS)
