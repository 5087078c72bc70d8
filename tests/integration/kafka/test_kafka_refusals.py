"""A real broker that refuses topics."""

import pytest
from integration.kafka.test_kafka_source import bounded, elements
from penstock.common import SimpleStringSchema, Types
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from penstock.errors import SinkError, SourceError
from support.environments import in_process

pytestmark = pytest.mark.timeout(120)


def test_a_topic_that_may_not_be_read(broker, topics):
    topic = topics.create()
    topics.write(topic, [b"1"])
    topics.deny(topic, "READ")
    with pytest.raises(SourceError, match=f"cannot read {topic}-0 .*uthoriz"):
        elements(bounded(broker, topic).build())


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee))
def test_a_topic_that_may_not_be_written(broker, topics, guarantee):
    topic = topics.create()
    topics.deny(topic, "WRITE")
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
    env = in_process(1)
    env.from_collection(["a"], Types.STRING()).sink_to(builder.build())
    with pytest.raises(SinkError, match="uthoriz"):
        env.execute()
