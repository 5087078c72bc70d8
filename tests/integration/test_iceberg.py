"""IcebergSink against pyiceberg, which itself reads the tables; the catalog is a file."""

import datetime
import decimal
import sys

import pyarrow as pa
import pytest
from penstock.common import Row, Types
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.errors import (
    DependencyError,
    FormatError,
    InvalidProgramError,
    PenstockError,
    SinkError,
)
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from support.environments import in_process

PAIR = Types.ROW_NAMED(["n", "text"], [Types.LONG(), Types.STRING()])


class Lake:
    """A catalog and its contents."""

    def __init__(self, folder):
        self.properties = self.properties_of(folder)
        self.catalog = load_catalog("lake", **self.properties)
        self.catalog.create_namespace("db")

    @staticmethod
    def properties_of(folder):
        return {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }

    def sink(self, schema, table="db.t"):
        return IcebergSink(table, schema, catalog=self.properties, name="lake")

    def write(self, rows, schema=PAIR, kind=PAIR, parallelism=2):
        env = in_process(parallelism)
        env.from_collection(rows, kind).rebalance().sink_to(self.sink(schema))
        env.execute()
        return self.table()

    def table(self):
        return self.catalog.load_table("db.t")

    def rows(self):
        return sorted(self.table().scan().to_arrow().to_pylist(), key=str)


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def test_rows_are_appended_a_snapshot_for_each_commit(lake):
    table = lake.write([Row(n=1, text="a"), Row(n=2, text=None), (3, "c")])
    assert len(table.snapshots()) == 1
    assert len(lake.write([Row(n=4, text="d")]).snapshots()) == 2
    assert [row["n"] for row in lake.rows()] == [1, 2, 3, 4]
    assert lake.rows()[1] == {"n": 2, "text": None}


def test_nothing_is_committed_without_rows(lake):
    assert lake.write([]).snapshots() == []


def test_all_types_are_read_back(lake):
    when = datetime.datetime(2024, 5, 6, 7, 8, 9)
    names = list("abcdefgh")
    values = [
        True,
        2.5,
        b"\x00",
        datetime.date(2024, 5, 6),
        when,
        [1, None],
        {"k": 1},
        Row(x="y"),
    ]
    kind = Types.ROW_NAMED(
        names,
        [
            Types.BOOLEAN(),
            Types.DOUBLE(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.SQL_DATE(),
            Types.SQL_TIMESTAMP(),
            Types.LIST(Types.INT()),
            Types.MAP(Types.STRING(), Types.LONG()),
            Types.ROW_NAMED(["x"], [Types.STRING()]),
        ],
    )
    lake.write([Row(**dict(zip(names, values, strict=True)))], kind, kind)
    (found,) = lake.rows()
    assert list(found.values()) == [*values[:6], [("k", 1)], {"x": "y"}]


def test_a_schema_of_arrow_says_more_than_types(lake):
    schema = pa.schema([("n", pa.int32()), ("price", pa.decimal128(7, 2))])
    kind = Types.ROW_NAMED(["n", "price"], [Types.INT(), Types.BIG_DEC()])
    lake.write([Row(n=1, price=decimal.Decimal("1.50"))], schema, kind)
    assert lake.rows() == [{"n": 1, "price": decimal.Decimal("1.50")}]


@pytest.mark.parametrize(
    ("transform", "files"), [(IdentityTransform(), 3), (DayTransform(), 2), (BucketTransform(1), 1)]
)
def test_a_table_with_partitions_gets_its_rows_where_they_belong(lake, transform, files):
    schema = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us"))])
    table = lake.catalog.create_table("db.t", schema=schema)
    with table.update_spec() as spec:
        spec.add_field("at", transform)
    days = [datetime.datetime(2024, 5, day, hour) for day, hour in [(6, 1), (6, 2), (7, 1)]]
    rows = [Row(n=n, at=at) for n, at in enumerate(days)]
    kind = Types.ROW_NAMED(["n", "at"], [Types.LONG(), Types.SQL_TIMESTAMP()])
    table = lake.write(rows, kind, kind, parallelism=1)
    assert [row["n"] for row in lake.rows()] == [0, 1, 2]
    assert table.inspect.files().num_rows == files


def test_a_repeated_commit_adds_nothing(lake):
    sink = lake.sink(PAIR)
    writer = sink.create_writer(None)
    writer.write(Row(n=1, text="a"), None)
    first = list(writer.prepare_commit())
    writer.write(Row(n=2, text="b"), None)
    second = list(writer.prepare_commit())
    assert len(first) == len(second) == 1
    for requests, expected in [
        (first, [1]),
        (first, [1]),
        (first + second, [1, 2]),
        (first + second, [1, 2]),
    ]:
        sink.create_committer(None).commit([Request(c) for c in requests])
        assert [row["n"] for row in lake.rows()] == expected
    committer = sink.create_committer(None)
    for _ in range(2):
        committer.commit([Request(c) for c in second])
    assert [row["n"] for row in lake.rows()] == [1, 2]


def test_others_may_append_in_between(lake):
    """Also during a commit, which is then retried."""
    sink = lake.sink(PAIR)
    committer = sink.create_committer(None)
    writer = sink.create_writer(None)
    writer.write(Row(n=1, text="a"), None)
    committables = list(writer.prepare_commit())
    lake.table().append(pa.table({"n": [7], "text": ["z"]}))
    refreshed = committer._table.refresh
    calls = []

    def refresh():
        refreshed()
        calls.append(1)
        if len(calls) == 1:
            lake.table().append(pa.table({"n": [8], "text": ["z"]}))

    committer._table.refresh = refresh
    committer.commit([Request(c) for c in committables])
    assert [row["n"] for row in lake.rows()] == [1, 7, 8]


class Request:
    def __init__(self, committable):
        self.committable = committable

    def get_committable(self):
        return self.committable

    def signal_already_committed(self):
        pass


def test_a_table_of_other_columns_is_refused(lake):
    lake.catalog.create_table("db.t", schema=pa.schema([("n", pa.string())]))
    with pytest.raises(PenstockError, match=r"db\.t has other columns than the sink"):
        lake.write([Row(n=1, text="a")])


def test_a_value_that_does_not_fit_names_the_field(lake):
    env = in_process()
    rows = env.from_collection([Row(n="x", text="a")], Types.PICKLED_BYTE_ARRAY())
    rows.sink_to(lake.sink(PAIR))
    with pytest.raises(FormatError, match="n"):
        env.execute()


def test_a_namespace_that_is_not_there_is_named(lake):
    env = in_process()
    env.from_collection([Row(n=1, text="a")], PAIR).sink_to(lake.sink(PAIR, "nowhere.t"))
    name = "cannot open the table nowhere.t of the catalog 'lake' for IcebergSink"
    with pytest.raises(
        SinkError, match=f"{name}: NoSuchNamespaceError: .*; check the table's name"
    ):
        env.execute()


def test_wrong_arguments_are_refused(lake, monkeypatch):
    with pytest.raises(InvalidProgramError, match="with its namespace"):
        lake.sink(PAIR, "t")
    with pytest.raises(InvalidProgramError, match="IcebergSink takes a row"):
        lake.sink(Types.LONG())
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(DependencyError, match=r"penstock-engine\[iceberg\]"):
        lake.sink(PAIR)
