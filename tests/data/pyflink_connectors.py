"""Calls every method of PyFlink's connectors and formats that needs no JVM, by PyFlink's names.

The counterpart of PyFlink's own suites, which none of its packages contains.  Run by
`tests/integration/test_pyflink_connectors.py`, with penstock under the name ``pyflink``: prints the
called methods, as JSON.
"""

import datetime
import json
import sys
import tempfile
from pathlib import Path

import penstock.as_pyflink  # noqa: F401
import pytest
from pyflink.common import Duration, Row, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder, SimpleStringSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors import (
    DeliveryGuarantee,
    dynamic_kafka,
    elasticsearch,
    hybrid_source,
    kinesis,
    rabbitmq,
)
from pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    FileSplitAssignerProvider,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from pyflink.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from pyflink.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
    KafkaTopicSelector,
)
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from pyflink.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from pyflink.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from pyflink.datastream.formats.orc import OrcBulkWriters
from pyflink.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)

TEXT = SimpleStringSchema()
PAIR = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Pair",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
    }
)
ROWS = [Row(id=n, name=f"n{n}") for n in range(10)]


def raises(words, call):
    with pytest.raises(Exception, match=words):
        call()


def environment():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env


def written(folder, sink):
    """Let a job write the rows; return the files."""
    env = environment()
    env.from_collection(ROWS, PAIR).sink_to(sink)
    env.execute()
    return [path for path in Path(folder).rglob("*") if path.is_file()]


def read(source, env=None):
    env = env or environment()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    with stream.execute_and_collect() as rows:
        return list(rows)


def json_schemas():
    write = JsonRowSerializationSchema.builder().with_type_info(PAIR).build()
    builder = JsonRowDeserializationSchema.builder().type_info(PAIR)
    strict = builder.fail_on_missing_field().build()
    assert strict.deserialize(write.serialize(ROWS[1])) == ROWS[1]
    raises("name", lambda: strict.deserialize(b'{"id": 1}'))
    builder = JsonRowDeserializationSchema.builder().json_schema(
        '{"type": "object", "properties": {"id": {"type": "integer"}}}'
    )
    lenient = builder.ignore_parse_errors().build()
    assert lenient.deserialize(b'{"id": 4}') == Row(id=4)
    assert lenient.deserialize(b"{") is None


def csv_schemas():
    typed = Types.ROW_NAMED(
        ["id", "name", "many"], [Types.LONG(), Types.STRING(), Types.OBJECT_ARRAY(Types.STRING())]
    )
    row = Row(id=1, name="a;'b", many=["x", "y"])
    write = (
        CsvRowSerializationSchema.Builder(typed)
        .set_field_delimiter(";")
        .set_line_delimiter("\n")
        .set_array_element_delimiter("|")
        .set_quote_character("'")
        .set_escape_character("\\")
        .set_null_literal("none")
        .build()
    )
    read = (
        CsvRowDeserializationSchema.Builder(typed)
        .set_field_delimiter(";")
        .set_array_element_delimiter("|")
        .set_quote_character("'")
        .set_escape_character("\\")
        .set_null_literal("none")
        .set_allow_comments(True)
        .set_ignore_parse_errors(True)
        .build()
    )
    assert read.deserialize(write.serialize(row)) == row
    assert read.deserialize(write.serialize(Row(id=1, name=None, many=["x"]))).name is None
    assert read.deserialize(b"#a comment\n") is None
    bare = CsvRowSerializationSchema.Builder(PAIR).disable_quote_character().build()
    assert bare.serialize(Row(id=1, name="a b")).strip() == b"1,a b"


def csv_files():
    numbers = CsvSchema.builder().add_number_column("more", number_type=Types.INT()).build()
    builder = CsvSchema.builder().add_string_column("gone").clear_columns()
    builder.add_number_column("id", number_type=Types.LONG()).add_string_column("name")
    builder.add_boolean_column("yes").add_array_column("many", ";", Types.STRING())
    builder.add_columns_from(numbers)
    assert builder.size() == 5
    builder.set_column_separator("|").set_line_separator("\n").set_quote_char("'")
    builder.set_escape_char("\\").set_null_value("none").set_allow_comments()
    builder.set_use_header(False).set_skip_first_data_row(False).set_strict_headers(False)
    builder.set_array_element_separator(";")
    raises("only have the columns of the schema", lambda: builder.set_any_property_name("rest"))
    schema = builder.build()
    assert schema.size() == 5
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.csv").write_text("1|'a|b'|true|x;y|3\n# a comment\n2|none|false||4\n")
        source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), folder)
        first, second = read(source.build())
    assert (first.id, first.name, first.yes, first.more) == (1, "a|b", True, 3), first
    assert list(first.many) == ["x", "y"]
    assert second.name is None
    plain = CsvSchema.builder().add_array_column("many").add_string_column("name")
    plain.remove_array_element_separator(0).disable_array_element_separator()
    plain.disable_quote_char().disable_escape_char()
    assert plain.build().size() == 2


def avro_schemas():
    write = AvroRowSerializationSchema(avro_schema_string=AVRO)
    assert (
        AvroRowDeserializationSchema(avro_schema_string=AVRO).deserialize(write.serialize(ROWS[3]))
        == ROWS[3]
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pair.avsc")
        path.write_text(AVRO)
        assert str(AvroSchema.parse_file(str(path))) == str(AvroSchema.parse_string(AVRO))


def bulk_files():
    avro = AvroSchema.parse_string(AVRO)
    csv = CsvSchema.builder().add_number_column("id", number_type=Types.LONG())
    csv = csv.add_string_column("name").build()
    for writer, reader in (
        (ParquetBulkWriters.for_row_type(PAIR), ParquetColumnarRowInputFormat(PAIR)),
        (AvroParquetWriters.for_generic_record(avro), AvroParquetReaders.for_generic_record(avro)),
        (CsvBulkWriters.for_schema(csv), CsvReaderFormat.for_schema(csv)),
        (AvroBulkWriters.for_generic_record(avro), None),
        (OrcBulkWriters.for_row_type(PAIR), None),
    ):
        with tempfile.TemporaryDirectory() as folder:
            sink = FileSink.for_bulk_format(folder, writer)
            sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
            assert len(written(folder, sink.build())) == 1
            if isinstance(reader, ParquetColumnarRowInputFormat):
                made = FileSource.for_bulk_file_format(reader, folder)
            elif reader is not None:
                made = FileSource.for_record_stream_format(reader, folder)
            else:
                continue
            found = [
                (row["id"], row["name"]) for row in read(made.process_static_file_set().build())
            ]
            assert found == [(row.id, row.name) for row in ROWS]


def avro_files():
    schema = AvroSchema.parse_string(AVRO)
    with tempfile.TemporaryDirectory() as folder:
        sink = FileSink.for_bulk_format(folder, AvroBulkWriters.for_generic_record(schema))
        written(folder, sink.build())
        files = AvroInputFormat(folder, schema)
        assert isinstance(files.get_produced_type(), GenericRecordAvroTypeInfo)
        stream = environment().create_input(files)
        with stream.execute_and_collect() as records:
            assert list(records) == [{"id": row.id, "name": row.name} for row in ROWS]


def row_files():
    config = OutputFileConfig.builder().with_part_prefix("p").with_part_suffix(".txt").build()
    assert (config.get_part_prefix(), config.get_part_suffix()) == ("p", ".txt")
    for assigner in (
        BucketAssigner.base_path_bucket_assigner(),
        BucketAssigner.date_time_bucket_assigner("yyyy", "UTC"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            sink = (
                FileSink.for_row_format(folder, Encoder.simple_string_encoder())
                .with_bucket_assigner(assigner)
                .with_rolling_policy(RollingPolicy.default_rolling_policy())
                .with_bucket_check_interval(1000)
                .with_output_file_config(config)
                .disable_compact()
                .build()
            )
            sink.get_transformer()
            (path,) = written(folder, sink)
            assert (path.name[:2], path.suffix) == ("p-", ".txt")
            year = str(datetime.datetime.now(datetime.UTC).year)
            assert path.parent.name in (year, Path(folder).name)


def compaction():
    strategy = (
        FileCompactStrategy.builder()
        .set_size_threshold(1 << 20)
        .enable_compaction_on_checkpoint(2)
        .set_num_compact_threads(2)
        .build()
    )
    for compactor in (
        FileCompactor.concat_file_compactor(b"\n"),
        FileCompactor.identical_file_compactor(),
    ):
        with tempfile.TemporaryDirectory() as folder:
            sink = FileSink.for_row_format(folder, Encoder.simple_string_encoder())
            sink.enable_compact(strategy, compactor)
            assert written(folder, sink.build())


def file_sources():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.txt").write_text("a\nb\n")
        lines = StreamFormat.text_line_format("UTF-8")
        for enumerator in (
            FileEnumeratorProvider.default_splittable_file_enumerator(),
            FileEnumeratorProvider.default_non_splittable_file_enumerator(),
        ):
            builder = FileSource.for_record_stream_format(lines, folder)
            builder.set_file_enumerator(enumerator)
            builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner())
            assert read(builder.build()) == ["a", "b"]
        endless = FileSource.for_record_stream_format(lines, folder)
        endless.monitor_continuously(Duration.of_millis(10)).build()


def hybrid():
    source = hybrid_source.HybridSource.builder(NumberSequenceSource(0, 4))
    source = source.add_source(NumberSequenceSource(5, 9)).build()
    assert sorted(read(source)) == list(range(10))


def jdbc():
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    options = (
        builder.with_url("jdbc:postgresql://localhost/x")
        .with_driver_name("org.postgresql.Driver")
        .with_user_name("u")
        .with_password("p")
        .build()
    )
    assert options.get_db_url() == "jdbc:postgresql://localhost/x"
    assert options.get_driver_name() == "org.postgresql.Driver"
    assert (options.get_user_name(), options.get_password()) == ("u", "p")
    execution = (
        JdbcExecutionOptions.builder()
        .with_batch_interval_ms(2000)
        .with_batch_size(100)
        .with_max_retries(5)
        .build()
    )
    assert execution.get_batch_interval_ms() == 2000
    assert (execution.get_batch_size(), execution.get_max_retries()) == (100, 5)
    assert JdbcExecutionOptions.defaults().get_batch_size() == 5000
    JdbcSink.sink("INSERT INTO t VALUES (?, ?)", PAIR, options, execution)
    raises("2 fields", lambda: JdbcSink.sink("INSERT INTO t VALUES (?)", PAIR, options))


class Selector(KafkaTopicSelector):
    def apply(self, data):
        return "t"


def kafka():
    partition = KafkaTopicPartition("t", 0)
    for start in (
        KafkaOffsetsInitializer.earliest(),
        KafkaOffsetsInitializer.latest(),
        KafkaOffsetsInitializer.timestamp(100),
        KafkaOffsetsInitializer.offsets({partition: 1}, KafkaOffsetResetStrategy.LATEST),
        KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST),
    ):
        for name, given in (
            ("set_topics", ("t", "u")),
            ("set_topic_pattern", ("t.*",)),
            ("set_partitions", ({partition},)),
        ):
            builder = KafkaSource.builder().set_bootstrap_servers("localhost:9092")
            getattr(builder, name)(*given)
            builder.set_group_id("g").set_client_id_prefix("c").set_starting_offsets(start)
            builder.set_property("enable.auto.commit", "false")
            builder.set_properties({"fetch.min.bytes": "1"}).set_value_only_deserializer(TEXT)
            assert not builder.build().is_bounded()
            stop = KafkaOffsetsInitializer.latest()
            assert builder.set_bounded(stop).build().is_bounded()
            assert not builder.set_unbounded(stop).build().is_bounded()
    records = [
        KafkaRecordSerializationSchema.builder().set_topic("t"),
        KafkaRecordSerializationSchema.builder().set_topic_selector(Selector()),
    ]
    assert Selector().apply("x") == "t"
    for record in records:
        made = record.set_key_serialization_schema(TEXT).set_value_serialization_schema(TEXT)
        sink = KafkaSink.builder().set_bootstrap_servers("localhost:9092")
        sink.set_record_serializer(made.build()).set_property("acks", "all")
        sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        sink.set_transactional_id_prefix("p").build().get_transformer()
    raises("set_topics", KafkaSource.builder().set_bootstrap_servers("a:1").build)


def kafka_of_flink_1():
    servers = {"bootstrap.servers": "localhost:9092", "group.id": "g"}
    consumer = FlinkKafkaConsumer("t", TEXT, servers)
    consumer.set_start_from_earliest().set_start_from_latest().set_start_from_timestamp(100)
    consumer.set_start_from_group_offsets().set_commit_offsets_on_checkpoints(True)
    consumer.disable_filter_restored_partitions_with_subscribed_topics()
    assert consumer.get_produced_type() == Types.STRING()
    producer = FlinkKafkaProducer("t", TEXT, servers)
    producer.set_flush_on_checkpoint(True)
    producer.set_write_timestamp_to_kafka(True)
    producer.ignore_failures_after_transaction_timeout()
    raises("set_log_failures_only", lambda: producer.set_log_failures_only(True))


def dynamic():
    service = dynamic_kafka.SingleClusterTopicMetadataService(
        "cluster-a", {"bootstrap.servers": "localhost:9092"}
    )
    schema = dynamic_kafka.KafkaRecordDeserializationSchema.value_only(TEXT)
    for name, given in (
        ("set_stream_ids", {"a"}),
        ("set_stream_pattern", "a.*"),
        ("set_kafka_stream_subscriber", dynamic_kafka.KafkaStreamSetSubscriber({"a"})),
        ("set_kafka_stream_subscriber", dynamic_kafka.StreamPatternSubscriber("a.*")),
    ):
        builder = dynamic_kafka.DynamicKafkaSource.builder()
        getattr(builder, name)(given)
        builder.set_kafka_metadata_service(service).set_deserializer(schema)
        builder.set_value_only_deserializer(TEXT).set_group_id("g").set_client_id_prefix("c")
        builder.set_starting_offsets(KafkaOffsetsInitializer.latest())
        builder.set_properties({"fetch.min.bytes": "1"}).set_property("fetch.wait.max.ms", "9")
        builder.set_bounded(KafkaOffsetsInitializer.latest())
        assert builder.build().is_bounded()


def rabbit():
    config = (
        rabbitmq.RMQConnectionConfig.Builder()
        .set_host("h")
        .set_port(5672)
        .set_virtual_host("/")
        .set_user_name("u")
        .set_password("p")
        .set_automatic_recovery(True)
        .set_connection_timeout(1)
        .set_network_recovery_interval(2)
        .set_prefetch_count(3)
        .set_requested_channel_max(4)
        .set_requested_frame_max(5000)
        .set_requested_heartbeat(6)
        .set_topology_recovery_enabled(True)
        .build()
    )
    assert (config.get_host(), config.get_port(), config.get_virtual_host()) == ("h", 5672, "/")
    assert (config.get_user_name(), config.get_password()) == ("u", "p")
    assert (config.is_automatic_recovery(), config.is_topology_recovery()) == (True, True)
    assert config.get_connection_timeout() == 1
    assert config.get_network_recovery_interval() == 2
    assert config.get_requested_channel_max() == 4
    assert config.get_requested_frame_max() == 5000
    assert config.get_requested_heartbeat() == 6
    by_uri = rabbitmq.RMQConnectionConfig.Builder().set_uri("amqp://u:p@h:5672/").build()
    assert by_uri.get_uri() == "amqp://u:p@h:5672/"
    rabbitmq.RMQSource(by_uri, "q", True, TEXT)
    rabbitmq.RMQSink(by_uri, "q", TEXT)


def documents():
    emitter = elasticsearch.ElasticsearchEmitter.static_index("users", "id", "person")
    elasticsearch.ElasticsearchEmitter.dynamic_index("place", "id")
    for kind in (elasticsearch.Elasticsearch6SinkBuilder, elasticsearch.Elasticsearch7SinkBuilder):
        builder = kind().set_hosts(["localhost:9200"]).set_emitter(emitter)
        builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        builder.set_bulk_flush_max_actions(1).set_bulk_flush_max_size_mb(2)
        builder.set_bulk_flush_interval(1000)
        backoff = elasticsearch.FlushBackoffType.CONSTANT
        builder.set_bulk_flush_backoff_strategy(backoff, 3, 3000)
        builder.set_connection_username("ann").set_connection_password("secret")
        builder.set_connection_path_prefix("es").set_connection_request_timeout(30_000)
        builder.set_connection_timeout(31_000).set_socket_timeout(32_000).build()
        with pytest.raises(Exception, match="get_http_host_class"):
            builder.get_http_host_class()


def streams():
    properties = {"aws.region": "eu-west-1"}
    consumer = kinesis.FlinkKinesisConsumer(["s"], TEXT, properties)
    consumer.set_shard_assigner(kinesis.KinesisShardAssigner.default_shard_assigner())
    consumer.set_shard_assigner(kinesis.KinesisShardAssigner.uniform_shard_assigner())
    with pytest.raises(Exception, match="assign_timestamps_and_watermarks"):
        consumer.set_periodic_watermark_assigner(None)
    with pytest.raises(Exception, match="with_watermark_alignment"):
        consumer.set_watermark_tracker(None)
    into_stream = kinesis.KinesisStreamsSink.builder().set_stream_name("s")
    into_stream.set_partition_key_generator(kinesis.PartitionKeyGenerator.fixed())
    into_stream.set_partition_key_generator(kinesis.PartitionKeyGenerator.random())
    into_stream.set_kinesis_client_properties(properties)
    delivered = kinesis.KinesisFirehoseSink.builder().set_delivery_stream_name("s")
    delivered.set_firehose_client_properties(properties)
    for builder in (into_stream, delivered):
        builder.set_serialization_schema(TEXT).set_fail_on_error(False).set_max_batch_size(500)
        builder.set_max_in_flight_requests(50).set_max_buffered_requests(10_000)
        builder.set_max_batch_size_in_bytes(1 << 20).set_max_time_in_buffer_ms(5000)
        builder.set_max_record_size_in_bytes(1 << 20).build()


CASES = (
    json_schemas,
    csv_schemas,
    csv_files,
    avro_schemas,
    avro_files,
    bulk_files,
    row_files,
    compaction,
    file_sources,
    hybrid,
    jdbc,
    kafka,
    kafka_of_flink_1,
    dynamic,
    rabbit,
    documents,
    streams,
)


if __name__ == "__main__":
    called = set()

    def note(frame, event, _):
        if event == "call":
            called.add(frame.f_code.co_qualname)

    for case in CASES:
        sys.setprofile(note)
        try:
            case()
        finally:
            sys.setprofile(None)
    print(json.dumps(sorted(called)))
