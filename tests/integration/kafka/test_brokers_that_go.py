"""A broker that is killed while records flow, and returns; a topic that is deleted."""

import time

import pytest
from integration.kafka.broker import Topics
from integration.kafka.test_kafka_sink import sink_of, values_to
from penstock.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaSource
from penstock.datastream.functions import CheckpointListener
from penstock.errors import JobCancelledError
from support.environments import in_process
from support.gates import GATES, Gate, Gated
from support.sessions import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COUNT = 5_000
OPTIONS = {"execution.checkpointing.interval": "100 ms", "restart-strategy.type": "none"}


def builder_of(broker, *topics):
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.servers)
        .set_topics(*topics)
        .set_value_only_deserializer(SimpleStringSchema())
    )


def numbered(begin, end):
    return [{"value": str(n), "partition": n % 2} for n in range(begin, end)]


class Slowly(MapFunction):
    """Maps so slowly that the first commit precedes the last copy."""

    def map(self, value):
        time.sleep(0.001)
        return value


class Counted(Gated, CheckpointListener):
    """Also counts checkpoints at the gate."""

    def notify_checkpoint_complete(self, checkpoint_id):
        GATES["flow"].complete += 1


@pytest.fixture
def other_topics(other_broker):
    topics = Topics(other_broker.servers)
    yield topics
    topics.admin = None


def test_a_broker_that_is_away_while_records_flow(other_broker, other_topics):
    """The job waits for it without a restart, and each record is written once."""
    origin, topic = other_topics.create(partitions=2), other_topics.create(partitions=2)
    other_topics.write(origin, numbered(0, COUNT))
    GATES["flow"] = gate = Gate()
    gate.complete = 0
    env = in_process(2, **OPTIONS)
    copy(other_broker, env, origin, topic, Counted("flow"), DeliveryGuarantee.AT_LEAST_ONCE)
    job = env.execute_async()
    gate.open_for_mail()  # records pass only while a checkpoint waits for their task
    eventually(lambda: gate.complete >= 2, "checkpoints are complete")
    other_broker.stop()
    gate.let(10 * COUNT)
    comes_back(other_broker, other_topics, origin, topic)
    cancelled(job)


def test_a_broker_that_is_away_while_transactions_are_open(other_broker, other_topics):
    """In separate workers: commit requests leave sockets to the garbage collector."""
    origin, topic = other_topics.create(partitions=2), other_topics.create(partitions=2)
    other_topics.write(origin, numbered(0, COUNT))
    configuration = Configuration.from_dict({"execution.target": "local", **OPTIONS})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    copy(other_broker, env, origin, topic, Slowly(), DeliveryGuarantee.EXACTLY_ONCE)
    job = env.execute_async()
    eventually(lambda: other_topics.values(topic), "some are committed")
    other_broker.stop()
    comes_back(other_broker, other_topics, origin, topic)
    cancelled(job)


def copy(broker, env, origin, topic, function, guarantee):
    """Copy a topic to another one, through a function."""
    exact = guarantee is DeliveryGuarantee.EXACTLY_ONCE
    source = builder_of(broker, origin).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
    stream.map(function, Types.STRING()).sink_to(
        sink_of(broker, values_to(topic).build(), guarantee, topic if exact else None)
    )


def comes_back(broker, topics, origin, topic):
    """Restart the broker, and write more records to copy."""
    broker.start()
    topics.write(origin, numbered(COUNT, 2 * COUNT))
    expected = sorted(str(n).encode() for n in range(2 * COUNT))
    eventually(lambda: len(topics.values(topic)) >= len(expected), "all is written")
    assert topics.values(topic) == expected


def cancelled(job):
    job.cancel().result()
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()


def test_a_topic_that_is_deleted_while_it_is_read(broker, topics, caplog):
    """The log says so at each discovery of partitions, and the job continues with the others."""
    topic, other = topics.create(), topics.create()
    topics.write(topic, ["1"])
    builder = builder_of(broker, topic, other).set_property("partition.discovery.interval.ms", "50")
    stream = in_process().from_source(builder.build(), WatermarkStrategy.no_watermarks(), "kafka")
    with stream.execute_and_collect() as found:
        assert next(found) == "1"
        topics.admin.delete_topics([topic])[topic].result()
        said = f"there is no topic {topic}"
        eventually(lambda: said in caplog.text, "the log says that the topic is gone")
        topics.write(other, ["2"])
        assert next(found) == "2"


def test_a_topic_that_is_made_again_is_read_from_where_the_reset_says(broker, topics):
    """Offsets of the former topic mean nothing in the new one."""
    topic = topics.create()
    topics.write(topic, ["1", "2"])
    builder = builder_of(broker, topic).set_property("metadata.max.age.ms", "500")
    stream = in_process().from_source(builder.build(), WatermarkStrategy.no_watermarks(), "kafka")
    with stream.execute_and_collect() as found:
        assert [next(found), next(found)] == ["1", "2"]
        topics.admin.delete_topics([topic])[topic].result()
        topics.create(name=topic)
        topics.write(topic, ["3"])
        assert next(found) == "3"
