"""MongoSink and MongoCdcSource with pymongo, against a server that speaks its wire protocol."""

import datetime
import itertools
from decimal import Decimal

import bson
import pymongo
import pytest
from penstock.common import Row, RowKind, Types, WatermarkStrategy
from penstock.datastream.connectors.mongodb import MongoCdcSource, MongoSink
from penstock.errors import (
    FormatError,
    InvalidProgramError,
    SinkError,
    SourceError,
    UndecodableRecordError,
)
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import ValidationException
from support.environments import in_process
from support.mongo_server import MongoServer
from support.patience import PATIENCE_S

ITEM = Types.ROW_NAMED(["_id", "n"], [Types.STRING(), Types.LONG()])


@pytest.fixture
def server():
    made = MongoServer()
    yield made
    made.stop()


@pytest.fixture
def items(server):
    with pymongo.MongoClient(server.uri) as client:
        yield client.shop.items


def write(server, *records, **settings):
    """Write records in this thread."""
    settings = {"retry_delay_ms": 1, "batch_interval_ms": 0, **settings}
    writer = MongoSink(server.uri, "shop", "items", **settings).create_writer(None)
    try:
        for record in records:
            writer.write(record, None)
        writer.flush(False)
    finally:
        writer.close()


def test_documents_in_batches(server):
    env = in_process()
    rows = [Row(_id=f"k{n % 4}", n=n) for n in range(10)]
    sink = MongoSink(server.uri, "shop", "items", batch_size=4, batch_interval_ms=0)
    env.from_collection(rows, ITEM).sink_to(sink)
    env.execute()
    assert server.documents("items") == [
        {"_id": "k0", "n": 8},
        {"_id": "k1", "n": 9},
        {"_id": "k2", "n": 6},
        {"_id": "k3", "n": 7},
    ]
    assert server.commands.count("update") == 3


def changes(*rows):
    made = [Row.of_kind(kind, key, n) for kind, key, n in rows]
    for row in made:
        row.set_field_names(["key", "n"])
    return made


def test_rows_with_kinds_replicate_a_table(server):
    rows = changes(
        (RowKind.INSERT, "a", 1),
        (RowKind.INSERT, "b", 2),
        (RowKind.UPDATE_BEFORE, "a", 1),
        (RowKind.UPDATE_AFTER, "a", 3),
        (RowKind.DELETE, "b", None),
    )
    write(server, *rows, key="key")
    assert server.documents("items") == [{"_id": "a", "key": "a", "n": 3}]


def test_old_rows_are_deleted_unless_they_are_replaced(server):
    rows = changes(
        (RowKind.INSERT, "a", 1),
        (RowKind.INSERT, "c", 2),
        (RowKind.UPDATE_BEFORE, "a", 1),
        (RowKind.UPDATE_AFTER, "d", 1),
        (RowKind.DELETE, "e", 5),
        (RowKind.INSERT, "e", 5),
        (RowKind.UPDATE_BEFORE, "c", 2),
    )
    write(server, *rows, key="key")
    found = server.documents("items")
    assert sorted(one["key"] for one in found) == ["d", "e"]


def test_values_that_bson_lacks_are_written_as_the_nearest(server):
    day = datetime.date(2024, 5, 6)
    write(server, {"_id": 1, "d": day, "p": Decimal("1.50"), "t": datetime.time(7, 8)}, {"n": 1})
    first, second = server.documents("items")
    moment = datetime.datetime(2024, 5, 6)
    assert first == {"_id": 1, "d": moment, "p": bson.Decimal128("1.50"), "t": "07:08:00"}
    assert isinstance(second["_id"], bson.ObjectId)


def test_operations_of_the_program_s_own(server):
    def counted(word):
        return pymongo.UpdateOne({"_id": word}, {"$inc": {"n": 1}}, upsert=True)

    def counted_twice(word):
        yield counted(word)
        yield counted("all")

    write(server, "a", "b", "a", write=counted)
    assert server.documents("items") == [{"_id": "a", "n": 2}, {"_id": "b", "n": 1}]
    write(server, "b", write=counted_twice)
    assert server.documents("items")[1:] == [{"_id": "all", "n": 1}, {"_id": "b", "n": 2}]


@pytest.mark.parametrize("failing", [[None], [112], [None, 112]])
def test_temporary_failures_are_retried(server, failing):
    server.failing = list(failing)
    write(server, {"_id": 1}, {"_id": 2, "n": 5})
    assert server.documents("items") == [{"_id": 1}, {"_id": 2, "n": 5}]
    assert server.failing == []


@pytest.mark.parametrize(
    ("failing", "settings", "words"),
    [
        ([121], {}, r"rejects UpdateOne.* with code 121: told to"),
        ([11_000], {}, "code 11000"),
        ([112, 112], {"max_retries": 1}, "did not accept 1 of 1 entries, tried 2 times: code 112"),
        ([None], {"max_retries": 0}, "tried 1 times: AutoReconnect"),
    ],
)
def test_a_rejected_operation_fails_the_job(server, failing, settings, words):
    server.failing = failing
    with pytest.raises(SinkError, match=words) as raised:
        write(server, {"_id": 1}, **settings)
    assert "the collection shop.items of mongodb://127.0.0.1" in str(raised.value)


@pytest.mark.parametrize(
    ("record", "settings", "words"),
    [
        (5, {}, "5 has no fields"),
        ({"n": 1}, {"key": "k"}, "no value of the key 'k'"),
        ({"_id": 1, "n": 1 << 70}, {}, "8-byte ints"),
    ],
)
def test_a_record_that_is_no_document_is_an_error(server, record, settings, words):
    with pytest.raises(FormatError, match=words):
        write(server, record, **settings)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MongoSink("http://h", "d", "c"), "takes a URI as mongodb://"),
        (lambda: MongoSink("mongodb://h:x", "d", "c"), "invalid URI"),
        (lambda: MongoSink("mongodb://h", "", "c"), "names of a database and a collection"),
        (lambda: MongoSink("mongodb://h", "d", "c", batch_size=0), "batch_size must be at least"),
        (lambda: MongoSink("mongodb://h", "d", "c", key=""), "key is the name of a field"),
        (lambda: MongoSink("mongodb://h", "d", "c", key="k", write=len), "replaces key"),
        (lambda: MongoCdcSource("mongodb://h", "d", "c", 5), "row type with the field '_id'"),
        (lambda: MongoCdcSource("mongodb://h", "d", "c", ITEM, timeout_ms=0), "timeout_ms"),
    ],
)
def test_wrong_arguments_are_errors(make, words):
    with pytest.raises(InvalidProgramError, match=words):
        make()


# ---- the source -------------------------------------------------------------------------------


def shown(row):
    return f"{row.get_row_kind()} {row[0]} {row[1]}"


class Output:
    def __init__(self):
        self.records, self.rows = [], []

    def collect(self, row, timestamp=None):
        self.records.append(row)
        self.rows.append(shown(row))


class Context:
    def send_split_request(self):
        pass


@pytest.fixture
def reader_of(server):
    """Create readers of sources that start, or continue with splits."""
    made = []

    def make(kind=ITEM, splits=None, **settings):
        source = MongoCdcSource(server.uri, "shop", "items", kind, **settings)
        made.append(source.create_reader(Context()))
        made[-1].add_splits(splits or [source.first_split()])
        return made[-1]

    yield make
    for reader in made:
        reader.close()


def read(reader, holds, output=None):
    """Poll until a condition holds; return the rows."""
    output = output or Output()
    while not holds(output.rows):
        reader.is_available().result(PATIENCE_S)
        reader.poll_next(output)
    return output.rows


def test_documents_and_then_their_changes(server, items):
    items.insert_many([{"_id": f"k{n:03}", "n": n} for n in range(150)])
    env = in_process()
    source = MongoCdcSource(server.uri, "shop", "items", ITEM)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "items")
    with stream.execute_and_collect() as rows:
        found = [shown(row) for row in itertools.islice(rows, 150)]
        assert found == [f"+I k{n:03} {n}" for n in range(150)]
        items.insert_one({"_id": "new", "n": 5.0})
        items.update_one({"_id": "new"}, {"$set": {"n": 6}})
        items.delete_one({"_id": "k000"})
        server.drop_connections()
        with pymongo.MongoClient(server.uri) as another:
            another.shop.items.insert_one({"_id": "last"})
        found = [shown(row) for row in itertools.islice(rows, 4)]
    assert found == ["+I new 5", "+U new 6", "-D k000 None", "+I last None"]


def test_changes_alone(server, items, reader_of):
    items.insert_one({"_id": "old", "n": 1})
    reader = reader_of(snapshot=False)
    read(reader, lambda _: reader.snapshot_state(1)[0].token is not None)
    items.insert_one({"_id": "new", "n": 2})
    assert read(reader, bool) == ["+I new 2"]


def test_a_dropped_collection_ends_the_job(items, reader_of):
    items.insert_one({"_id": "a", "n": 1})
    reader = reader_of()
    assert read(reader, bool) == ["+I a 1"]
    items.drop()
    with pytest.raises(SourceError, match="ended with 'drop'"):
        read(reader, bool)


@pytest.mark.parametrize("value", ["x", 1.5, 1 << 40])
def test_a_value_of_another_type_is_an_error(items, reader_of, value):
    items.insert_one({"_id": "a", "n": value})
    kind = Types.ROW_NAMED(["_id", "n"], [Types.STRING(), Types.INT()])
    with pytest.raises(UndecodableRecordError, match="field 'n' of the document with _id 'a'"):
        read(reader_of(kind), bool)


def test_fields_of_every_type(items, reader_of):
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
    number = bson.ObjectId("65f000000000000000000001")
    items.insert_one(
        {
            "_id": number,
            "price": bson.Decimal128("1.50"),
            "at": moment,
            "day": moment,
            "names": ["a", None],
            "inner": {"x": 1, "y": {"z": [1, 2]}},
            "raw": b"ab",
        }
    )
    inner = Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.STRING()])
    fields = {
        "_id": Types.STRING(),
        "price": Types.BIG_DEC(),
        "at": Types.TIMESTAMP_LTZ(),
        "day": Types.SQL_DATE(),
        "names": Types.LIST(Types.STRING()),
        "inner": inner,
        "raw": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    }
    output = Output()
    read(reader_of(Types.ROW_NAMED([*fields], [*fields.values()])), bool, output)
    (row,) = output.records
    assert list(row)[:5] == [str(number), Decimal("1.50"), moment, moment.date(), ["a", None]]
    assert list(row.inner) == [1, '{"z": [1, 2]}']
    assert bytes(row.raw) == b"ab"


# ---- checkpoints ------------------------------------------------------------------------------


def test_a_checkpoint_holds_the_position(server, items, reader_of):
    items.insert_many([{"_id": f"k{n:03}", "n": n} for n in range(250)])
    first = reader_of()
    before = read(first, lambda rows: len(rows) >= 90)
    among_documents = first.snapshot_state(1)
    first.close()
    items.update_one({"_id": "k000"}, {"$set": {"n": -1}})
    second = reader_of(splits=among_documents)
    after = read(second, lambda rows: "+U k000 -1" in rows)
    assert before + after == [f"+I k{n:03} {n}" for n in range(250)] + ["+U k000 -1"]
    in_changes = second.snapshot_state(2)
    second.close()
    items.delete_one({"_id": "k001"})
    assert read(reader_of(splits=in_changes), bool) == ["-D k001 None"]
    # Meanwhile the server has dropped the changes after the checkpoint.
    server.first_token = 10_000
    with pytest.raises(SourceError, match="no longer hold the changes"):
        read(reader_of(splits=in_changes), bool)


# ---- tables -----------------------------------------------------------------------------------


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "1")
    return made


def declare(tables, name, columns, **options):
    given = {"connector": "mongodb", "database": "shop", "collection": "items", **options}
    pairs = ", ".join(f"'{key.replace('__', '.')}' = '{value}'" for key, value in given.items())
    tables.execute_sql(f"CREATE TABLE {name} {columns} WITH ({pairs})")


def rows_of(tables, query):
    with tables.execute_sql(query).collect() as rows:
        return sorted(tuple(row) for row in rows)


def test_a_table_is_written_and_read(server, tables):
    kind = "(_id STRING, n BIGINT, t TIMESTAMP(3), i ROW<x INT, y ARRAY<STRING>>, p DECIMAL(9, 2)"
    declare(
        tables,
        "t",
        f"{kind}, PRIMARY KEY (_id) NOT ENFORCED)",
        **{"uri": server.uri, "scan__fetch-size": "2"},
    )
    number = "65f000000000000000000001"
    tables.execute_sql(
        "INSERT INTO t SELECT id, SUM(n), MAX(TIMESTAMP '2024-05-06 07:08:09.123'), "
        "ROW(1, ARRAY['a']), MAX(1.50) FROM "
        f"(VALUES ('{number}', 2), ('b', 5), ('{number}', 3), ('c', 1)) AS v (id, n) GROUP BY id"
    ).wait()
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9, 123_000)
    rest = {"t": moment, "i": {"x": 1, "y": ["a"]}, "p": bson.Decimal128("1.50")}
    assert {"_id": bson.ObjectId(number), "n": 5, **rest} in server.documents("items")
    found = rows_of(tables, "SELECT n, _id, t, i, p FROM t")
    inner = Row(1, ["a"])
    rest = (moment, inner, Decimal("1.50"))
    assert found == [(1, "c", *rest), (5, number, *rest), (5, "b", *rest)]


def test_rows_are_looked_up_by_fields(server, items, tables):
    items.insert_many([{"_id": n, "kind": f"k{n % 2}", "name": f"n{n}"} for n in range(4)])
    declare(
        tables, "t", "(_id INT, kind STRING, name STRING)", uri=server.uri, lookup__cache="PARTIAL"
    )
    tables.execute_sql(
        "CREATE TEMPORARY VIEW asked AS SELECT k, PROCTIME() AS p FROM "
        "(VALUES ('k0'), ('x'), ('k0')) AS v (k)"
    )
    joined = (
        "SELECT a.k, t.name FROM asked AS a {} JOIN t FOR SYSTEM_TIME AS OF a.p ON a.k = t.kind"
    )
    assert rows_of(tables, joined.format("")) == [
        ("k0", "n0"),
        ("k0", "n0"),
        ("k0", "n2"),
        ("k0", "n2"),
    ]
    assert server.commands.count("find") == 1
    assert ("x", None) in rows_of(tables, joined.format("LEFT"))


def test_a_key_of_several_columns_is_a_document(server, tables):
    key = "(a INT, b STRING, n INT, PRIMARY KEY (a, b) NOT ENFORCED)"
    declare(tables, "t", key, uri=server.uri)
    tables.execute_sql("INSERT INTO t VALUES (1, 'x', 5)").wait()
    expected = {"_id": {"a": 1, "b": "x"}, "a": 1, "b": "x", "n": 5}
    assert server.documents("items") == [expected]
    assert rows_of(tables, "SELECT b, n FROM t") == [("x", 5)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"uri": "http://h"}, "takes a URI as mongodb://"),
        ({"uri": "mongodb://h", "lookup__cache": "FULL"}, "expected one of NONE, PARTIAL"),
        ({}, "Missing required options .*uri"),
    ],
)
def test_wrong_options_of_a_table_are_errors(tables, options, words):
    declare(tables, "t", "(n INT)", **options)
    with pytest.raises(ValidationException, match=words):
        tables.execute_sql("SELECT * FROM t")
