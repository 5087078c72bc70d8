"""KafkaSink against a real broker: records that arrive, and records lost with a process."""

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from integration.kafka.transactional_writer import Context, sink
from kafka import KafkaAdminClient
from penstock.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from penstock.common.serialization import SerializationSchema
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.kafka.committer import KafkaCommitter
from penstock.connectors.kafka.transactions import KafkaCommittable, transactional_id
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicSelector,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.errors import SinkError
from support.sink_scenarios import after_a_failure, once_at_another_parallelism, texts

pytestmark = pytest.mark.kafka


def environment(target="in-process", parallelism=2, attempts=20):
    configuration = Configuration().set_string("execution.target", target)
    configuration.set_string("restart-strategy.type", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.attempts", str(attempts))
    configuration.set_string("restart-strategy.fixed-delay.delay", "10 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def values_to(topic):
    return (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(SimpleStringSchema())
    )


def sink_of(broker, serializer, guarantee=DeliveryGuarantee.AT_LEAST_ONCE, prefix=None):
    builder = KafkaSink.builder().set_bootstrap_servers(broker.servers)
    builder.set_delivery_guarantee(guarantee).set_record_serializer(serializer)
    return (builder if prefix is None else builder.set_transactional_id_prefix(prefix)).build()


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee))
@pytest.mark.parametrize("checkpoints", [False, True])
def test_every_guarantee_brings_every_record(broker, topics, guarantee, checkpoints):
    topic = topics.create(partitions=2)
    env = environment()
    if checkpoints:
        env.enable_checkpointing(500)
    source = NumberSequenceSource(1, 500)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    texts = numbers.map(str, output_type=Types.STRING())
    texts.sink_to(sink_of(broker, values_to(topic).build(), guarantee, topic))
    env.execute()
    assert topics.values(topic) == sorted(str(n).encode() for n in range(1, 501))


def test_waits_for_space_in_the_queue_and_refuses_what_is_too_large(broker, topics):
    topic = topics.create()
    builder = KafkaSink.builder().set_bootstrap_servers(broker.servers)
    builder.set_record_serializer(values_to(topic).build())
    writer = builder.set_property("queue.buffering.max.messages", "10").build()
    writer = writer.create_writer(Context())
    for number in range(100):
        writer.write(str(number), Context())
    with pytest.raises(SinkError, match=f"cannot write to {topic} of .*too large"):
        writer.write("x" * 2_000_000, Context())
    writer.flush(True)
    writer.close()
    assert topics.values(topic) == sorted(str(n).encode() for n in range(100))


def test_brokers_hear_how_long_a_transaction_may_be_open(broker, topics):
    topic = topics.create()
    builder = KafkaSink.builder().set_bootstrap_servers(broker.servers)
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    builder.set_record_serializer(values_to(topic).build()).set_transactional_id_prefix(topic)
    builder.set_property("transaction.timeout.ms", "77000")
    writer = builder.build().create_writer(Context())
    admin = KafkaAdminClient(bootstrap_servers=broker.servers)
    try:
        writer.write("a", Context())
        writer.flush(False)
        name = transactional_id(topic, 0, 1)
        found = admin.describe_transactions([name])[name]
        assert found.state.value == "Ongoing"
        assert found.transaction_timeout_ms == 77_000
    finally:
        writer.close()
        admin.close()


def test_elements_that_make_no_record_begin_no_transaction(broker, topics):
    topic = topics.create()
    nothing = KafkaRecordSerializationSchema.of(lambda _element: None)
    kafka_sink = sink_of(broker, nothing, DeliveryGuarantee.EXACTLY_ONCE, topic)
    writer = kafka_sink.create_writer(Context())
    writer.write("a", Context())
    writer.flush(False)
    assert writer.prepare_commit() == []
    writer.close()


@pytest.mark.parametrize("chosen", [logging.NOTSET, logging.INFO])
def test_logs_of_kafka_python_are_for_who_asks(broker, topics, caplog, chosen):
    """kafka-python logs each connection and each search for a coordinator."""
    caplog.set_level(logging.INFO)
    messages = logging.getLogger("kafka")
    before = messages.level
    messages.setLevel(chosen)
    try:
        sink(broker.servers, topics.create(), "quiet").create_writer(Context()).close()
    finally:
        messages.setLevel(before)
    noted = [record.getMessage() for record in caplog.records if record.name.startswith("kafka.")]
    assert bool(noted) is (chosen == logging.INFO), noted


class ByLength(KafkaTopicSelector):
    def __init__(self, topics):
        self.topics = topics

    def apply(self, data):
        return self.topics[len(data)]


def test_keys_headers_and_topics(broker, topics):
    one, two = topics.create(partitions=4), topics.create()
    builder = KafkaRecordSerializationSchema.builder()
    builder.set_topic_selector(ByLength({1: two, 2: one, 3: one, 6: one}))
    builder.set_key_serialization_schema(SimpleStringSchema())
    builder.set_value_serialization_schema(SimpleStringSchema())
    builder.set_header_provider(lambda text: [("length", str(len(text)).encode())])
    env = environment()
    stream = env.from_collection(["21", "abc", "foobar", "x"], type_info=Types.STRING())
    stream.sink_to(sink_of(broker, builder.build()))
    env.execute()
    found = {message.value(): message for message in topics.read(one)}
    assert [m.key() for m in topics.read(two)] == [b"x"]
    assert topics.read(two)[0].headers() == [("length", b"1")]
    # The partitions that Java's client chooses for these keys; its own tests state their murmur2:
    # -973932308, 479470107 and -790332482, without their signs, modulo 4 partitions.
    placed = {value: message.partition() for value, message in found.items()}
    assert placed == {b"21": 0, b"abc": 3, b"foobar": 2}


class InHex(SerializationSchema):
    def serialize(self, element):
        return hex(element).encode()


class OddOnes(KafkaRecordSerializationSchema):
    def serialize_record(self, element):
        topic, number = element
        return KafkaProducerRecord(topic, b"%d" % number) if number % 2 else None


def test_schemas_of_users(broker, topics):
    """Subclasses need no constructor."""
    hexadecimal, odd = topics.create(), topics.create()
    builder = KafkaRecordSerializationSchema.builder().set_topic(hexadecimal)
    env = environment()
    numbers = env.from_collection([1, 17], type_info=Types.INT())
    numbers.sink_to(sink_of(broker, builder.set_value_serialization_schema(InHex()).build()))
    env.from_collection([(odd, 1), (odd, 2)]).sink_to(sink_of(broker, OddOnes()))
    env.execute()
    assert sorted(message.value() for message in topics.read(hexadecimal)) == [b"0x1", b"0x11"]
    assert [message.value() for message in topics.read(odd)] == [b"1"]


def test_whole_records_and_timestamps(broker, topics):
    topic = topics.create(partitions=3)

    def record(number):
        if number == 2:
            return None
        at = 77 if number == 3 else None
        return KafkaProducerRecord(topic, b"%d" % number, partition=2, timestamp=at)

    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Times())
    stream = env.from_collection([1, 2, 3], type_info=Types.INT())
    stream = stream.assign_timestamps_and_watermarks(strategy)
    stream.sink_to(sink_of(broker, KafkaRecordSerializationSchema.of(record)))
    env.execute()
    found = [(m.value(), m.partition(), m.timestamp()[1]) for m in topics.read(topic)]
    assert sorted(found) == [(b"1", 2, 1000), (b"3", 2, 77)]


class Times(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 1000


class FailsOnce:
    """Raises at one of its records, unless a file shows that it did so before."""

    def __init__(self, path, at):
        self.path, self.at = path, at

    def __call__(self, text):
        if text == self.at and not self.path.exists():
            self.path.touch()
            raise RuntimeError("as the test wants it")
        return text


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_exactly_once_from_kafka_to_kafka(broker, topics, tmp_path, monkeypatch, runtime):
    """The job fails after several checkpoints: no record is lost or duplicated."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    source_topic, topic = topics.create(partitions=3), topics.create(partitions=2)
    topics.write(source_topic, [str(n) for n in range(20_000)])
    env = environment(target="local")
    env.enable_checkpointing(200)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.servers)
        .set_topics(source_topic)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    fails = FailsOnce(tmp_path / "failed", "12345")
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
    exactly_once = DeliveryGuarantee.EXACTLY_ONCE
    stream.map(lambda text: fails(text), output_type=Types.STRING()).sink_to(
        sink_of(broker, values_to(topic).build(), exactly_once, topic)
    )
    env.execute()
    assert fails.path.exists()
    assert topics.values(topic) == sorted(str(n).encode() for n in range(20_000))


def killed_writer(broker, topic, prefix, prepares, *values):
    """Return the committables of a writer that was then killed by kill -9."""
    program = Path(__file__).with_name("transactional_writer.py")
    process = subprocess.Popen(
        [sys.executable, program, broker.servers, topic, prefix, prepares, *values],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    with process:
        prepared = json.loads(process.stdout.readline())
        process.kill()
    return [KafkaCommittable(**fields) for fields in prepared]


class Request:
    def __init__(self, committable):
        self.committable = committable
        self.failures = []

    def get_committable(self):
        return self.committable

    def signal_failed_with_known_reason(self, error):
        self.failures.append(error)


def test_commit_after_kill_between_pre_commit_and_commit(broker, topics):
    """Another process commits the data of a checkpoint; a second commit changes nothing."""
    topic = topics.create()
    (committable,) = killed_writer(broker, topic, topic, "yes", "one", "two")
    assert topics.values(topic) == []
    assert topics.values(topic, "read_uncommitted") == [b"one", b"two"]
    committer = KafkaCommitter(sink(broker.servers, topic, topic))
    for _ in range(2):
        request = Request(committable)
        committer.commit([request])
        assert request.failures == []
    assert topics.values(topic) == [b"one", b"two"]
    committer.close()


def test_transactions_outside_of_checkpoints_are_aborted(broker, topics):
    """A writer aborts data after its checkpoint, and leaves the checkpoint's data alone."""
    topic = topics.create()
    (kept,) = killed_writer(broker, topic, topic, "yes", "kept")
    kafka_sink = sink(broker.servers, topic, topic)
    # Checkpoint 1 holds the records written before it.
    restored = kafka_sink.restore_writer(Context(restored=1), [topic])
    restored.write("of the second attempt", Context())
    restored.flush(False)
    (aborted,) = restored.prepare_commit()
    restored.close()
    again = kafka_sink.restore_writer(Context(restored=1), [topic])
    committer = KafkaCommitter(kafka_sink)
    of_kept, of_aborted = Request(kept), Request(aborted)
    committer.commit([of_kept, of_aborted])
    assert of_kept.failures == []
    assert f"cannot commit the transaction {topic}-0-2" in str(of_aborted.failures[0])
    assert topics.values(topic) == [b"kept"]
    again.close()
    committer.close()


def test_fewer_writers_abort_what_more_had_open(broker, topics):
    """Removed subtasks leave transactions, which would block readers."""
    topic = topics.create()
    kafka_sink = sink(broker.servers, topic, topic)
    former = kafka_sink.create_writer(Context(subtask=3, parallelism=4))
    former.write("lost with its subtask", Context())
    former.flush(False)
    former.close()
    for subtask in range(2):
        kafka_sink.create_writer(Context(subtask=subtask, parallelism=2)).close()
    topics.write(topic, ["next"])
    assert topics.values(topic) == [b"next"]


def test_topic_that_is_not_there(broker):
    env = environment(attempts=0)
    stream = env.from_collection(["a"], type_info=Types.STRING())
    serializer = values_to("nowhere").build()
    builder = KafkaSink.builder().set_bootstrap_servers(broker.servers)
    builder.set_record_serializer(serializer).set_property("delivery.timeout.ms", "1000")
    stream.sink_to(builder.build())
    with pytest.raises(SinkError, match="cannot write to nowhere of "):
        env.execute()


def test_the_example_of_the_documents(broker, topics, monkeypatch):
    """The example runs as printed, except for the broker's address, its topics and an end."""
    page = (Path(__file__).parents[3] / "docs" / "kafka.md").read_text()
    example, *_ = re.findall(r"```py\n(.*?)```", page, re.S)
    orders, totals = topics.create(), topics.create()
    topics.write(orders, ["a", "b"])
    bounded = ".set_bounded(KafkaOffsetsInitializer.latest())\n    .set_group_id("
    example = example.replace("broker:9092", broker.servers).replace(".set_group_id(", bounded, 1)
    example = example.replace('_topics("orders")', f'_topics("{orders}")')
    example = example.replace('_topic("totals")', f'_topic("{totals}")')
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "local")
    exec(compile(example, "example", "exec"), {"__name__": "__main__"})
    assert topics.values(totals) == [b"A", b"B"]


class Place:
    """A topic, for the scenarios that all sinks run."""

    def __init__(self, broker, topics, guarantee):
        self.topic = topics.create()
        self._topics = topics
        prefix = self.topic if guarantee is DeliveryGuarantee.EXACTLY_ONCE else None
        self._sink = sink_of(broker, values_to(self.topic).build(), guarantee, prefix)

    def write(self, stream):
        return texts(stream).sink_to(self._sink)

    def read(self):
        return [int(message.value()) for message in self._topics.read(self.topic)]


PROMISES = pytest.mark.parametrize(
    "guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE]
)


@PROMISES
def test_the_sink_continues_at_another_parallelism(broker, topics, tmp_path, guarantee):
    once_at_another_parallelism(Place(broker, topics, guarantee), tmp_path, ordered=True)


@PROMISES
def test_the_sink_continues_after_a_failure(broker, topics, guarantee):
    exact = guarantee is DeliveryGuarantee.EXACTLY_ONCE
    place = Place(broker, topics, guarantee)
    after_a_failure(place, exact=exact, ordered=True, interval_ms=400)
