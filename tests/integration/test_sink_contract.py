"""The scenarios that all sinks share, in the process of the test.

Those of Kafka and RabbitMQ, whose servers take seconds to start, are with their other tests.
"""

import http.server
import json
import sqlite3
import threading

import deltalake
import fastavro
import pyarrow as pa
import pytest
from integration.test_iceberg import Lake
from integration.test_mqtt import Client as MqttClient
from integration.test_mqtt import Mosquitto
from integration.test_redis import RedisServer
from penstock.common import Row, Types
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.elasticsearch import (
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
)
from penstock.datastream.connectors.file_system import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    StreamingFileSink,
)
from penstock.datastream.connectors.http import HttpSink
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from penstock.datastream.connectors.mqtt import MqttSink
from penstock.datastream.connectors.redis import RedisSink
from penstock.datastream.formats.arrow import ArrowBulkWriters
from penstock.datastream.formats.avro import AvroBulkWriters, AvroSchema
from penstock.datastream.formats.csv import CsvBulkWriters, CsvSchema
from penstock.datastream.formats.orc import OrcBulkWriters
from penstock.datastream.formats.parquet import ParquetBulkWriters
from pyarrow import dataset
from support.elasticsearch import ElasticNode
from support.patience import PATIENCE_S
from support.sink_scenarios import after_a_failure, once_at_another_parallelism, texts

ROW = Types.ROW_NAMED(["n"], [Types.LONG()])
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'


def rows(stream):
    return stream.map(lambda n: Row(n=n), ROW)


# ---- places, each with `write`, `read` and `close` --------------------------------------------


class Files:
    """Files with their final names; unfinished ones start with a dot."""

    def __init__(self, folder):
        self.folder = folder / "out"

    def parts(self):
        return [path for path in self.folder.rglob("part-*") if path.is_file()]

    def write(self, stream):
        sink = FileSink.for_row_format(str(self.folder), Encoder.simple_string_encoder())
        return texts(stream).sink_to(sink.build())

    def read(self):
        return [int(line) for path in self.parts() for line in path.read_text().splitlines()]

    def close(self):
        pass


class OlderFiles(Files):
    def write(self, stream):
        encoder = Encoder.simple_string_encoder()
        return texts(stream).add_sink(
            StreamingFileSink.for_row_format(str(self.folder), encoder).build()
        )


class FewFiles(Files):
    """Files that are merged before they get their names."""

    def write(self, stream):
        builder = FileSink.for_row_format(str(self.folder), Encoder.simple_string_encoder())
        strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
        builder.enable_compact(strategy, FileCompactor.concat_file_compactor())
        return texts(stream).sink_to(builder.build())

    def parts(self):
        return [path for path in self.folder.rglob("*part-*") if path.name[0] != "."]


class BulkFiles(Files):
    def write(self, stream):
        return rows(stream).sink_to(
            FileSink.for_bulk_format(str(self.folder), self.writers()).build()
        )


class CsvFiles(BulkFiles):
    def writers(self):
        return CsvBulkWriters.for_schema(CsvSchema.builder().add_number_column("n").build())


class AvroFiles(BulkFiles):
    def write(self, stream):
        dictionaries = stream.map(lambda n: {"n": n})
        sink = FileSink.for_bulk_format(str(self.folder), self.writers())
        return dictionaries.sink_to(sink.build())

    def writers(self):
        return AvroBulkWriters.for_generic_record(AvroSchema.parse_string(AVRO))

    def read(self):
        found = []
        for path in self.parts():
            with path.open("rb") as file:
                found += [record["n"] for record in fastavro.reader(file)]
        return found


class ColumnFiles(BulkFiles):
    def read(self):
        files = [str(path) for path in self.parts()]
        return dataset.dataset(files, format=self.format).to_table()["n"].to_pylist()


class ParquetFiles(ColumnFiles):
    format = "parquet"

    def writers(self):
        return ParquetBulkWriters.for_row_type(ROW)


class OrcFiles(ColumnFiles):
    format = "orc"

    def writers(self):
        return OrcBulkWriters.for_row_type(ROW)


class ArrowFiles(ColumnFiles):
    format = "arrow"

    def writers(self):
        return ArrowBulkWriters.for_row_type(ROW)


class Delta:
    def __init__(self, folder):
        self.path = str(folder / "delta")

    def write(self, stream):
        return rows(stream).sink_to(DeltaSink(self.path, ROW))

    def read(self):
        return pa.table(deltalake.DeltaTable(self.path).to_pyarrow_table())["n"].to_pylist()

    def close(self):
        pass


class Iceberg:
    def __init__(self, folder):
        self.lake = Lake(folder)

    def write(self, stream):
        return rows(stream).sink_to(self.lake.sink(ROW))

    def read(self):
        return [row["n"] for row in self.lake.rows()]

    def close(self):
        self.lake.catalog.engine.dispose()


class Sqlite:
    """A table without a key, which shows duplicates."""

    statement = "INSERT INTO t (n) VALUES (?)"

    def __init__(self, folder):
        self.path = folder / "db"
        self.execute("CREATE TABLE t (n INTEGER)")

    def execute(self, sql):
        connection = sqlite3.connect(self.path)
        try:
            with connection:
                return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def write(self, stream):
        options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        return rows(stream).add_sink(
            JdbcSink.sink(
                self.statement,
                ROW,
                options.with_url(f"jdbc:sqlite:{self.path}").build(),
                JdbcExecutionOptions.builder().with_batch_size(100).build(),
            )
        )

    def read(self):
        return [n for (n,) in self.execute("SELECT n FROM t ORDER BY rowid")]

    def close(self):
        pass


class Upserts(Sqlite):
    """A table whose SQL replaces by key, which makes it exactly-once."""

    def __init__(self, folder):
        super().__init__(folder)
        self.execute("CREATE UNIQUE INDEX numbers ON t (n)")

    statement = "INSERT INTO t (n) VALUES (?) ON CONFLICT (n) DO UPDATE SET n = excluded.n"


class Redis:
    def __init__(self, _):
        self.server = RedisServer()

    def write(self, stream):
        return stream.sink_to(
            RedisSink(self.server.url, lambda n: ("RPUSH", "ns", n), batch_size=100)
        )

    def read(self):
        return list(map(int, self.server.ask("LRANGE", "ns", 0, -1)))

    def close(self):
        self.server.stop()


class Mqtt:
    def __init__(self, folder):
        self.broker = Mosquitto(folder)
        self.client = MqttClient(self.broker, topic="open/ns")

    def write(self, stream):
        return texts(stream).sink_to(MqttSink(self.broker.url, "open/ns"))

    def read(self):
        # The broker forwards acknowledged messages before it forwards later ones.
        self.client.publish("open/ns", ["end"])
        assert self.client.has("end", PATIENCE_S)
        return [int(payload) for _, payload, _ in self.client.received[:-1]]

    def close(self):
        self.client.close()
        self.broker.stop()


class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.server.taken += json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Webhook:
    def __init__(self, _):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self.server.taken = []
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def write(self, stream):
        return stream.sink_to(HttpSink(f"http://127.0.0.1:{self.server.server_port}/"))

    def read(self):
        return self.server.taken

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Elastic:
    """Documents with ids, so that repeated ones are equal."""

    def __init__(self, _):
        self.node = ElasticNode()

    def write(self, stream):
        emitter = ElasticsearchEmitter.static_index("ns", "n")
        builder = Elasticsearch7SinkBuilder().set_hosts(self.node.host).set_emitter(emitter)
        return rows(stream).sink_to(builder.set_bulk_flush_max_actions(100).build())

    def read(self):
        return [document["n"] for document in self.node.of_index("ns").values()]

    def close(self):
        self.node.stop()


EXACT = [
    Files,
    OlderFiles,
    FewFiles,
    CsvFiles,
    AvroFiles,
    ParquetFiles,
    OrcFiles,
    ArrowFiles,
    Delta,
    Iceberg,
    Upserts,
    Elastic,
]
AT_LEAST_ONCE = [Sqlite, Redis, Mqtt, Webhook]

#: Sinks whose reader sees an order, if a single subtask writes.
ORDERED = AT_LEAST_ONCE


@pytest.fixture(params=EXACT + AT_LEAST_ONCE, ids=lambda kind: kind.__name__)
def place(request, tmp_path):
    made = request.param(tmp_path)
    yield made
    made.close()


def test_each_record_once_at_another_parallelism(place, tmp_path):
    once_at_another_parallelism(place, tmp_path, ordered=type(place) in ORDERED)


def test_each_record_after_a_failure(place):
    after_a_failure(place, exact=type(place) in EXACT, ordered=type(place) in ORDERED)
