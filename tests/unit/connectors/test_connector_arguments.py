"""Arguments of connectors with the wrong kind are rejected, with an explanation, in their call."""

import pytest
from penstock.common import SimpleStringSchema, Types
from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.http import HttpSink, HttpSource
from penstock.datastream.connectors.iceberg import IcebergSink, IcebergSource
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcLookup,
    JdbcSink,
)
from penstock.datastream.connectors.mqtt import MqttSink, MqttSource
from penstock.datastream.connectors.postgres_cdc import PostgresCdcSource
from penstock.datastream.connectors.redis import RedisLookup, RedisSink
from penstock.datastream.formats.avro import AvroSchema
from penstock.datastream.formats.avro_registry import ConfluentRegistryAvroDeserializationSchema
from penstock.errors import InvalidProgramError

ROW = Types.ROW_NAMED(["id"], [Types.LONG()])
SQLITE = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:x").build()
WEB, BROKER, REDIS = "http://host", "mqtt://host", "redis://host"


def changes(**arguments):
    given = {"url": "postgresql://h/d", "table": "t", "row_type": ROW, "slot": "s", **arguments}
    return PostgresCdcSource(**given)


def database(place, **settings):
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:{place}")
    for method, value in settings.items():
        getattr(builder, method)(value)
    return builder.build()


def into(place):
    return JdbcSink.sink("a ?", ROW, database(place))


def registry(url, **arguments):
    schema = AvroSchema.parse_string('{"type": "string"}')
    return ConfluentRegistryAvroDeserializationSchema.for_generic(schema, url, **arguments)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: HttpSource(5), "url"),
        (lambda: HttpSource(WEB, interval_ms="5"), "interval_ms"),
        (lambda: HttpSource(WEB, max_retries="2"), "max_retries"),
        (lambda: HttpSource(WEB, bounded="no"), "bounded"),
        (lambda: HttpSource(WEB, cursor=5, cursor_parameter="after"), "cursor"),
        (lambda: HttpSource(WEB, records=5), "records"),
        (lambda: HttpSource(WEB, lines="x"), "lines"),
        (lambda: HttpSource(WEB, headers="x"), "headers"),
        (lambda: HttpSource(WEB, headers={"X": 5}), "headers"),
        (lambda: HttpSink(None), "url"),
        (lambda: HttpSource("http://h:x"), "takes a URL of http or https"),
        (lambda: HttpSource("http://h:99999"), "takes a URL of http or https"),
        (lambda: HttpSource("http://h/a b"), "has to quote"),
        (lambda: HttpSource("http://h/ä"), "has to quote"),
        (lambda: HttpSink(WEB, headers={"a b": "x"}), "the header 'a b' is invalid"),
        (lambda: HttpSink(WEB, headers={"a": "x\ny"}), "the header 'a' is invalid"),
        (lambda: HttpSource(WEB, records=""), "records is a name"),
        (lambda: HttpSource(WEB, cursor="id", cursor_parameter=""), "cursor_parameter is a name"),
        (lambda: registry(5), "url"),
        (lambda: registry("http://h:x"), "takes a URL of http or https"),
        (lambda: registry(WEB, max_retries="x"), "max_retries"),
        (lambda: registry(WEB, headers={"a": 5}), "headers"),
        (lambda: HttpSink(WEB, batch_size="3"), "batch_size"),
        (lambda: HttpSink(WEB, encode="x"), "encode"),
        (lambda: MqttSource(BROKER, ["t"], 5), "client_id"),
        (lambda: MqttSource(BROKER, ["t"], "c", session_expiry_s="a"), "session_expiry_s"),
        (lambda: MqttSource("mqtt://h:x", "t", "c"), "takes a URL as mqtt://host:1883"),
        (lambda: MqttSource("mqtt://h:99999", "t", "c"), "takes a URL as mqtt://host:1883"),
        (lambda: MqttSource("mqtt://h?a=1", "t", "c"), "with 'a=1' behind"),
        (lambda: MqttSource(BROKER, 5, "c"), "topics are texts"),
        (lambda: MqttSource(BROKER, ["a/#/b"], "c"), "'#' for the last ones"),
        (lambda: MqttSource(BROKER, ["a+"], "c"), "'\\+' for a whole level"),
        (lambda: MqttSource(BROKER, ["a#"], "c"), "topics are texts"),
        (lambda: MqttSource(BROKER, ["t\0"], "c"), "topics are texts"),
        (lambda: MqttSource(BROKER, ["t" * 65_536], "c"), "topics are texts"),
        (lambda: MqttSink(BROKER, "t" * 65_536), "a topic is a text"),
        (lambda: MqttSource(BROKER, "t", "c", deserialize=len, type_info="x"), "type_info"),
        (lambda: MqttSink(BROKER, "t", timeout_ms="x"), "timeout_ms"),
        (lambda: MqttSink(BROKER, "t", retain="yes"), "retain"),
        (lambda: RedisSink(5, list), "url"),
        (lambda: RedisSink(REDIS, list, batch_size="a"), "batch_size"),
        (lambda: RedisSink("redis://h:x", list), "Port could not be cast"),
        (lambda: RedisSink("redis://h/x", list), "with the path '/x'"),
        (lambda: RedisSink("redis://h/-1", list), "the number of a database"),
        (lambda: RedisSink("redis://h/0/1", list), "with the path '/0/1'"),
        (lambda: RedisSink("unix://", list), "unix://path"),
        (lambda: RedisSink("redis://h?nosuch=5", list), "options after .*'nosuch'"),
        (lambda: RedisSink("redis://h?db=x", list), "Invalid value for 'db'"),
        (lambda: RedisLookup(REDIS, list, list, connections=1.5), "connections"),
        (lambda: JdbcSink.sink(5, ROW, SQLITE), "sql"),
        (lambda: database("sqlite:"), "path of the database must follow"),
        (lambda: database("sqlite:x", with_user_name="u"), "with_user_name: .* has no users"),
        (lambda: database("sqlite:x", with_password="p"), "with_password: .* has no users"),
        (lambda: into("postgresql://h:abc/d"), "a port is from 1 to 65535, got 'abc'"),
        (lambda: into("postgresql://h:99999/d"), "a port is from 1 to 65535, got '99999'"),
        (lambda: into("postgresql://h/d?nosuch=5"), 'URI query parameter: "nosuch"'),
        (lambda: into("postgresql:d"), "postgresql://user@host/database"),
        (lambda: JdbcLookup(" ", print, print, SQLITE), "takes a query as sql, got ' '"),
        (lambda: JdbcSink.sink("a ?", ROW, 5), "jdbc_connection_options"),
        (lambda: JdbcSink.sink("a ?", ROW, SQLITE, 5), "jdbc_execution_options"),
        (lambda: JdbcLookup(5, print, print, SQLITE), "sql"),
        (lambda: JdbcLookup("a ?", print, print, 5), "jdbc_connection_options"),
        (lambda: JdbcLookup("a ?", print, print, SQLITE, connections="x"), "connections"),
        (lambda: changes(url=5), "url"),
        (lambda: changes(url=""), "the URL of a database, got ''"),
        (lambda: changes(url="postgresql://h:abc/d"), "a port is from 1 to 65535, got 'abc'"),
        (lambda: changes(url="postgresql://h/d?nosuch=1"), 'query parameter: "nosuch"'),
        (lambda: changes(table=".t"), "takes a table as 'public.orders' or 'orders', got '.t'"),
        (lambda: changes(publication=""), "publication is a name, got ''"),
        (lambda: changes(table=5), "table"),
        (lambda: changes(slot=5), "slot"),
        (lambda: changes(publication=5), "publication"),
        (lambda: changes(snapshot="no"), "snapshot"),
        (lambda: changes(retry_timeout_ms="a"), "retry_timeout_ms"),
        (lambda: IcebergSource.for_snapshot("db.t", catalog=5), "catalog"),
        (lambda: IcebergSource.for_snapshot("db.t", "n", catalog={}), "columns"),
        (
            lambda: IcebergSource.for_appends("db.t", catalog={}, discovery_interval_ms="x"),
            "discovery_interval_ms",
        ),
        (lambda: IcebergSink("db.t", ROW, catalog=5), "catalog"),
        (lambda: IcebergSink("db.t", ROW, catalog={}, name=""), "name must name a catalog"),
        (lambda: IcebergSink("db.t", ROW, catalog={"type": "sq"}), "one of rest, .*, got 'sq'"),
        (lambda: IcebergSource.for_snapshot("db.t", [], catalog={}), "columns must be names"),
        (lambda: DeltaSource.for_snapshot("/t", []), "columns must be names, at least one"),
        (lambda: DeltaSource.for_changes("/t", ["a", "a"]), "each once .*, got .'a', 'a'."),
        (lambda: DeltaSource.for_snapshot("/t", version=-1), "numbered from 0, got -1"),
        (lambda: DeltaSink("", ROW), "a path must be a string that is not empty"),
        (lambda: DeltaSink("/t", ROW, partition_by=["id", "id"]), "a column twice"),
        (lambda: DeltaSource.for_snapshot(5), "table_uri"),
        (lambda: DeltaSource.for_snapshot("/t", "n"), "columns"),
        (lambda: DeltaSource.for_changes("/t", end_version="b"), "end_version"),
        (lambda: DeltaSink("/t", ROW, partition_by="n"), "partition_by"),
        (
            lambda: FileSource.for_record_stream_format(StreamFormat.text_line_format(), 5),
            "a path must be a string",
        ),
    ],
)
def test_an_argument_of_another_kind_is_named(make, name):
    with pytest.raises(InvalidProgramError, match=name):
        make()


def test_valid_arguments_are_accepted():
    HttpSource(WEB, headers={"X": "y"}, cursor=len, cursor_parameter="after")
    for topics in ("t", "#", "+", "a/+/b", "a/#", "+/#", "/", ["a", "b"], {"a"}):
        MqttSource(BROKER, topics, "c", schema=SimpleStringSchema())
    for url in ("redis://h", "redis://:p@h:1/", "rediss://h/3", "unix:///p?db=3", "unix://p"):
        RedisSink(url, list)
    DeltaSink("/t", Types.ROW_NAMED(["id", "n"], [Types.LONG()] * 2), partition_by=("id",))
    JdbcSink.sink("a ?", ROW, SQLITE, None)
