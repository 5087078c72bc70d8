"""A writer of transactions in a process of its own, which the test kills.

Usage: transactional_writer.py SERVERS TOPIC PREFIX PREPARES VALUES...
Writes the values, prints how to commit them if PREPARES is "yes", and waits to be killed.
"""

import dataclasses
import json
import sys

from penstock.common import SimpleStringSchema
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink


class Context:
    """The context of a writer with a single subtask."""

    def __init__(self, restored=None, subtask=0, parallelism=1):
        self.restored, self.subtask, self.parallelism = restored, subtask, parallelism

    def get_index_of_subtask(self):
        return self.subtask

    def get_number_of_parallel_subtasks(self):
        return self.parallelism

    def get_restored_checkpoint_id(self):
        return self.restored

    def metric_group(self):
        return self

    def counter(self, name):
        return self

    def timestamp(self):
        return None


def sink(servers, topic, prefix):
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(prefix)
        .set_record_serializer(
            serializer.set_value_serialization_schema(SimpleStringSchema()).build()
        )
        .build()
    )


def main(servers, topic, prefix, prepares, *values):
    context = Context()
    writer = sink(servers, topic, prefix).create_writer(context)
    for value in values:
        writer.write(value, context)
    writer.flush(False)
    prepared = writer.prepare_commit() if prepares == "yes" else []
    print(json.dumps([dataclasses.asdict(committable) for committable in prepared]), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
