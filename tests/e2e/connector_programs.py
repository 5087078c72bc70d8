"""Programs of connectors on Spark: ``python connector_programs.py NAME MASTER ARGUMENTS…``."""

import sys
from pathlib import Path

from penstock.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource

TEXT = SimpleStringSchema()


class FailOnce(MapFunction):
    """Fails the job at a record, once."""

    def __init__(self, mark, at):
        self.mark, self.at = mark, at

    def map(self, value):
        if value == self.at and not Path(self.mark).exists():
            Path(self.mark).touch()
            raise RuntimeError("once")
        return value


def environment(master):
    options = {
        "execution.target": "spark",
        "spark.master": master,
        "execution.checkpointing.interval": "200 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(2)
    return env


def rabbitmq(env, uri, mark):
    """Copy from the queue "in" to the queue "out", until cancelled."""
    config = RMQConnectionConfig.Builder().set_uri(uri).set_network_recovery_interval(50).build()
    stream = env.add_source(RMQSource(config, "in", True, TEXT))
    stream.map(FailOnce(mark, "50"), Types.STRING()).add_sink(
        RMQSink(config, "out", TEXT, correlation_id=lambda text: text)
    )
    job = env.execute_async()
    print("started", flush=True)
    sys.stdin.readline()
    job.cancel().result()


def kafka(env, servers, mark):
    """Copy from the topic "in" to the topic "out", exactly once."""
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics("in")
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(TEXT)
        .build()
    )
    record = KafkaRecordSerializationSchema.builder().set_topic("out")
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("on-spark")
        .set_record_serializer(record.set_value_serialization_schema(TEXT).build())
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "in")
    stream.map(FailOnce(mark, "500"), Types.STRING()).sink_to(sink)
    env.execute()


if __name__ == "__main__":
    name, master, *arguments = sys.argv[1:]
    {"rabbitmq": rabbitmq, "kafka": kafka}[name](environment(master), *arguments)
