"""Builders that are used twice: built objects do not change with the builder."""

import cloudpickle
import pytest
from penstock.common import Duration, Encoder, SimpleStringSchema, Types
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.connectors.rabbitmq import RMQConnectionConfig
from penstock.datastream.formats.csv import (
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema

ROW = Types.ROW_NAMED(["a"], [Types.LONG()])
LATEST = KafkaOffsetsInitializer.latest()
TEXT = SimpleStringSchema()
PREFIXED = OutputFileConfig.builder().with_part_prefix("z")


def kafka_source():
    builder = KafkaSource.builder().set_bootstrap_servers("a:1").set_topics("t")
    return builder.set_value_only_deserializer(TEXT).set_property("fetch.min.bytes", "1")


def kafka_record():
    builder = KafkaRecordSerializationSchema.builder().set_topic("t")
    return builder.set_value_serialization_schema(TEXT)


def kafka_sink():
    builder = KafkaSink.builder().set_bootstrap_servers("a:1").set_transactional_id_prefix("p")
    return builder.set_record_serializer(kafka_record().build())


def file_source():
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/folder")


def file_sink():
    return FileSink.for_row_format("/folder", Encoder.simple_string_encoder())


def connection():
    return JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://h/d")


def rabbitmq():
    builder = RMQConnectionConfig.Builder().set_host("h").set_port(1).set_virtual_host("/")
    return builder.set_user_name("u").set_password("p")


CHANGES = {
    kafka_source: [
        lambda b: b.set_bootstrap_servers("b:2"),
        lambda b: b.set_property("fetch.min.bytes", "5"),
        lambda b: b.set_properties({"client.dns.lookup": "use_all_dns_ips"}),
        lambda b: b.set_group_id("g"),
        lambda b: b.set_client_id_prefix("c"),
        lambda b: b.set_starting_offsets(LATEST),
        lambda b: b.set_bounded(LATEST),
        lambda b: b.set_unbounded(LATEST),
    ],
    kafka_record: [lambda b: b.set_key_serialization_schema(TEXT)],
    kafka_sink: [
        lambda b: b.set_bootstrap_servers("b:2"),
        lambda b: b.set_property("linger.ms", "7"),
        lambda b: b.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE),
        lambda b: b.set_transactional_id_prefix("q"),
    ],
    file_source: [
        lambda b: b.monitor_continuously(Duration.of_millis(5)),
        lambda b: b.set_file_enumerator(
            FileEnumeratorProvider.default_non_splittable_file_enumerator()
        ),
    ],
    file_sink: [
        lambda b: b.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()),
        lambda b: b.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()),
        lambda b: b.with_bucket_check_interval(77),
        lambda b: b.with_output_file_config(
            OutputFileConfig.builder().with_part_prefix("z").build()
        ),
        lambda b: b.enable_compact(
            FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).build(),
            FileCompactor.concat_file_compactor(),
        ),
    ],
    OutputFileConfig.builder: [lambda b: b.with_part_suffix("s")],
    lambda: FileCompactStrategy.builder().enable_compaction_on_checkpoint(3): [
        lambda b: b.set_size_threshold(9)
    ],
    connection: [lambda b: b.with_user_name("u"), lambda b: b.with_password("p")],
    JdbcExecutionOptions.builder: [lambda b: b.with_max_retries(9), lambda b: b.with_batch_size(2)],
    lambda: CsvSchema.builder().add_number_column("a"): [
        lambda b: b.add_string_column("b"),
        lambda b: b.set_column_separator("|"),
    ],
    lambda: CsvRowDeserializationSchema.Builder(ROW): [
        lambda b: b.set_field_delimiter("|"),
        lambda b: b.set_null_literal("-"),
        lambda b: b.set_ignore_parse_errors(True),
    ],
    lambda: CsvRowSerializationSchema.Builder(ROW): [
        lambda b: b.set_field_delimiter("|"),
        lambda b: b.set_line_delimiter("\r\n"),
        lambda b: b.disable_quote_character(),
    ],
    lambda: JsonRowDeserializationSchema.builder().type_info(ROW): [
        lambda b: b.ignore_parse_errors(),
        lambda b: b.fail_on_missing_field(),
    ],
    rabbitmq: [lambda b: b.set_port(2), lambda b: b.set_prefetch_count(3)],
    lambda: HybridSource.builder(NumberSequenceSource(0, 1)): [
        lambda b: b.add_source(NumberSequenceSource(2, 3))
    ],
}


@pytest.mark.parametrize(
    ("make", "change"), [(make, change) for make, changes in CHANGES.items() for change in changes]
)
def test_a_change_is_in_what_is_built_next_alone(make, change):
    builder = make()
    built = builder.build()
    before = cloudpickle.dumps(built)
    change(builder)
    assert cloudpickle.dumps(builder.build()) != before
    assert cloudpickle.dumps(built) == before


def test_arguments_are_copied():
    """Later changes of a dictionary by the program have no effect."""
    properties = {"fetch.min.bytes": "1"}
    source = kafka_source().set_properties(properties).build()
    offsets = {KafkaTopicPartition("t", 0): 5}
    initializer = KafkaOffsetsInitializer.offsets(offsets)
    before = cloudpickle.dumps((source, initializer))
    properties["fetch.wait.max.ms"] = "2"
    offsets[KafkaTopicPartition("t", 1)] = 7
    assert cloudpickle.dumps((source, initializer)) == before
