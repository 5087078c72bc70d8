"""A real broker that rejects users, topics, groups and transactions: each is reported at once."""

import pytest
from integration.kafka.test_kafka_source import bounded, elements
from penstock.common import SimpleStringSchema, Types
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from penstock.errors import SinkError, SourceError
from support.environments import in_process

pytestmark = pytest.mark.kafka

REFUSED = r"the brokers at .* reject the credentials: .*Invalid username .*sasl\.password"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def with_password(builder, broker, password):
    """Return the builder with a user of the broker."""
    builder.set_bootstrap_servers(broker.sasl_servers)
    builder.set_property("security.protocol", "SASL_PLAINTEXT")
    builder.set_property("sasl.mechanism", "PLAIN")
    login = f'{PLAIN} required username="ann" password="{password}";'
    return builder.set_property("sasl.jaas.config", login)


def sink_builder(broker, topic, guarantee):
    record = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    builder = KafkaSink.builder().set_bootstrap_servers(broker.servers)
    builder.set_record_serializer(record).set_delivery_guarantee(guarantee)
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        builder.set_transactional_id_prefix(topic)
    return builder


def write(sink):
    env = in_process(1)
    env.from_collection(["a"], Types.STRING()).sink_to(sink)
    env.execute()


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee))
def test_a_user_with_a_password(broker, topics, guarantee):
    topic = topics.create()
    write(with_password(sink_builder(broker, topic, guarantee), broker, "p w").build())
    assert elements(with_password(bounded(broker, topic), broker, "p w").build()) == ["a"]


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    "guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE]
)
def test_a_user_whose_password_is_not_sent(broker, topics, guarantee, mechanism):
    topic = topics.create()
    login = f'{SCRAM} required username="ann" password="p w";'

    def known(builder):
        builder.set_bootstrap_servers(broker.sasl_servers)
        builder.set_property("security.protocol", "SASL_PLAINTEXT")
        builder.set_property("sasl.mechanism", mechanism)
        return builder.set_property("sasl.jaas.config", login).build()

    write(known(sink_builder(broker, topic, guarantee)))
    assert elements(known(bounded(broker, topic))) == ["a"]


@pytest.mark.parametrize(
    "guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE]
)
def test_brokers_are_reached_by_tls(broker, topics, guarantee):
    topic = topics.create()

    def trusting(builder):
        builder.set_bootstrap_servers(broker.tls_servers)
        builder.set_property("security.protocol", "SSL")
        return builder.set_property("ssl.ca.location", str(broker.certificate)).build()

    write(trusting(sink_builder(broker, topic, guarantee)))
    assert elements(trusting(bounded(broker, topic))) == ["a"]


@pytest.mark.parametrize(
    ("guarantee", "limit"),
    [
        (None, "default.api.timeout.ms"),
        (DeliveryGuarantee.AT_LEAST_ONCE, "delivery.timeout.ms"),
        (DeliveryGuarantee.EXACTLY_ONCE, "max.block.ms"),
    ],
)
def test_a_certificate_that_nobody_vouches_for(broker, topics, guarantee, limit):
    topic, is_source = topics.create(), guarantee is None
    builder = bounded(broker, topic) if is_source else sink_builder(broker, topic, guarantee)
    builder.set_bootstrap_servers(broker.tls_servers).set_property("security.protocol", "SSL")
    built = builder.set_property(limit, "1500").build()
    with pytest.raises((SourceError, SinkError), match=r"(?i)certificate.verif"):
        elements(built) if is_source else write(built)


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee))
def test_a_wrong_password_of_a_sink(broker, topics, guarantee):
    sink = with_password(sink_builder(broker, topics.create(), guarantee), broker, "hidden")
    with pytest.raises(SinkError, match=f"KafkaSink: {REFUSED}") as raised:
        write(sink.build())
    assert "hidden" not in str(raised.value)


def test_a_wrong_password_of_a_source(broker, topics):
    source = with_password(bounded(broker, topics.create()), broker, "hidden").build()
    with pytest.raises(SourceError, match=f"KafkaSource: {REFUSED}") as raised:
        elements(source)
    assert "hidden" not in str(raised.value)


def test_a_topic_that_may_not_be_read(broker, topics):
    topic = topics.create()
    topics.write(topic, [b"1"])
    topics.deny(topic, "READ")
    with pytest.raises(SourceError, match=f"cannot read {topic}-0 .*uthoriz"):
        elements(bounded(broker, topic).build())


def test_a_topic_that_may_not_be_seen(broker, topics):
    topic = topics.create()
    topics.deny(topic, "DESCRIBE")
    with pytest.raises(SourceError, match=f"there is no topic {topic}; .* that it may DESCRIBE"):
        elements(bounded(broker, topic).build())


def test_a_group_that_may_not_be_used(broker, topics):
    topic = topics.create()
    topics.deny(topic, "ALL", kind="GROUP")
    source = bounded(broker, topic).set_group_id(topic)
    source.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())
    message = f"offsets of the consumer group {topic} from the brokers at .*Group authorization"
    with pytest.raises(SourceError, match=message):
        elements(source.build())


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee))
def test_a_topic_that_may_not_be_written(broker, topics, guarantee):
    topic = topics.create()
    topics.deny(topic, "WRITE")
    with pytest.raises(SinkError, match=f"cannot write to {topic} of the brokers at .*uthoriz"):
        write(sink_builder(broker, topic, guarantee).build())


def test_a_transaction_that_may_not_begin(broker, topics):
    topic = topics.create()
    topics.deny(f"{topic}-0-1", "ALL", kind="TRANSACTIONAL_ID")
    message = f"cannot begin the transaction {topic}-0-1: .*Transactional Id authorization failed"
    with pytest.raises(SinkError, match=message):
        write(sink_builder(broker, topic, DeliveryGuarantee.EXACTLY_ONCE).build())
