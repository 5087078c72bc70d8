"""DynamicKafkaSource against two real brokers: streams that move from one to the other."""

import json

import pytest
from integration.kafka.broker import Topics
from integration.kafka.test_kafka_source import environment
from penstock.common import SimpleStringSchema, Types, WatermarkStrategy
from penstock.datastream.connectors.dynamic_kafka import (
    ClusterMetadata,
    DynamicKafkaSource,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSubscriber,
    SingleClusterTopicMetadataService,
)
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
)
from penstock.datastream.formats.dead_letters import dead_letter_tag
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.errors import FormatError, JobCancelledError, SourceError
from support.environments import in_process
from support.gates import GATES, Gate, Gated, stopped
from support.source_scenarios import once_after_a_failure, once_at_another_parallelism

pytestmark = pytest.mark.kafka


class FromFile(KafkaMetadataService):
    """Reads streams from a JSON file: by stream and cluster the servers and topics."""

    def __init__(self, path, streams):
        super().__init__()
        self.path = str(path)
        self.say(streams)

    def say(self, streams):
        with open(self.path + ".new", "w") as file:
            json.dump(streams, file)
        import os

        os.replace(self.path + ".new", self.path)

    def get_all_streams(self):
        with open(self.path) as file:
            streams = json.load(file)
        return [
            KafkaStream(
                name,
                {
                    cluster: ClusterMetadata(frozenset(topics), {"bootstrap.servers": servers})
                    for cluster, (servers, topics) in clusters.items()
                },
            )
            for name, clusters in streams.items()
        ]

    def describe_streams(self, stream_ids):
        found = {stream.stream_id: stream for stream in self.get_all_streams()}
        return {name: found[name] for name in stream_ids if name in found}


def builder(service):
    return (
        DynamicKafkaSource.builder()
        .set_kafka_metadata_service(service)
        .set_value_only_deserializer(SimpleStringSchema())
    )


def elements(source, env):
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "streams")
    with stream.execute_and_collect() as found:
        return sorted(found, key=int)


def test_topics_of_one_cluster_to_their_end(broker, topics):
    one, other = topics.create(partitions=2), topics.create()
    topics.write(one, [{"value": str(n), "partition": n % 2} for n in range(100)])
    topics.write(other, [str(n) for n in range(100, 150)])
    service = SingleClusterTopicMetadataService("a", {"bootstrap.servers": broker.servers})
    made = builder(service).set_bounded(KafkaOffsetsInitializer.latest())
    source = made.set_stream_ids({one, other}).build()
    assert source.is_bounded()
    assert elements(source, environment()) == [str(n) for n in range(150)]


def test_one_stream_in_two_clusters(broker, topics, other_broker, tmp_path):
    others = Topics(other_broker.servers)
    # The same name in both: the cluster distinguishes partitions.
    name = topics.create()
    others.create(name=name)
    topics.write(name, [str(n) for n in range(50)])
    others.write(name, [str(n) for n in range(50, 80)])
    held = {"a": (broker.servers, [name]), "b": (other_broker.servers, [name])}
    made = builder(FromFile(tmp_path / "streams", {"orders": held})).set_stream_pattern("ord.*")
    source = made.set_bounded(KafkaOffsetsInitializer.latest()).build()
    assert elements(source, environment()) == [str(n) for n in range(80)]


@pytest.mark.parametrize("bounded", [True, False])
def test_the_source_continues_from_a_savepoint_and_after_a_failure(
    broker, topics, other_broker, tmp_path, bounded
):
    count, others = 3000, Topics(other_broker.servers)
    name = topics.create(partitions=2)
    others.create(name=name)
    topics.write(name, [{"value": str(n), "partition": n % 2} for n in range(2000)])
    others.write(name, [str(n) for n in range(2000, count)])
    held = {"a": (broker.servers, [name]), "b": (other_broker.servers, [name])}
    service = FromFile(tmp_path / "streams", {"orders": held})

    def make(env):
        made = builder(service).set_stream_ids({"orders"})
        if bounded:
            made.set_bounded(KafkaOffsetsInitializer.latest())
        stream = env.from_source(made.build(), WatermarkStrategy.no_watermarks(), "streams")
        return stream.map(int, Types.LONG())

    once_at_another_parallelism(make, tmp_path, count, ends=bounded)
    once_after_a_failure(make, count)


def test_a_stream_that_moves_while_the_job_runs(broker, topics, other_broker, tmp_path):
    others = Topics(other_broker.servers)
    old, new = topics.create(partitions=2), others.create(partitions=2)
    service = FromFile(tmp_path / "streams", {"orders": {"a": (broker.servers, [old])}})
    topics.write(old, [str(n) for n in range(50)])
    GATES["moved"] = gate = Gate()
    gate.let(1000)
    source = (
        builder(service)
        .set_stream_ids({"orders"})
        .set_property("stream-metadata-discovery-interval-ms", "50")
        .set_property("partition.discovery.interval.ms", "50")
        .build()
    )
    assert not source.is_bounded()
    env = in_process(2, execution_checkpointing_interval="50 ms")
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "streams")
    stream.map(Gated("moved"), Types.STRING()).print()
    job = env.execute_async()
    try:
        gate.wait_for(50)
        # Both for a while, then only the new cluster.
        both = {"a": (broker.servers, [old]), "b": (other_broker.servers, [new])}
        service.say({"orders": both})
        others.write(new, [str(n) for n in range(50, 100)])
        gate.wait_for(100)
        topics.write(old, ["100"])
        gate.wait_for(101)
        service.say({"orders": {"b": both["b"]}})
        others.write(new, [str(n) for n in range(101, 200)])
        gate.wait_for(200)
    finally:
        job.cancel().result()
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()
    assert sorted(map(int, gate.seen)) == list(range(200))


def test_offsets_of_all_clusters_are_in_a_savepoint(broker, topics, other_broker, tmp_path):
    others = Topics(other_broker.servers)
    name = topics.create(partitions=2)
    others.create(name=name)
    topics.write(name, [{"value": str(n), "partition": n % 2} for n in range(300)])
    others.write(name, [str(n) for n in range(300, 600)])
    held = {"a": (broker.servers, [name]), "b": (other_broker.servers, [name])}
    service = FromFile(tmp_path / "streams", {"orders": held})

    def started(gate, parallelism, **options):
        GATES["offsets"] = gate
        env = in_process(parallelism, **options)
        made = builder(service).set_stream_ids({"orders"}).set_group_id("moved")
        source = made.set_bounded(KafkaOffsetsInitializer.latest()).build()
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "streams").uid("s")
        stream.map(Gated("offsets"), Types.STRING()).uid("m").print()
        return env.execute_async()

    first, second = Gate(), Gate()
    job = started(first, 2)
    first.let(100)
    first.wait_for(100)
    savepoint = stopped(job, first, str(tmp_path / "savepoints"))
    second.let(10_000)
    started(
        second, 1, **{"execution.state-recovery.path": savepoint}
    ).get_job_execution_result().result()
    assert sorted(map(int, first.seen + second.seen)) == list(range(600))


class Two(KafkaStreamSubscriber):
    def get_subscribed_streams(self, service):
        return list(service.describe_streams({"one", "two"}).values())


def test_subscribers_in_python_and_whole_records(broker, topics, tmp_path):
    topic = topics.create()
    topics.write(topic, [{"key": "k", "value": "7"}])
    held = {"a": (broker.servers, [topic])}
    service = FromFile(tmp_path / "streams", {"one": held, "three": held})
    source = (
        DynamicKafkaSource.builder()
        .set_kafka_metadata_service(service)
        .set_kafka_stream_subscriber(Two())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_deserializer(KafkaRecordDeserializationSchema.of(lambda r: r.key() + r.value()))
        .build()
    )
    env = environment()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "streams")
    with stream.execute_and_collect() as found:
        assert list(found) == [b"k7"]


@pytest.mark.parametrize(
    ("adjust", "expected"),
    [
        (lambda b: b, ["1", "2", "3", "4"]),
        (lambda b: b.set_starting_offsets(KafkaOffsetsInitializer.latest()), []),
        (
            lambda b: b.set_starting_offsets(KafkaOffsetsInitializer.timestamp(2500)),
            ["3", "4"],
        ),
        (lambda b: b.set_bounded(KafkaOffsetsInitializer.timestamp(2500)), ["1", "2"]),
        (lambda b: b.set_property("isolation.level", "read_committed"), ["1", "2", "3"]),
        (lambda b: b.set_properties({"isolation.level": "read_committed"}), ["1", "2", "3"]),
    ],
)
def test_settings_of_each_cluster(broker, topics, adjust, expected):
    topic = topics.create()
    topics.write(topic, [{"value": str(n), "timestamp": n * 1000} for n in (1, 2, 3)])
    aborted = [{"value": "4", "timestamp": 4000}]
    topics.write(topic, aborted, transactional_id=topic, commit=False)
    service = SingleClusterTopicMetadataService("a", {"bootstrap.servers": broker.servers})
    made = builder(service).set_stream_ids({topic}).set_bounded(KafkaOffsetsInitializer.latest())
    assert elements(adjust(made).build(), environment()) == expected


def test_records_that_cannot_be_deserialized(broker, topics):
    topic = topics.create()
    topics.write(topic, [b'{"a":1}', b"?", b'{"a":2}'])
    declared = Types.ROW_NAMED(["a"], [Types.INT()])
    schema = JsonRowDeserializationSchema.builder().type_info(declared).build()
    service = SingleClusterTopicMetadataService("a", {"bootstrap.servers": broker.servers})

    def made():
        start = builder(service).set_stream_ids({topic}).set_value_only_deserializer(schema)
        return start.set_bounded(KafkaOffsetsInitializer.latest())

    def rows(source):
        stream = environment().from_source(source, WatermarkStrategy.no_watermarks(), "streams")
        return stream, stream.map(lambda row: str(row.a), Types.STRING())

    def collected(stream):
        with stream.execute_and_collect() as found:
            return sorted(found)

    with pytest.raises(FormatError, match=f"{topic}-0 at offset 1"):
        collected(rows(made().build())[1])
    assert collected(rows(made().set_skip_undecodable_records(True).build())[1]) == ["1", "2"]
    tag = dead_letter_tag("bad")
    stream, numbers = rows(made().set_dead_letters(tag).build())
    letters = stream.get_side_output(tag).map(
        lambda row: f"{row.origin} {row.position}", Types.STRING()
    )
    assert collected(numbers.union(letters)) == ["1", "2", f"{topic}-0 1"]


def test_offsets_of_a_group_are_committed_and_gone_on_from(broker, topics):
    topic = topics.create()
    topics.write(topic, ["1", "2", "3"])
    service = SingleClusterTopicMetadataService("a", {"bootstrap.servers": broker.servers})

    def made():
        start = builder(service).set_stream_ids({topic}).set_group_id("moved")
        return start.set_bounded(KafkaOffsetsInitializer.latest())

    def checkpointed():
        env = environment()
        env.enable_checkpointing(50)
        return env

    silent = made().set_property("commit.offsets.on.checkpoint", "false").build()
    assert elements(silent, checkpointed()) == ["1", "2", "3"]
    assert topics.committed(topic, "moved") == [-1001]
    assert elements(made().build(), checkpointed()) == ["1", "2", "3"]
    assert topics.committed(topic, "moved") == [3]
    topics.write(topic, ["4"])
    rest = made().set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())
    assert elements(rest.build(), environment()) == ["4"]


class FailsAt(SingleClusterTopicMetadataService):
    """Fails the second time and, after it has answered once more, always."""

    def __init__(self, servers, counter):
        super().__init__("a", {"bootstrap.servers": servers})
        self.counter = counter

    def describe_streams(self, stream_ids):
        with open(self.counter, "a+") as file:
            file.write("x")
            file.flush()
            asked = file.tell()
        if asked == 2 or asked > 3:
            raise RuntimeError(f"no answer to question {asked}")
        return super().describe_streams(stream_ids)


@pytest.mark.parametrize(("threshold", "question"), [("1", 2), ("2", 5), ("3", 6)])
def test_so_many_failures_of_the_service_fail_the_job(
    broker, topics, tmp_path, threshold, question
):
    topic = topics.create()
    made = builder(FailsAt(broker.servers, str(tmp_path / "asked"))).set_stream_ids({topic})
    made.set_property("stream-metadata-discovery-interval-ms", "20")
    made.set_property("stream-metadata-discovery-failure-threshold", threshold)
    with pytest.raises(Exception, match=f"no answer to question {question}"):
        elements(made.build(), environment())


def test_missing_streams_and_topics(broker, tmp_path):
    service = SingleClusterTopicMetadataService("a", {"bootstrap.servers": broker.servers})
    source = builder(service).set_stream_ids({"no-such"}).build()
    with pytest.raises(SourceError, match="knows no stream no-such"):
        elements(source, environment())
    held = {"a": (broker.servers, ["no-such"])}
    source = builder(FromFile(tmp_path / "s", {"x": held})).set_stream_ids({"x"}).build()
    with pytest.raises(SourceError, match="there is no topic no-such"):
        elements(source, environment())
