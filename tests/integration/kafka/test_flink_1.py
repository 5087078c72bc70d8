"""FlinkKafkaProducer and FlinkKafkaConsumer against a real broker."""

import pytest
from integration.kafka.test_kafka_sink import environment
from penstock.common import SimpleStringSchema, Types
from penstock.datastream.connectors.kafka import FlinkKafkaConsumer, FlinkKafkaProducer

pytestmark = pytest.mark.kafka


def test_a_consumer_reads_the_records_of_a_producer(broker, topics):
    """Each subtask of the producer writes to one partition, so that a key keeps its order."""
    topic = topics.create(partitions=4)
    brokers = {"bootstrap.servers": broker.servers}
    env = environment()
    texts = [f"{key}{number}" for number in range(20) for key in "abcdef"]
    keyed = env.from_collection(texts, Types.STRING()).key_by(lambda text: text[0], Types.STRING())
    keyed.add_sink(FlinkKafkaProducer(topic, SimpleStringSchema(), brokers))
    env.execute()

    consumer = FlinkKafkaConsumer(topic, SimpleStringSchema(), {**brokers, "group.id": topic})
    consumer.set_start_from_earliest()
    env = environment(parallelism=1)
    read = env.add_source(consumer).execute_and_collect("read", limit=len(texts))
    for key in "abcdef":
        assert [text for text in read if text[0] == key] == [f"{key}{n}" for n in range(20)]
