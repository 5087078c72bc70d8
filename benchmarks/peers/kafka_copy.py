"""Kafka to Kafka exactly once as a PyFlink program: the peer of a row of ``connectors.py``.

    kafka_copy.py SERVERS FROM TO PARALLELISM JARS [map]

Without ``map`` no record reaches Python: only Flink's Java runs.  Prints the job's milliseconds.
"""

import sys
from pathlib import Path

from pyflink.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

servers, source_topic, target_topic, parallelism, jars, *mapped = sys.argv[1:]
settings = {
    "pipeline.jars": ";".join(path.as_uri() for path in Path(jars).resolve().glob("*.jar")),
    "parallelism.default": parallelism,
    "execution.checkpointing.interval": "1 s",
    "python.execution-mode": "thread",
}
configuration = Configuration()
for key, value in settings.items():
    configuration.set_string(key, value)
env = StreamExecutionEnvironment.get_execution_environment(configuration)
source = (
    KafkaSource.builder()
    .set_bootstrap_servers(servers)
    .set_topics(source_topic)
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_bounded(KafkaOffsetsInitializer.latest())
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
record = (
    KafkaRecordSerializationSchema.builder()
    .set_topic(target_topic)
    .set_value_serialization_schema(SimpleStringSchema())
    .build()
)
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers(servers)
    .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    .set_transactional_id_prefix(target_topic)
    .set_record_serializer(record)
    # Flink's default of an hour exceeds the brokers' default limit.
    .set_property("transaction.timeout.ms", "900000")
    .build()
)
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
if mapped:
    stream = stream.map(lambda text: text.strip() + "!", Types.STRING())
stream.sink_to(sink)
print(env.execute().get_net_runtime())
