"""Orders from a Kafka topic written to a Delta Lake table, exactly once.

    python examples/kafka_to_delta.py --servers HOST:PORT --topic orders --table FOLDER
    [--bounded]

Records are JSON objects with ``id``, ``item`` and ``price``; other records are printed to the
standard output.  With ``--bounded`` the program reads the topic's present content, and ends.
"""

import argparse

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.datastream.formats.json import JsonRowDeserializationSchema

ORDER = Types.ROW_NAMED(["id", "item", "price"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])


def define(env, servers, topic, table, *, bounded):
    """Add the operators of the program to an environment."""
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(topic)
        .set_group_id("kafka-to-delta")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(
            JsonRowDeserializationSchema.builder().type_info(ORDER).build()
        )
    )
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    orders = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "orders")
    orders.filter(lambda order: order.price > 0).sink_to(DeltaSink(table, ORDER))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True, help="the brokers, as HOST:PORT")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--table", required=True, help="the folder of the table")
    parser.add_argument("--bounded", action="store_true", help="end where the topic ends now")
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    define(env, arguments.servers, arguments.topic, arguments.table, bounded=arguments.bounded)
    env.execute("Kafka to Delta")
