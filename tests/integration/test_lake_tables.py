"""Tables of Delta Lake and Apache Iceberg, and of PostgreSQL with its changes, in SQL."""

import decimal
import itertools

import pytest
from penstock.errors import SourceError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import TableException, ValidationException
from support.postgres_server import PostgresServer


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "1")
    made.get_config().set("table.local-time-zone", "UTC")
    return made


def declare(tables, name, columns, **options):
    pairs = ", ".join(f"'{key.replace('__', '.')}' = '{value}'" for key, value in options.items())
    tables.execute_sql(f"CREATE TABLE {name} {columns} WITH ({pairs})")


def rows_of(tables, query):
    with tables.execute_sql(query).collect() as rows:
        return sorted(tuple(row) for row in rows)


COLUMNS = "(id INT, price DECIMAL(10, 2), at_time TIMESTAMP(3), name STRING)"
VALUES = (
    "VALUES (1, 1.50, TIMESTAMP '2024-01-02 03:04:05.678', 'a'), "
    "(2, CAST(NULL AS DECIMAL(10, 2)), CAST(NULL AS TIMESTAMP(3)), CAST(NULL AS STRING))"
)
QUERY = "SELECT id, price, CAST(at_time AS STRING), name FROM t"
FOUND = [(1, decimal.Decimal("1.50"), "2024-01-02 03:04:05.678", "a"), (2, None, None, None)]


def test_rows_of_delta(tables, tmp_path):
    pytest.importorskip("deltalake")
    place = {"connector": "delta", "table-path": str(tmp_path / "t")}
    declare(tables, "t", COLUMNS, **place)
    with pytest.raises(ValidationException, match=r"default_database\.t"):
        tables.execute_sql("SELECT * FROM t")
    tables.execute_sql(f"INSERT INTO t {VALUES}").wait()
    assert rows_of(tables, QUERY) == FOUND
    tables.execute_sql(
        "INSERT INTO t VALUES (3, 2.00, TIMESTAMP '2024-01-02 00:00:00', 'c')"
    ).wait()
    assert rows_of(tables, "SELECT id FROM t") == [(1,), (2,), (3,)]
    declare(tables, "former", COLUMNS, versionAsOf="0", **place)
    assert len(rows_of(tables, "SELECT id FROM former")) < 3
    declare(tables, "wrong", COLUMNS, startingVersion="0", **place)
    with pytest.raises(ValidationException, match="is not for 'mode' = 'batch'"):
        tables.execute_sql("SELECT * FROM wrong")


def test_changes_of_delta(tables, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    place = {"connector": "delta", "table-path": str(tmp_path / "t")}
    declare(tables, "t", "(id INT, name STRING)", **place)
    tables.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')").wait()
    declare(tables, "s", "(id INT, name STRING)", mode="streaming", **place)
    with tables.execute_sql("SELECT id, name FROM s").collect() as rows:
        found = sorted(tuple(row) for row in itertools.islice(rows, 2))
        assert found == [(1, "a"), (2, "b")]
        deltalake.DeltaTable(str(tmp_path / "t")).delete("id = 1")
        row = next(rows)
        assert (str(row.get_row_kind()), *row) == ("-D", 1, "a")


def test_rows_of_iceberg(tables, tmp_path):
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    from pyiceberg.catalog import load_catalog

    uri, warehouse = f"sqlite:///{tmp_path / 'catalog.db'}", f"file://{tmp_path}"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=warehouse)
    catalog.create_namespace("shop")
    declare(
        tables,
        "t",
        COLUMNS,
        connector="iceberg",
        **{"catalog-name": "lake", "catalog-type": "sql", "catalog-database": "shop"},
        uri=uri,
        warehouse=warehouse,
    )
    tables.execute_sql(f"INSERT INTO t {VALUES}").wait()
    assert rows_of(tables, QUERY) == FOUND
    assert [name[-1] for name in catalog.list_tables("shop")] == ["t"]
    tables.execute_sql("CREATE TABLE s WITH ('streaming' = 'true', 'catalog-table' = 't') LIKE t")
    with tables.execute_sql("SELECT id FROM s").collect() as rows:
        assert sorted(row[0] for row in itertools.islice(rows, 2)) == [1, 2]


@pytest.mark.parametrize("lake", ["delta", "iceberg"])
def test_updates_of_a_query_are_merged_by_the_primary_key(tables, tmp_path, lake):
    """A row that leaves the query's result leaves the table, too."""
    place = {"table-path": str(tmp_path / "t")}
    if lake == "iceberg":
        catalog = pytest.importorskip("pyiceberg.catalog")
        uri, warehouse = f"sqlite:///{tmp_path / 'catalog.db'}", f"file://{tmp_path}"
        catalog.load_catalog("lake", type="sql", uri=uri, warehouse=warehouse).create_namespace("s")
        place = {"catalog-name": "lake", "catalog-type": "sql", "catalog-database": "s"}
        place |= {"uri": uri, "warehouse": warehouse}
    columns = "(word STRING, n BIGINT{})"
    key = ", PRIMARY KEY (word) NOT ENFORCED"
    declare(tables, "t", columns.format(key), connector=lake, **place)
    counts = "SELECT word, COUNT(*) FROM (VALUES ('a'), ('b'), ('a')) AS x(word) GROUP BY word"
    tables.execute_sql(f"INSERT INTO t {counts}").wait()
    assert rows_of(tables, "SELECT * FROM t") == [("a", 2), ("b", 1)]
    singles = f"SELECT word, 7 * n FROM ({counts}) AS y(word, n) WHERE n = 1"
    tables.execute_sql(f"INSERT INTO t {singles}").wait()
    assert rows_of(tables, "SELECT * FROM t") == [("b", 7)]
    declare(tables, "u", columns.format(""), connector=lake, **place)
    with pytest.raises(TableException, match="doesn't support consuming update changes"):
        tables.execute_sql(f"INSERT INTO u {counts}")


@pytest.fixture
def server():
    pytest.importorskip("psycopg")
    found = PostgresServer(wal_level="logical", max_replication_slots=5, max_wal_senders=5)
    yield found
    found.stop()


@pytest.mark.server
def test_changes_of_postgres(tables, server):
    from psycopg.conninfo import conninfo_to_dict

    server.execute("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)")
    server.execute("INSERT INTO t VALUES (1, 'a')")
    place = conninfo_to_dict(server.url)
    options = {
        "connector": "postgres-cdc",
        "hostname": place["host"],
        "port": str(place.get("port", 5432)),
        "username": place["user"],
        "password": "none",
        "database-name": place["dbname"],
        "schema-name": "public",
        "table-name": "t",
    }
    columns = "(id INT, name STRING, db STRING METADATA FROM 'database_name' VIRTUAL{key})"
    upsert = {"slot__name": "one", "changelog-mode": "upsert"}
    declare(tables, "u", columns.format(key=", PRIMARY KEY (id) NOT ENFORCED"), **options, **upsert)
    declare(tables, "a", columns.format(key=""), **options, slot__name="two")
    with tables.execute_sql("SELECT id, name, db FROM u").collect() as rows:
        assert tuple(next(rows)) == (1, "a", options["database-name"])
        server.execute("UPDATE t SET name = 'b' WHERE id = 1")
        server.execute("DELETE FROM t WHERE id = 1")
        changes = [(str(row.get_row_kind()), row[1]) for row in itertools.islice(rows, 3)]
        assert changes == [("-U", "a"), ("+U", "b"), ("-D", "b")]
    server.execute("INSERT INTO t VALUES (2, 'x')")
    with tables.execute_sql("SELECT id, name FROM a").collect() as rows:
        assert tuple(next(rows)) == (2, "x")
        server.execute("UPDATE t SET name = 'y' WHERE id = 2")
        with pytest.raises(SourceError, match="REPLICA IDENTITY FULL"):
            next(rows)


@pytest.mark.parametrize(
    ("connector", "words"),
    [
        ("elasticsearch-6", "no connector for Elasticsearch 6"),
        ("mongodb-cdc", "no connector for the changes of MongoDB"),
        ("kinesis-legacy", "no connector for Amazon Kinesis"),
        ("kafkaa", "Cannot discover a connector"),
    ],
)
def test_connectors_that_there_are_not(tables, connector, words):
    declare(tables, "t", "(id INT)", connector=connector)
    with pytest.raises(ValidationException, match=f"{words}.*upsert-kafka"):
        tables.execute_sql("SELECT * FROM t")
