"""Sinks that apply change rows by key: each ends with the rows that a dictionary has.

Method: random changes of few keys, several of them in each batch and from one subtask to several
writers; a model applies them one after the other.
"""

import json
import random
import sqlite3

import deltalake
import pytest
from penstock.common import Row, RowKind, Types
from penstock.common.serialization import SimpleStringSchema
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema
from penstock.datastream.formats.json import JsonRowSerializationSchema
from penstock.errors import FormatError, InvalidProgramError
from pyiceberg.catalog import load_catalog
from support.environments import in_process

ORDER = Types.ROW_NAMED(["id", "shop", "item"], [Types.LONG(), Types.STRING(), Types.STRING()])
KEY = ["shop", "id"]


def change(kind, number, shop, item=None):
    row = Row.of_kind(kind, number, shop, item)
    row.set_field_names(["id", "shop", "item"])
    return row


def random_changes(seed, count=400):
    """Return changes as of an updating query, and the resulting rows."""
    chance, rows, made = random.Random(seed), {}, []
    for step in range(count):
        number, shop = chance.randrange(5), chance.choice("ab")
        item, old = f"item{step}", rows.get((shop, number))
        if old is None:
            made.append(change(RowKind.INSERT, number, shop, item))
        elif chance.random() < 0.3:
            # As a source without old rows sends it: only with the key.
            made.append(change(RowKind.DELETE, number, shop))
            del rows[shop, number]
            continue
        elif chance.random() < 0.3:
            # The row moves to another key, whose row it replaces.
            made.append(change(RowKind.UPDATE_BEFORE, number, shop, old))
            del rows[shop, number]
            number = chance.randrange(5)
            made.append(change(RowKind.UPDATE_AFTER, number, shop, item))
        else:
            made.append(change(RowKind.UPDATE_BEFORE, number, shop, old))
            made.append(change(RowKind.UPDATE_AFTER, number, shop, item))
        rows[shop, number] = item
    return made, {(number, shop, item) for (shop, number), item in rows.items()}


def write(changes, sink):
    """Write changes from one subtask by several writers."""
    env = in_process(3)
    rows = env.from_collection(changes, ORDER).set_parallelism(1)
    rows.add_sink(sink) if isinstance(sink, JdbcSink) else rows.sink_to(sink)
    env.execute()


@pytest.fixture
def orders(tmp_path):
    """Return the URL of a table of SQLite, and a function that reads it."""
    path = tmp_path / "orders.db"

    def execute(sql):
        connection = sqlite3.connect(path)
        try:
            with connection:
                return connection.execute(sql).fetchall()
        finally:
            connection.close()

    execute("CREATE TABLE orders (id INTEGER, shop TEXT, item TEXT, PRIMARY KEY (id, shop))")
    return f"jdbc:sqlite:{path}", lambda: set(execute("SELECT id, shop, item FROM orders"))


def options_of(url):
    return JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()


@pytest.mark.parametrize("batch_size", [1, 7, 5000])
def test_a_database_has_the_last_row_of_each_key(orders, batch_size):
    url, rows = orders
    changes, expected = random_changes(batch_size)
    batches = JdbcExecutionOptions.builder().with_batch_size(batch_size).build()
    # A job that fails writes more than its last checkpoint has seen, also half of an update.
    for part in (changes[:260], changes[240:270], changes[255:]):
        env = in_process(1)  # SQLite allows one writer
        sink = JdbcSink.upsert("orders", ORDER, KEY, options_of(url), batches)
        env.from_collection(part, ORDER).add_sink(sink)
        env.execute()
    assert rows() == expected


def test_a_deletion_before_the_insertion_leaves_the_row(orders):
    url, rows = orders
    env = in_process(1)
    sink = JdbcSink.upsert("orders", ORDER, KEY, options_of(url))
    changes = [change(RowKind.DELETE, 1, "a"), change(RowKind.INSERT, 1, "a", "x")]
    env.from_collection(changes, ORDER).add_sink(sink)
    env.execute()
    assert rows() == {(1, "a", "x")}


def test_wrong_arguments_of_jdbc_are_refused(orders):
    url = options_of(orders[0])
    for make, words in (
        (lambda: JdbcSink.upsert("orders", ORDER, "id", url), "names of key columns, got 'id'"),
        (lambda: JdbcSink.upsert("orders", ORDER, [], url), "names of key columns"),
        (lambda: JdbcSink.upsert("orders", ORDER, ["id", "id"], url), "twice"),
        (lambda: JdbcSink.upsert("orders", ORDER, ["idd"], url), "no key column 'idd'.*id"),
        (lambda: JdbcSink.upsert("orders", Types.LONG(), ["id"], url), "row type"),
        (
            lambda: JdbcSink.upsert(
                "orders", ORDER, KEY, JdbcConnectionOptions.of(sqlite3.connect)
            ),
            "URL that names one of them",
        ),
    ):
        with pytest.raises(InvalidProgramError, match=words):
            make()


def test_a_key_of_none_is_refused(orders):
    sink = JdbcSink.upsert("orders", ORDER, KEY, options_of(orders[0]))
    with pytest.raises(FormatError, match="key column 'shop' is None"):
        write([change(RowKind.INSERT, 1, None)], sink)


def records_of(*builder_calls, topic="orders"):
    builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
    builder.set_value_serialization_schema(
        JsonRowSerializationSchema.builder().with_type_info(ORDER).build()
    )
    for call in builder_calls:
        call(builder)
    return builder.build()


def test_kafka_gets_upserts_and_tombstones():
    schema = records_of(lambda builder: builder.set_upsert_key("shop", "id"))
    changes, expected = random_changes(3)
    log = {}
    for row in changes:
        record = schema.serialize_record(row)
        assert record.topic == "orders"
        log[record.key] = record.value
    found = [json.loads(value) for value in log.values() if value is not None]
    assert {(row["id"], row["shop"], row["item"]) for row in found} == expected
    assert json.loads(next(iter(log))).keys() == {"shop", "id"}
    assert None in log.values()


def test_kafka_takes_another_schema_of_keys():
    class Joined(SimpleStringSchema):
        def serialize(self, value):
            return f"{value.shop}-{value.id}".encode()

    schema = records_of(
        lambda builder: builder.set_upsert_key("shop", "id"),
        lambda builder: builder.set_key_serialization_schema(Joined()),
    )
    tombstone = schema.serialize_record(change(RowKind.DELETE, 1, "a"))
    assert (tombstone.key, tombstone.value) == (b"a-1", None)
    assert schema.key_of_records()(change(RowKind.INSERT, 1, "a", "tea")) == ("a", 1)
    with pytest.raises(InvalidProgramError, match="names of key columns"):
        records_of(lambda builder: builder.set_upsert_key())


class Request:
    """A request of a committable, which records that it was committed before."""

    def __init__(self, committable):
        self.committable = committable
        self.is_known = False

    def get_committable(self):
        return self.committable

    def signal_already_committed(self):
        self.is_known = True


class DeltaOrders:
    """A table of Delta Lake."""

    def __init__(self, folder):
        self.folder = str(folder / "orders")

    def sink(self, **settings):
        return DeltaSink(self.folder, ORDER, **{"key": KEY, "partition_by": ["shop"], **settings})

    def rows(self):
        return deltalake.DeltaTable(self.folder).to_pyarrow_table().to_pylist()


class IcebergOrders:
    """A table of Apache Iceberg."""

    def __init__(self, folder):
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        self.catalog = load_catalog("lake", **self.properties)
        self.catalog.create_namespace("db")

    def sink(self, **settings):
        return IcebergSink(
            "db.orders", ORDER, catalog=self.properties, name="lake", **{"key": KEY, **settings}
        )

    def rows(self):
        return self.catalog.load_table("db.orders").scan().to_arrow().to_pylist()


@pytest.fixture(params=[DeltaOrders, IcebergOrders])
def lake(request, tmp_path):
    return request.param(tmp_path)


def shown(rows):
    return sorted((row["id"], row["shop"], row["item"]) for row in rows)


def test_a_lake_has_the_last_row_of_each_key(lake):
    changes, expected = random_changes(5)
    write(changes, lake.sink())
    assert shown(lake.rows()) == sorted(expected)


def test_changes_of_several_checkpoints_are_merged_once_and_in_order(lake):
    """Also together, as after a failure, and again, as from an older checkpoint."""
    sink = lake.sink()
    writer, pieces = sink.create_writer(None), []
    for rows in (
        [change(RowKind.INSERT, 1, "a", "x"), change(RowKind.INSERT, 2, "a", "y")],
        [change(RowKind.UPDATE_BEFORE, 1, "a", "x"), change(RowKind.UPDATE_AFTER, 1, "a", "z")],
        [change(RowKind.DELETE, 2, "a"), change(RowKind.INSERT, 3, "b", None)],
        [change(RowKind.INSERT, 4, "b", "w"), change(RowKind.DELETE, 4, "b")],
    ):
        for row in rows:
            writer.write(row, None)
        pieces.extend(writer.prepare_commit())
    assert list(writer.prepare_commit()) == []
    assert len(pieces) == 4
    for known, requests, expected in (
        (0, pieces[:1], [(1, "a", "x"), (2, "a", "y")]),
        (1, pieces[:3], [(1, "a", "z"), (3, "b", None)]),
        (2, pieces[:2], [(1, "a", "z"), (3, "b", None)]),
        (0, pieces[3:], [(1, "a", "z"), (3, "b", None)]),
    ):
        made = [Request(piece) for piece in requests]
        sink.create_committer(None).commit(made)
        assert sum(request.is_known for request in made) == known
        assert shown(lake.rows()) == expected


def test_a_lake_has_no_other_key(lake):
    with pytest.raises(InvalidProgramError, match=r"no key column 'shp'.*shop"):
        lake.sink(key=["shp"])
