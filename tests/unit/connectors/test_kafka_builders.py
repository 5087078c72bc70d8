"""Arguments that Kafka's builders accept and reject, without a broker."""

import logging

import pytest
from penstock.common import SimpleStringSchema, Types
from penstock.connectors.kafka.partitions import KafkaPartitionSplit, owner_of
from penstock.connectors.kafka.transactions import (
    admin_settings,
    parsed_transactional_id,
    transactional_id,
)
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaProducerRecord,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from penstock.errors import ConfigurationError, InvalidProgramError, JvmOnlyError


def source():
    builder = KafkaSource.builder().set_bootstrap_servers("nowhere:1").set_topics("t")
    return builder.set_value_only_deserializer(SimpleStringSchema())


LINGERING = ("linger.ms", "queue.buffering.max.ms")


def serializer():
    builder = KafkaRecordSerializationSchema.builder().set_topic("t")
    return builder.set_value_serialization_schema(SimpleStringSchema())


def sink():
    return (
        KafkaSink.builder()
        .set_bootstrap_servers("nowhere:1")
        .set_record_serializer(serializer().build())
    )


def test_the_topic_decides_with_which_subtask_its_partitions_start():
    """Flink's rule: 31 times Java's hash of the topic, without sign, modulo the subtasks."""
    # Java: "orders".hashCode() == -1008770331
    start = ((-1008770331 * 31) & 0x7FFFFFFF) % 4
    assert [owner_of("orders", number, 4) for number in range(6)] == [
        (start + number) % 4 for number in range(6)
    ]


def test_splits_that_hold_nothing():
    assert KafkaPartitionSplit("t", 0, 5, 5).is_empty
    assert not KafkaPartitionSplit("t", 0, 4, 5).is_empty
    assert not KafkaPartitionSplit("t", 0, -2, 1).is_empty
    assert not KafkaPartitionSplit("t", 0, 5).is_empty


def test_defaults_of_a_source():
    built = source().build()
    assert not built.is_bounded()
    assert built.get_produced_type() == Types.STRING()
    assert built.discovery_interval_ms == 300_000
    assert not built.commits_offsets, "without a group there is nobody to commit for"
    assert built.settings["isolation.level"] == "read_uncommitted"
    bounded = source().set_group_id("g").set_bounded(KafkaOffsetsInitializer.latest()).build()
    assert bounded.is_bounded()
    assert bounded.discovery_interval_ms is None
    assert bounded.commits_offsets


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda b: b.set_topics("other"), "call one of .* once"),
        (lambda b: b.set_topic_pattern("("), "takes a regular expression"),
        (lambda b: b.set_partitions({"t-0"}), "KafkaTopicPartitions"),
        (lambda b: b.set_topics(), "names of topics"),
        (lambda b: b.set_starting_offsets("earliest"), "expected a KafkaOffsetsInitializer"),
        (lambda b: b.set_value_only_deserializer(str), "expected a DeserializationSchema"),
        (lambda b: b.set_deserializer(str), "KafkaRecordDeserializationSchema.of"),
        (lambda b: b.set_bootstrap_servers(1), "set_bootstrap_servers"),
        (
            lambda b: b.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build(),
            "needs set_group_id",
        ),
        (
            lambda b: b.set_property("partition.discovery.interval.ms", "often").build(),
            "must be a whole number, got 'often'",
        ),
        (
            lambda b: (
                b.set_group_id("g").set_property("commit.offsets.on.checkpoint", "yes").build()
            ),
            "must be true or false, got 'yes'",
        ),
    ],
)
def test_arguments_that_a_source_rejects(spoil, message):
    with pytest.raises((InvalidProgramError, TypeError), match=message):
        spoil(source())


@pytest.mark.parametrize("left_out", ["servers", "topics", "deserializer"])
def test_required_arguments_of_a_source(left_out):
    builder = KafkaSource.builder()
    if left_out != "servers":
        builder.set_bootstrap_servers("nowhere:1")
    if left_out != "topics":
        builder.set_topics("t")
    if left_out != "deserializer":
        builder.set_value_only_deserializer(SimpleStringSchema())
    with pytest.raises(InvalidProgramError, match="a KafkaSource needs"):
        builder.build()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("fetch.mim.bytes", "1", "fetch.mim.bytes"),
        ("fetch.min.bytes", "many", "fetch.min.bytes"),
        ("ssl.truststore.location", "/a.jks", "ssl.ca.location"),
        ("interceptor.classes", "x.Y", "no Java classes"),
        ("sasl.jaas.config", "x.y.Kerberos required;", "PlainLoginModule"),
        ("sasl.jaas.config", "a.PlainLoginModule required username='u';", "lacks"),
    ],
)
def test_properties_that_cannot_be_had(key, value, message):
    with pytest.raises(ConfigurationError, match=message):
        source().set_property(key, value).build()
    if not key.startswith("fetch"):
        with pytest.raises(ConfigurationError, match=message):
            sink().set_property(key, value).build()


def test_properties_of_javas_client():
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="u" password="p w";'
    properties = {
        "fetch.max.wait.ms": "7",
        "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        "sasl.mechanism": "PLAIN",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.jaas.config": jaas,
    }
    settings = source().set_properties(properties).build().settings
    assert settings["fetch.wait.max.ms"] == "7"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("u", "p w")
    assert "key.deserializer" not in settings
    admin = admin_settings(settings)
    assert admin["sasl_plain_password"] == "p w"
    assert admin["security_protocol"] == "SASL_PLAINTEXT"


def test_a_full_queue_of_the_library_is_no_pause():
    assert source().build().settings["fetch.queue.backoff.ms"] == "10"
    given = source().set_property("fetch.queue.backoff.ms", "500").build()
    assert given.settings["fetch.queue.backoff.ms"] == "500"


def test_records_of_a_transaction_wait_to_be_sent_together():
    def lingers(guarantee, **properties):
        builder = sink().set_delivery_guarantee(guarantee).set_transactional_id_prefix("p")
        for key, value in properties.items():
            builder.set_property(key.replace("_", "."), value)
        settings = builder.build().settings
        return {key: settings[key] for key in settings if key in LINGERING}

    assert lingers(DeliveryGuarantee.EXACTLY_ONCE) == {"linger.ms": "300"}
    assert lingers(DeliveryGuarantee.EXACTLY_ONCE, linger_ms="7") == {"linger.ms": "7"}
    other_name = {"queue.buffering.max.ms": "7"}
    assert lingers(DeliveryGuarantee.EXACTLY_ONCE, queue_buffering_max_ms="7") == other_name
    assert lingers(DeliveryGuarantee.AT_LEAST_ONCE) == {}


def test_required_arguments_of_a_sink():
    exactly_once = DeliveryGuarantee.EXACTLY_ONCE
    with pytest.raises(InvalidProgramError, match="set_transactional_id_prefix"):
        sink().set_delivery_guarantee(exactly_once).build()
    with pytest.raises(InvalidProgramError, match="set_record_serializer"):
        KafkaSink.builder().set_bootstrap_servers("nowhere:1").build()
    with pytest.raises(InvalidProgramError, match="set_bootstrap_servers"):
        KafkaSink.builder().set_record_serializer(serializer().build()).build()
    with pytest.raises(InvalidProgramError, match="DeliveryGuarantee"):
        sink().set_delivery_guarantee("EXACTLY_ONCE")
    transactional = sink().set_delivery_guarantee(exactly_once).set_transactional_id_prefix("p")
    assert transactional.build().settings["transaction.timeout.ms"] == "900000"
    with pytest.raises(InvalidProgramError, match=r"transactional\.id is set by the sink"):
        transactional.set_property("transactional.id", "mine").build()
    with pytest.raises(ConfigurationError, match=r"sasl\.kerberos\.principal is not supported"):
        admin_settings({"bootstrap.servers": "a:1", "sasl.kerberos.principal": "x"})


def test_names_of_transactions():
    assert transactional_id("p-1", 2, 30) == "p-1-2-30"
    assert parsed_transactional_id("p-1", "p-1-2-30") == (2, 30)
    for other in ("p-1-2", "p-11-2-30", "x-p-1-2-30", "p-1-2-30-4"):
        assert parsed_transactional_id("p-1", other) is None


def test_required_arguments_of_a_record_serializer():
    builder = KafkaRecordSerializationSchema.builder()
    with pytest.raises(InvalidProgramError, match="set_topic or set_topic_selector"):
        builder.build()
    with pytest.raises(InvalidProgramError, match="set_value_serialization_schema"):
        builder.set_topic("t").build()
    with pytest.raises(InvalidProgramError, match=r"call one of .* once"):
        builder.set_topic_selector(lambda _: "t")
    record = serializer().set_key_serialization_schema(SimpleStringSchema()).build()
    assert record.serialize_record("v") == KafkaProducerRecord("t", b"v", b"v")


def test_offsets_must_be_offsets():
    with pytest.raises(InvalidProgramError, match="0 or more, got -1"):
        KafkaOffsetsInitializer.offsets({KafkaTopicPartition("t", 0): -1})
    with pytest.raises(InvalidProgramError, match="takes KafkaTopicPartitions"):
        KafkaOffsetsInitializer.offsets({"t": 1})
    with pytest.raises(InvalidProgramError, match="ms since 1970"):
        KafkaOffsetsInitializer.timestamp(-5)


def test_options_that_only_java_has():
    with pytest.raises(JvmOnlyError):
        KafkaSource(object())
    with pytest.raises(InvalidProgramError, match="expected a function"):
        KafkaRecordDeserializationSchema.of(1)


def test_retried_records_arrive_once_and_in_order_as_with_javas_client():
    def is_idempotent(**properties):
        builder = sink().set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        builder.set_properties({key.replace("_", "."): text for key, text in properties.items()})
        return builder.build().settings.get("enable.idempotence") == "true"

    assert is_idempotent()
    assert is_idempotent(acks="all", retries="3", max_in_flight="5")
    assert not is_idempotent(enable_idempotence="false")
    assert not is_idempotent(acks="1")
    assert not is_idempotent(retries="0")
    assert not is_idempotent(max_in_flight_requests_per_connection="6")


@pytest.mark.parametrize("name", ["acks", "request.required.acks"])
def test_a_guarantee_without_acknowledgements_is_refused(name):
    builder = sink().set_property(name, "0").set_transactional_id_prefix("p")
    builder.set_delivery_guarantee(DeliveryGuarantee.NONE).build()
    for guarantee in (DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE):
        with pytest.raises(InvalidProgramError, match=f"acks=0 .* {guarantee} cannot hold"):
            builder.set_delivery_guarantee(guarantee).build()
    at_least_once = builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    assert at_least_once.set_property(name, "1").build().settings[name] == "1"


@pytest.mark.parametrize("make", [source, sink])
@pytest.mark.parametrize("address", ["host:x", "host:99999", "host:0", ",", ":9092", "host:1/t"])
def test_an_address_that_is_none_is_refused(make, address):
    with pytest.raises(InvalidProgramError, match=r"bootstrap\.servers takes host:port"):
        make().set_bootstrap_servers(address).build()


@pytest.mark.parametrize("address", ["a:1, b:2", "a", "[::1]:9092", "PLAINTEXT://a:1", "a:1,"])
def test_addresses_that_the_library_takes(address):
    source().set_bootstrap_servers(address).build()


def test_an_empty_group_is_refused():
    """The library would end the process."""
    with pytest.raises(ConfigurationError, match=r"group\.id must name a group, got ''"):
        source().set_group_id("").build()


@pytest.mark.parametrize(
    ("property_name", "text"),
    [
        ("default.api.timeout.ms", "-1"),
        ("commit.offsets.on.checkpoint", "ja"),
        ("commit.offsets.on.checkpoint", "true"),  # without a group
        ("auto.offset.reset", "nonsense"),
    ],
)
def test_a_property_of_the_source_that_cannot_be_meant_so(property_name, text):
    with pytest.raises((InvalidProgramError, ConfigurationError), match=property_name):
        source().set_property(property_name, text).build()


@pytest.mark.parametrize(
    ("property_name", "text"),
    [
        ("max.block.ms", "-1"),
        ("buffer.memory", "x"),
        ("buffer.memory", "-5"),
        ("transactional.id", "x"),
    ],
)
def test_a_property_of_the_sink_that_cannot_be_meant_so(property_name, text):
    with pytest.raises(InvalidProgramError, match=property_name):
        sink().set_property(property_name, text).build()


@pytest.mark.parametrize(
    ("property_name", "text"),
    [
        ("auto.offset.reset", "latest"),
        ("enable.auto.commit", "true"),
        ("enable.partition.eof", "false"),
        ("client.id", "x"),
    ],
)
def test_a_property_that_something_else_decides_is_named_in_the_log(property_name, text, caplog):
    source().set_property(property_name, text).build()
    assert f"the property {property_name}={text} has no effect" in caplog.text


@pytest.mark.parametrize(
    ("make", "property_name"),
    [
        (source, "session.timeout.ms"),
        (source, "heartbeat.interval.ms"),
        (source, "auto.commit.interval.ms"),
        (source, "group.instance.id"),
        (source, "max.poll.records"),
        (sink, "transaction.timeout.ms"),
        (sink, "max.block.ms"),
        (sink, "value.serializer"),
    ],
)
def test_a_property_without_a_meaning_is_named_in_the_log(make, property_name, caplog):
    caplog.set_level(logging.INFO)
    make().set_property(property_name, "7000").build()
    assert f"the property {property_name} has no meaning" in caplog.text


def test_a_property_of_transactions_has_its_meaning_in_them(caplog):
    caplog.set_level(logging.INFO)
    builder = sink().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    builder.set_properties({"transaction.timeout.ms": "7000", "max.block.ms": "7000"})
    built = builder.set_transactional_id_prefix("p").build()
    assert (built.settings["transaction.timeout.ms"], built.max_block_s) == ("7000", 7)
    assert "no meaning" not in caplog.text


def test_names_of_clients():
    assert source().build().client_id("0") == "penstock-0"
    assert source().set_group_id("g").build().client_id("0") == "g-0"
    assert source().set_group_id("g").set_client_id_prefix("p").build().client_id("0") == "p-0"


def test_a_property_with_its_default_is_not_reported(caplog):
    source().set_property("enable.auto.commit", "False").build()
    assert not caplog.text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: source().set_partitions(5), "set_partitions takes a set of KafkaTopicPartitions"),
        (lambda: KafkaSource.builder().set_topics("a b"), "set_topics takes names of topics"),
        (lambda: KafkaSource.builder().set_topics(["a"]), "set_topics takes names of topics"),
        (lambda: KafkaSource.builder().set_topic_pattern(""), "takes a regular expression, got ''"),
        (lambda: serializer().set_topic("a/b"), "set_topic takes names of topics"),
        (lambda: KafkaTopicPartition("", 0), "KafkaTopicPartition takes names of topics"),
        (lambda: KafkaTopicPartition("t", -1), "numbered from 0, got -1"),
        (lambda: KafkaOffsetsInitializer.offsets(5), "takes a dictionary of offsets"),
        (lambda: KafkaRecordDeserializationSchema.of(len, "LONG"), "'LONG' is not a type"),
    ],
)
def test_an_argument_that_cannot_be_meant_so(call, words):
    with pytest.raises(InvalidProgramError, match=words):
        call()
