"""Flink 1's consumer and producer describe the same as KafkaSource and KafkaSink."""

import pytest
from penstock.common import SimpleStringSchema
from penstock.connectors.kafka.offsets import KafkaOffsetResetStrategy
from penstock.datastream.connectors import DeliveryGuarantee, kafka
from penstock.datastream.connectors.kafka import FlinkKafkaConsumer, FlinkKafkaProducer, Semantic
from penstock.errors import InvalidProgramError, WrongArgumentError

BROKERS = {"bootstrap.servers": "localhost:9092"}
GROUP = {**BROKERS, "group.id": "g"}


def source(properties=GROUP, configure=lambda consumer: consumer):
    return configure(FlinkKafkaConsumer("t", SimpleStringSchema(), properties))._as_source()


@pytest.mark.parametrize(
    ("configure", "kind", "reset"),
    [
        (lambda c: c, "Committed", "LATEST"),
        (lambda c: c.set_start_from_group_offsets(), "Committed", "LATEST"),
        (lambda c: c.set_start_from_earliest(), "_Earliest", "EARLIEST"),
        (lambda c: c.set_start_from_latest(), "_Latest", "LATEST"),
        (lambda c: c.set_start_from_timestamp(1), "_AtTime", "NONE"),
        (
            lambda c: c.set_start_from_specific_offsets({kafka.KafkaTopicPartition("t", 0): 7}),
            "_Specified",
            "LATEST",
        ),
    ],
)
def test_the_starting_offsets_of_a_consumer(configure, kind, reset):
    made = source(configure=configure)
    assert type(made.starting).__name__ == kind
    assert made.starting.reset_strategy is KafkaOffsetResetStrategy[reset]


def test_the_properties_of_a_consumer():
    made = source({**GROUP, "auto.offset.reset": "earliest", "flink.poll-timeout": "100"})
    assert made.starting.reset_strategy is KafkaOffsetResetStrategy.EARLIEST
    assert made.group_id == "g"
    assert made.commits_offsets
    assert made.discovery_interval_ms is None
    assert not source(
        configure=lambda c: c.set_commit_offsets_on_checkpoints(False)
    ).commits_offsets
    discovers = {**GROUP, "flink.partition-discovery.interval-millis": 5}
    assert source(discovers).discovery_interval_ms == 5


def test_a_consumer_without_a_group_starts_as_the_reset_says():
    assert type(source(BROKERS).starting).__name__ == "_Latest"
    earliest = source({**BROKERS, "auto.offset.reset": "earliest"})
    assert type(earliest.starting).__name__ == "_Earliest"
    with pytest.raises(InvalidProgramError, match=r"needs the property group\.id"):
        source({**BROKERS, "auto.offset.reset": "none"})


@pytest.mark.parametrize("semantic", list(Semantic))
def test_guarantees_of_a_producer(semantic):
    producer = FlinkKafkaProducer("t", SimpleStringSchema(), BROKERS, semantic=semantic)
    made = producer._as_sink()
    assert made.guarantee is DeliveryGuarantee[semantic.name]
    assert made.has_fixed_partitions
    assert not made.writes_timestamps
    assert producer.set_write_timestamp_to_kafka(True)._as_sink().writes_timestamps


def test_a_producer_that_does_not_flush_promises_nothing():
    producer = FlinkKafkaProducer("t", SimpleStringSchema(), BROKERS)
    assert producer._as_sink().guarantee is DeliveryGuarantee.AT_LEAST_ONCE
    assert producer.set_flush_on_checkpoint(False)._as_sink().guarantee is DeliveryGuarantee.NONE
    with pytest.raises(InvalidProgramError, match="would lose records"):
        producer.set_log_failures_only(True)


def test_a_schema_is_needed():
    with pytest.raises(WrongArgumentError, match="DeserializationSchema"):
        FlinkKafkaConsumer("t", None, GROUP)
    with pytest.raises(WrongArgumentError, match="SerializationSchema"):
        FlinkKafkaProducer("t", None, BROKERS)
