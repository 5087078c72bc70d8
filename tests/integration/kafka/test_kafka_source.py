"""KafkaSource against a real broker: start and stop positions, and how it reads records."""

import json
import os
import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import deltalake
import pytest
from penstock.common import (
    ByteArraySchema,
    Configuration,
    Duration,
    SimpleStringSchema,
    Types,
    WatermarkStrategy,
)
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import ProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaTopicPartition,
)
from penstock.datastream.formats.dead_letters import dead_letter_tag
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.datastream.window import Time, TumblingEventTimeWindows
from penstock.errors import JobExecutionError, SourceError
from support import figures
from support.relay import Relay
from support.sessions import eventually
from support.source_scenarios import (
    a_slow_split_holds_the_watermark,
    once_after_a_failure,
    once_at_another_parallelism,
)

pytestmark = pytest.mark.kafka


@pytest.fixture(params=["native", "pure"])
def runtime(request, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", request.param)
    return request.param


def environment(parallelism=2, target="in-process"):
    configuration = Configuration()
    if os.environ.get("PENSTOCK_RUNTIME") != "pure":  # the pure runtime needs processes
        configuration.set_string("execution.target", target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def bounded(broker, topic=None):
    """Return a builder of a source that stops at the present end."""
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.servers)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
    )
    return builder if topic is None else builder.set_topics(topic)


def elements(source, env=None, strategy=None):
    env = env or environment()
    stream = env.from_source(source, strategy or WatermarkStrategy.no_watermarks(), "kafka")
    with stream.execute_and_collect() as found:
        return list(found)


def test_all_records_of_all_partitions(broker, topics, runtime):
    topic = topics.create(partitions=3)
    topics.write(topic, [{"value": str(n), "partition": n % 3} for n in range(3000)])
    found = elements(bounded(broker, topic).build())
    assert sorted(found, key=int) == [str(n) for n in range(3000)]
    for number in range(3):
        own = [int(text) for text in found if int(text) % 3 == number]
        assert own == sorted(own), "the order within a partition is kept"


def test_empty_topics_end(broker, topics):
    assert elements(bounded(broker, topics.create(partitions=2)).build()) == []


def test_two_topics_and_a_pattern(broker, topics):
    one, other = topics.create(name="pattern-one"), topics.create(name="pattern-two")
    topics.create(name="a-pattern-three")
    topics.write(one, [b"1"])
    topics.write(other, [b"2"])
    assert sorted(elements(bounded(broker).set_topics(one, other).build())) == ["1", "2"]
    assert sorted(elements(bounded(broker).set_topic_pattern("pattern-.*").build())) == ["1", "2"]


def test_single_partitions(broker, topics):
    topic = topics.create(partitions=3)
    topics.write(topic, [{"value": str(n), "partition": n} for n in range(3)])
    wanted = {KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 2)}
    assert sorted(elements(bounded(broker).set_partitions(wanted).build())) == ["0", "2"]


def test_starting_offsets(broker, topics):
    topic = topics.create()
    topics.write(topic, [{"value": str(n), "timestamp": 1000 * (n + 1)} for n in range(10)])
    partition = KafkaTopicPartition(topic, 0)

    def starting(initializer, group=None):
        builder = bounded(broker, topic).set_starting_offsets(initializer)
        return elements((builder if group is None else builder.set_group_id(group)).build())

    every = [str(n) for n in range(10)]
    assert starting(KafkaOffsetsInitializer.earliest()) == every
    assert starting(KafkaOffsetsInitializer.latest()) == []
    assert starting(KafkaOffsetsInitializer.timestamp(4500)) == every[4:]
    assert starting(KafkaOffsetsInitializer.timestamp(99_000)) == []
    assert starting(KafkaOffsetsInitializer.offsets({partition: 7})) == every[7:]
    reset = KafkaOffsetResetStrategy
    committed = KafkaOffsetsInitializer.committed_offsets
    assert starting(committed(reset.EARLIEST), "nobody") == every
    assert starting(committed(reset.LATEST), "nobody") == []
    with pytest.raises(SourceError, match=r"has committed no offset for topic-\w+-0"):
        starting(committed(), "nobody")
    other = KafkaTopicPartition("other", 0)
    assert starting(KafkaOffsetsInitializer.offsets({other: 1})) == every
    with pytest.raises(SourceError, match="no offset was given"):
        starting(KafkaOffsetsInitializer.offsets({other: 1}, reset.NONE))


def test_stopping_offsets(broker, topics):
    topic = topics.create(partitions=2)
    topics.write(topic, [{"value": str(n), "partition": n % 2} for n in range(10)])
    stops = {KafkaTopicPartition(topic, 0): 2, KafkaTopicPartition(topic, 1): 4}
    for stop in ("set_bounded", "set_unbounded"):
        builder = bounded(broker, topic)
        source = getattr(builder, stop)(KafkaOffsetsInitializer.offsets(stops))
        source = source.set_property("partition.discovery.interval.ms", "-1").build()
        assert sorted(elements(source)) == ["0", "1", "2", "3", "5", "7"]
        assert source.is_bounded() == (stop == "set_bounded")


def test_offset_that_is_gone(broker, topics):
    topic = topics.create()
    topics.write(topic, [b"1"])
    source = bounded(broker, topic).set_bounded(KafkaOffsetsInitializer.timestamp(2**50))
    partition = KafkaTopicPartition(topic, 0)
    beyond = KafkaOffsetsInitializer.offsets({partition: 77}, KafkaOffsetResetStrategy.NONE)
    source = source.set_unbounded(KafkaOffsetsInitializer.offsets({partition: 99}))
    with pytest.raises(
        (SourceError, JobExecutionError), match=f"cannot read {topic}-0 from offset 77"
    ):
        elements(source.set_starting_offsets(beyond).build())


def test_isolation_levels(broker, topics):
    """Bounded reading ends behind the markers of transactions, at both levels."""
    topic = topics.create()
    topics.write(topic, [b"committed"], transactional_id=f"{topic}-a")
    topics.write(topic, [b"aborted"], transactional_id=f"{topic}-b", commit=False)
    assert elements(bounded(broker, topic).build()) == ["committed", "aborted"]
    source = bounded(broker, topic).set_property("isolation.level", "read_committed").build()
    assert elements(source) == ["committed"]


def test_whole_records(broker, topics):
    topic = topics.create()
    topics.write(
        topic,
        [
            {"value": b"v", "key": b"k", "timestamp": 1234, "headers": {"h": b"1"}},
            {"value": None, "key": b"gone", "timestamp": 1235},
        ],
    )

    def fields(record):
        return (record.key(), record.value(), record.headers(), record.offset(), record.timestamp())

    builder = bounded(broker, topic).set_deserializer(KafkaRecordDeserializationSchema.of(fields))
    assert elements(builder.build()) == [
        (b"k", b"v", [("h", b"1")], 0, (1, 1234)),
        (b"gone", None, None, 1, (1, 1235)),
    ]
    assert elements(bounded(broker, topic).build()) == ["v"], "a tombstone has no value"
    as_bytes = bounded(broker, topic).set_value_only_deserializer(ByteArraySchema()).build()
    assert elements(as_bytes) == [b"v"]


def test_records_that_cannot_be_deserialized(broker, topics):
    topic = topics.create()
    topics.write(topic, [b"good", b"\xff", None, b"also good"])
    with pytest.raises(UnicodeDecodeError) as raised:
        elements(bounded(broker, topic).build())
    assert f"the record of {topic}-0 at offset 1 cannot" in "".join(raised.value.__notes__)
    source = bounded(broker, topic).set_skip_undecodable_records(True).build()
    assert elements(source) == ["good", "also good"]


def test_records_of_topics_and_times_between_each_other(broker, topics):
    one, other = topics.create(2), topics.create(2)
    timed = [
        {"value": b"%d" % number, "partition": number % 2, "timestamp": number // 5 + 1}
        for number in range(40)
    ]
    topics.write(one, timed)
    topics.write(other, [b"%d" % number for number in range(100, 140)])
    source = bounded(broker).set_topics(one, other).build()
    env = environment(1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")

    class WithTime(ProcessFunction):
        def process_element(self, value, ctx):
            yield int(value), ctx.timestamp()

    with stream.process(WithTime()).execute_and_collect() as found:
        seen = dict(found)
    assert {n: at for n, at in seen.items() if n < 100} == {n: n // 5 + 1 for n in range(40)}
    assert sorted(n for n in seen if n >= 100) == list(range(100, 140))


def test_a_mistake_in_a_deserialization_function_is_no_dead_letter(broker, topics):
    topic = topics.create()
    topics.write(topic, [b"1", b"x", b"2"])

    def mistaken(record):
        return {b"1": 1, b"2": 2}[record.value()]

    of = KafkaRecordDeserializationSchema.of(mistaken, Types.INT())
    source = bounded(broker, topic).set_deserializer(of).set_dead_letters(dead_letter_tag("bad"))
    rows = environment().from_source(source.build(), WatermarkStrategy.no_watermarks(), "kafka")
    with pytest.raises(KeyError) as caught, rows.execute_and_collect() as results:
        list(results)
    assert any("not a decoding error" in note for note in caught.value.__notes__)


def test_records_that_cannot_be_deserialized_are_dead_letters(broker, topics):
    topic = topics.create()
    rest = {"key": b"k", "timestamp": 5, "headers": [("h", b"v")]}
    topics.write(topic, [b'{"a":1}', {"value": b'{"a":"x"}', **rest}, b'{"a":2}'])
    declared = Types.ROW_NAMED(["a"], [Types.INT()])
    schema = JsonRowDeserializationSchema.builder().type_info(declared).build()
    tag = dead_letter_tag("bad")
    source = bounded(broker, topic).set_value_only_deserializer(schema).set_dead_letters(tag)
    rows = environment().from_source(source.build(), WatermarkStrategy.no_watermarks(), "kafka")
    both = rows.map(str, Types.STRING()).union(
        rows.get_side_output(tag).map(
            lambda row: (
                f"{row.origin} {row.position} {row.data} {row.error[:34]} {row.topic == topic} "
                f"{row.partition} {row.offset} {row.timestamp} {row.key} {row.headers}"
            ),
            Types.STRING(),
        )
    )
    with both.execute_and_collect() as found:
        assert sorted(found) == [
            "Row(a=1)",
            "Row(a=2)",
            f"{topic}-0 1 b'{{\"a\":\"x\"}}' FormatError: the field 'a': 'x' is True "
            "0 1 5 b'k' [('h', b'v')]",
        ]


class TimeInText(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value)


@pytest.mark.parametrize("assigns", [False, True])
def test_watermarks_of_each_partition(broker, topics, assigns):
    """One partition is far ahead of the other: nothing of the slower one is late."""
    topic = topics.create(partitions=2)
    fast = [{"value": str(t), "timestamp": t, "partition": 0} for t in range(10_000, 70_000, 10)]
    slow = [{"value": str(t), "timestamp": t, "partition": 1} for t in range(10_000, 70_000, 100)]
    topics.write(topic, fast + slow)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if assigns:
        strategy = strategy.with_timestamp_assigner(TimeInText())
    env = environment(parallelism=1)
    stream = env.from_source(bounded(broker, topic).build(), strategy, "kafka")
    counted = (
        stream.map(lambda _: ("all", 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
    )
    with counted.execute_and_collect() as found:
        assert list(found) == [("all", 1100)] * 6


@pytest.mark.parametrize("written", [1, 2])
def test_idleness(broker, topics, written):
    """Neither an empty partition nor a subtask without partitions blocks the windows."""
    topic = topics.create(partitions=2)
    topics.write(
        topic,
        [
            {"value": str(t), "timestamp": t, "partition": partition}
            for partition in range(written)
            for t in range(10_000, 70_000, 100)
        ],
    )
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.servers)
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(6))
    env = environment(parallelism=3)
    counted = (
        env.from_source(source, strategy, "kafka")
        .map(lambda _: ("all", 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
    )
    with counted.execute_and_collect() as found:
        # The last window stays open: nothing ends it.
        assert [next(found) for _ in range(5)] == [("all", 100 * written)] * 5


def test_a_slow_partition_holds_the_watermark(broker, topics):
    topic = topics.create(partitions=2)
    topics.write(topic, [{"value": str(n), "partition": n % 2} for n in range(20_000)])

    def make(env, strategy):
        stream = env.from_source(bounded(broker, topic).build(), strategy, "kafka")
        return stream.map(int, Types.LONG())

    a_slow_split_holds_the_watermark(make, 20_000)


def test_new_partitions_and_topics(broker, topics):
    """Topics and partitions that appear later are found, and read from their beginning."""
    topic = topics.create(name="growing-1")
    first = {KafkaTopicPartition(topic, 0): 0}
    topics.write(topic, [b"before"])
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.servers)
        .set_topic_pattern("growing-.")
        .set_starting_offsets(
            KafkaOffsetsInitializer.offsets(first, KafkaOffsetResetStrategy.LATEST)
        )
        .set_property("partition.discovery.interval.ms", "50")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    env = environment()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
    with stream.execute_and_collect() as found:
        assert next(found) == "before"
        topics.grow(topic, 2)
        topics.write(topic, [{"value": b"new partition", "partition": 1}])
        assert next(found) == "new partition"
        topics.write(topics.create(name="growing-2"), [b"new topic"])
        assert next(found) == "new topic"
        topics.write(topic, [{"value": b"old partition", "partition": 0}])
        assert next(found) == "old partition"


def test_offsets_are_committed_with_checkpoints(broker, topics):
    topic = topics.create(partitions=2)
    topics.write(topic, [{"value": str(n), "partition": n % 2} for n in range(100)])
    env = environment(target="local")
    env.enable_checkpointing(50)
    assert len(elements(bounded(broker, topic).set_group_id("mine").build(), env)) == 100
    assert topics.committed(topic, "mine") == [50, 50]
    silent = bounded(broker, topic).set_group_id("silent")
    silent.set_property("commit.offsets.on.checkpoint", "false")
    env = environment()
    env.enable_checkpointing(50)
    assert len(elements(silent.build(), env)) == 100
    assert topics.committed(topic, "silent") == [-1001, -1001]


def numbers_of(broker, topic, bounded):
    """Return a source of numbers, as the scenarios of all sources need it."""

    def make(env):
        builder = (
            KafkaSource.builder()
            .set_bootstrap_servers(broker.servers)
            .set_topics(topic)
            .set_value_only_deserializer(SimpleStringSchema())
        )
        if bounded:
            builder.set_bounded(KafkaOffsetsInitializer.latest())
        stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "kafka")
        return stream.map(int, Types.LONG())

    return make


@pytest.mark.parametrize("bounded", [True, False])
def test_the_source_continues_from_a_savepoint_and_after_a_failure(
    broker, topics, tmp_path, bounded
):
    topic, count = topics.create(partitions=3), 6000
    topics.write(topic, [{"value": str(n), "partition": n % 3} for n in range(count)])
    make = numbers_of(broker, topic, bounded)
    once_at_another_parallelism(make, tmp_path, count, ends=bounded)
    once_after_a_failure(make, count)


def test_alignment_of_partitions(broker, topics):
    """A partition that is ahead waits, but is read to its end."""
    topic = topics.create(partitions=2)
    topics.write(topic, [{"value": str(t), "timestamp": t, "partition": 0} for t in range(1000)])
    ahead = [{"value": str(t), "timestamp": t * 1000, "partition": 1} for t in range(1000)]
    topics.write(topic, ahead)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(
        "group", Duration.of_millis(50), Duration.of_millis(10)
    )
    assert len(elements(bounded(broker, topic).build(), strategy=strategy)) == 2000


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda b: b.set_topics("nowhere"), "there is no topic nowhere; set_topic_pattern"),
        (
            lambda b: b.set_partitions({KafkaTopicPartition("nowhere", 3)}),
            "there is no partition nowhere-3",
        ),
    ],
)
def test_missing_topics(broker, choose, message):
    with pytest.raises(SourceError, match=message):
        elements(choose(bounded(broker)).build())


def test_no_broker():
    """No process listens at port 1: reported within the client's own time-out, with the address."""
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("127.0.0.1:1")
        .set_topics("any")
        .set_value_only_deserializer(SimpleStringSchema())
        .set_property("default.api.timeout.ms", "300")
        .build()
    )
    with pytest.raises(
        SourceError, match=r"cannot get the topics from the brokers at 127\.0\.0\.1:1"
    ):
        elements(source)


def test_brokers_that_come_late(broker, topics):
    """A job waits for its brokers for as long as the client's time-out."""
    topic = topics.create()
    topics.write(topic, ["here"])
    host, _, port = broker.servers.partition(":")
    relay = Relay((host, 1))  # where no process listens

    def come():
        # By then the source has tried in vain.
        eventually(lambda: relay.accepted >= 40, "the source goes on asking")
        relay.turn((host, int(port)))

    try:
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(come)
            source = bounded(broker, topic).set_bootstrap_servers(":".join(map(str, relay.address)))
            assert elements(source.build()) == ["here"]
            coming.result()
    finally:
        relay.close()


def test_the_example_that_writes_a_table(broker, topics, tmp_path):
    """JSON objects of a topic become rows of a Delta table, read by deltalake."""
    program = Path(__file__).resolve().parents[3] / "examples" / "kafka_to_delta.py"
    example = runpy.run_path(str(program))
    prices = {"tea": 2.5, "cake": 0.0, "jam": 3.0, "bread": -1.0, "milk": 1.5}
    orders = [
        {"id": n, "item": item, "price": price} for n, (item, price) in enumerate(prices.items())
    ]
    topic = topics.create(partitions=2)
    topics.write(topic, [{"value": json.dumps(order)} for order in orders])
    env = environment()
    env.enable_checkpointing(100)
    table = str(tmp_path / "table")
    example["define"](env, broker.servers, topic, table, bounded=True)
    env.execute()
    found = deltalake.DeltaTable(table).to_pyarrow_table().sort_by("id").to_pylist()
    assert found == [order for order in orders if order["price"] > 0]
    figures.keeps("kafka_to_delta", example, found)
