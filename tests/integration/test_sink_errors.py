"""Errors of sinks for a record that does not fit name the destination."""

import re

import pytest
from penstock.common import Encoder, Row, SimpleStringSchema, Types
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.http import HttpSink
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from penstock.datastream.connectors.kafka import (
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from penstock.datastream.connectors.mqtt import MqttSink
from penstock.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink
from penstock.datastream.formats.avro import (
    AvroBulkWriters,
    AvroRowSerializationSchema,
    AvroSchema,
)
from penstock.datastream.formats.csv import (
    CsvBulkWriters,
    CsvRowSerializationSchema,
    CsvSchema,
)
from penstock.datastream.formats.json import JsonRowSerializationSchema
from penstock.datastream.formats.orc import OrcBulkWriters
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.errors import FormatError, SinkError, WrongArgumentError
from pyiceberg.catalog import load_catalog
from support.environments import in_process

ROW = Types.ROW_NAMED(["n"], [Types.LONG()])
AVRO = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}'
CSV = CsvSchema.builder().add_number_column("n").build()
JSON = JsonRowSerializationSchema.builder().with_type_info(ROW).build()


class JsonLines(Encoder):
    def __init__(self):
        pass

    def encode(self, value):
        return JSON.serialize(value)


def files(writers):
    return lambda folder: FileSink.for_bulk_format(f"{folder}/out", writers).build()


def kafka(schema, *, selects=False):
    """Return a sink that contacts no broker before its first record."""
    builder = KafkaRecordSerializationSchema.builder().set_value_serialization_schema(schema)
    if selects:
        builder.set_topic_selector(lambda _: "orders")
    else:
        builder.set_topic("orders")
    built = builder.build()
    sink = KafkaSink.builder().set_bootstrap_servers("127.0.0.1:1").set_record_serializer(built)
    return lambda _: sink.build()


def iceberg(folder):
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    load_catalog("default", **catalog).create_namespace("shop")
    return IcebergSink("shop.orders", ROW, catalog=catalog)


BROKER = RMQConnectionConfig.Builder().set_uri("amqp://127.0.0.1:1").build()
FILE = "/out/.*part-"
SINKS = {
    "parquet": (files(ParquetBulkWriters.for_row_type(ROW)), FILE),
    "orc": (files(OrcBulkWriters.for_row_type(ROW)), FILE),
    "avro": (files(AvroBulkWriters.for_generic_record(AvroSchema.parse_string(AVRO))), FILE),
    "csv": (files(CsvBulkWriters.for_schema(CSV)), FILE),
    "rows": (lambda at: FileSink.for_row_format(f"{at}/out", JsonLines()).build(), FILE),
    "kafka json": (kafka(JSON), "the topic orders"),
    "kafka csv": (kafka(CsvRowSerializationSchema.Builder(ROW).build()), "the topic orders"),
    "kafka avro": (
        kafka(AvroRowSerializationSchema(avro_schema_string=AVRO), selects=True),
        "the topic orders",
    ),
    "delta": (lambda folder: DeltaSink(f"{folder}/out", ROW), "the table .*/out"),
    "iceberg": (iceberg, "the table shop.orders"),
    "mqtt": (lambda _: MqttSink("mqtt://127.0.0.1:1", "orders", schema=JSON), "the topic 'orders'"),
    "rabbitmq": (lambda _: RMQSink(BROKER, "orders", JSON), "the queue 'orders'"),
    "http": (
        lambda _: HttpSink(
            "http://127.0.0.1:1/orders", encode=lambda rows: JSON.serialize(rows[0])
        ),
        "http://127.0.0.1:1/orders",
    ),
}


@pytest.mark.parametrize("name", SINKS)
def test_names_what_was_to_be_written(name, tmp_path):
    env = in_process()
    make, place = SINKS[name]
    row = {"n": "no number"} if name == "avro" else Row(n="no number")
    rows = env.from_collection([0], Types.LONG()).map(lambda _: row, Types.PICKLED_BYTE_ARRAY())
    sink = make(tmp_path)
    rows.add_sink(sink) if isinstance(sink, RMQSink) else rows.sink_to(sink)
    with pytest.raises(FormatError, match=r"the field 'n'") as raised:
        env.execute()
    notes = " ".join(raised.value.__notes__)
    assert re.search(f"It was to be written to .*{place}", notes), notes


def test_a_row_without_a_field_names_the_statement(tmp_path):
    env = in_process()
    url = f"jdbc:sqlite:{tmp_path}/db"
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()
    rows = env.from_collection([0], Types.LONG()).map(lambda _: Row(m=1))
    rows.add_sink(JdbcSink.sink("INSERT INTO orders VALUES (?)", ROW, options))
    with pytest.raises(FormatError, match=r"JdbcSink: .*'n'") as raised:
        env.execute()
    place = f"It was to be written to {url} by 'INSERT INTO orders VALUES (?)'."
    assert place in raised.value.__notes__


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (("orders", 5), "got 5, None"),
        (("orders", b"", 5), "got b'', 5"),
        (("orders", b"", None, 5), "'int' object is not iterable"),
        (("orders", b"", None, None, "x"), "partition and timestamp whole numbers"),
        (("orders", b"", None, None, None, "x"), "partition and timestamp whole numbers"),
    ],
)
def test_the_error_of_an_invalid_record_names_the_topic(record, words):
    assert words in refusal_of(record, "cannot write to orders of the brokers")


@pytest.mark.parametrize(
    ("partition", "timestamp", "words"),
    [
        (-1, None, "the partition of a KafkaProducerRecord is 0 or more, or None, got -1"),
        (None, -5, "the timestamp of a KafkaProducerRecord is 0 or more, or None, got -5"),
    ],
)
def test_records_that_java_rejects_are_rejected(partition, timestamp, words):
    """The library interprets -1 as any partition, and writes times before 1970."""
    record = ("orders", b"", None, None, partition, timestamp)
    assert words in refusal_of(record, "cannot write to orders: ")


@pytest.mark.parametrize("topic", ["", "a b", "a/b", "x" * 250, None, 5, ["orders"]])
def test_an_invalid_topic_is_rejected_at_once(topic):
    """The library would try until the record times out."""
    record = (topic, b"")
    assert "names of topics" in refusal_of(record, "KafkaSink: a record takes")


@pytest.mark.parametrize("charset", ["UTF-8", "latin-1"])
@pytest.mark.parametrize(
    ("element", "error", "words"),
    [
        (5, WrongArgumentError, "SimpleStringSchema.serialize: element must be a string, got 5"),
        ("\ud800", UnicodeEncodeError, "codec can't encode"),
    ],
)
def test_the_error_of_an_invalid_text_names_the_topic(charset, element, error, words):
    """In UTF-8, too, where a function of the interpreter encodes."""
    env = in_process()
    schema = KafkaRecordSerializationSchema.builder().set_topic("orders")
    schema.set_value_serialization_schema(SimpleStringSchema(charset))
    sink = KafkaSink.builder().set_bootstrap_servers("127.0.0.1:1")
    elements = env.from_collection([element], Types.PICKLED_BYTE_ARRAY())
    elements.sink_to(sink.set_record_serializer(schema.build()).build())
    with pytest.raises(error, match=words) as raised:
        env.execute()
    assert "It was to be written to the topic orders." in raised.value.__notes__


def refusal_of(record, begins):
    env = in_process()
    schema = KafkaRecordSerializationSchema.of(lambda _: KafkaProducerRecord(*record))
    sink = KafkaSink.builder().set_bootstrap_servers("127.0.0.1:1").set_record_serializer(schema)
    env.from_collection([0], Types.LONG()).sink_to(sink.build())
    with pytest.raises(SinkError, match=begins) as raised:
        env.execute()
    return str(raised.value)
