"""Tables of databases in SQL, over SQLite and a real PostgreSQL: scans, lookups and upserts."""

import datetime
import decimal

import pytest
from penstock.errors import SourceError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import ValidationException
from support.databases import opened, serving_postgres

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def postgres():
    yield from serving_postgres()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path, postgres):
    with opened(request.param, tmp_path, postgres) as found:
        yield found


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "1")
    made.get_config().set("table.local-time-zone", "UTC")
    return made


def declare(tables, database, columns, table="t", **options):
    given = {"connector": "jdbc", "url": database.url, "table-name": table, **options}
    pairs = ", ".join(f"'{key.replace('__', '.')}' = '{value}'" for key, value in given.items())
    tables.execute_sql(f"CREATE TABLE {table} ({columns}) WITH ({pairs})")


def rows_of(result):
    with result.collect() as rows:
        return [tuple(row) for row in rows]


def test_values_of_all_kinds_are_written_and_read(tables, database):
    is_sqlite = database.kind == "sqlite"
    database.execute(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, big BIGINT, x DOUBLE PRECISION, d DECIMAL(10, 2),"
        " s VARCHAR(20), f BOOLEAN, day DATE, at TIMESTAMP, tm TIME, "
        f"b {'BLOB' if is_sqlite else 'BYTEA'})"
    )
    declare(
        tables, database,
        "id INT, big BIGINT, x DOUBLE, d DECIMAL(10, 2), s VARCHAR(20), f BOOLEAN, `day` DATE, "
        "`at` TIMESTAMP(3), tm TIME(0), b BYTES, PRIMARY KEY (id) NOT ENFORCED",
    )  # fmt: skip
    tables.execute_sql(
        "INSERT INTO t VALUES (1, 12345678901, 1.5, 2.50, 'it''s', TRUE, DATE '2024-01-31', "
        "TIMESTAMP '2024-01-31 10:11:12.5', TIME '10:11:12', x'00ff'), "
        "(2, CAST(NULL AS BIGINT), CAST(NULL AS DOUBLE), CAST(NULL AS DECIMAL(10, 2)), "
        "CAST(NULL AS STRING), CAST(NULL AS BOOLEAN), CAST(NULL AS DATE), "
        "CAST(NULL AS TIMESTAMP(3)), CAST(NULL AS TIME(0)), CAST(NULL AS BYTES))"
    ).wait()
    assert database.execute("SELECT count(*) FROM t") == [(2,)]
    first, second = rows_of(tables.execute_sql("SELECT * FROM t"))
    assert first == (
        1, 12345678901, 1.5, decimal.Decimal("2.50"), "it's", True, datetime.date(2024, 1, 31),
        datetime.datetime(2024, 1, 31, 10, 11, 12, 500_000), datetime.time(10, 11, 12),
        bytearray(b"\0\xff"),
    )  # fmt: skip
    assert second == (2, *[None] * 9)
    assert rows_of(tables.execute_sql("SELECT s FROM t WHERE id = 1")) == [("it's",)]


def test_ranges_of_a_column_are_read_in_parallel(tables, database):
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20))")
    values = ", ".join(f"({i}, 'n{i}')" for i in range(1000))
    database.execute(f"INSERT INTO t VALUES {values}")
    declare(
        tables, database, "id INT, name STRING",
        scan__partition__column="id", scan__partition__num="7",
        **{"scan.partition.lower-bound": "0", "scan.partition.upper-bound": "899",
           "scan.fetch-size": "10"},
    )  # fmt: skip
    tables.get_config().set("parallelism.default", "2")
    found = rows_of(tables.execute_sql("SELECT id, name FROM t"))
    assert sorted(found) == [(i, f"n{i}") for i in range(900)]


def test_the_last_row_of_each_key_stays(tables, database):
    database.execute("CREATE TABLE t (name VARCHAR(20) PRIMARY KEY, total BIGINT)")
    declare(tables, database, "name STRING, total BIGINT, PRIMARY KEY (name) NOT ENFORCED")
    tables.execute_sql(
        "CREATE VIEW sums AS SELECT name, SUM(n) AS total FROM (VALUES ('a', 1), ('b', 2), "
        "('a', 3), ('b', 4)) AS v(name, n) GROUP BY name"
    )
    tables.execute_sql("INSERT INTO t SELECT name, total FROM sums").wait()
    assert sorted(database.execute("SELECT name, total FROM t")) == [("a", 4), ("b", 6)]


def test_rows_that_leave_the_query_leave_the_table(tables, database):
    """The key of the table differs from that of the query."""
    database.execute("CREATE TABLE t (total BIGINT PRIMARY KEY, name VARCHAR(20))")
    declare(tables, database, "total BIGINT, name STRING, PRIMARY KEY (total) NOT ENFORCED")
    tables.execute_sql(
        "INSERT INTO t SELECT SUM(n), name FROM (VALUES ('a', 1), ('b', 1), ('a', 3), ('c', 9)) "
        "AS v(name, n) GROUP BY name"
    ).wait()
    assert sorted(database.execute("SELECT total, name FROM t")) == [(1, "b"), (4, "a"), (9, "c")]


def test_groups_that_leave_a_condition_leave_the_table(tables, database):
    """The old row of the update passes the condition, and the new one does not."""
    database.execute("CREATE TABLE t (name VARCHAR(20) PRIMARY KEY, total BIGINT)")
    declare(tables, database, "name STRING, total BIGINT, PRIMARY KEY (name) NOT ENFORCED")
    tables.execute_sql(
        "INSERT INTO t SELECT name, SUM(n) FROM (VALUES ('a', 1), ('b', 1), ('a', 3)) "
        "AS v(name, n) GROUP BY name HAVING SUM(n) < 3"
    ).wait()
    assert sorted(database.execute("SELECT name, total FROM t")) == [("b", 1)]


def test_updates_need_a_key(tables, database):
    database.execute("CREATE TABLE t (name VARCHAR(20), total BIGINT)")
    declare(tables, database, "name STRING, total BIGINT")
    with pytest.raises(Exception, match="doesn't support consuming update changes"):
        tables.execute_sql(
            "INSERT INTO t SELECT name, SUM(n) FROM (VALUES ('a', 1)) AS v(name, n) GROUP BY name"
        )


LOOKUP = (
    "SELECT o.id, t.name FROM o {kind} JOIN t FOR SYSTEM_TIME AS OF o.at_time AS t ON o.id = t.id"
)


@pytest.mark.parametrize("cache", [{}, {"lookup__cache": "PARTIAL"}])
def test_rows_are_looked_up(tables, database, cache):
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20))")
    database.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    declare(tables, database, "id BIGINT, name STRING", **cache)
    elements = tables.from_elements([(1,), (3,), (2,), (1,)], ["id"])
    tables.create_temporary_view("given", elements)
    tables.execute_sql("CREATE VIEW o AS SELECT id, PROCTIME() AS at_time FROM given")
    found = rows_of(tables.execute_sql(LOOKUP.format(kind="LEFT")))
    assert found == [(1, "one"), (3, None), (2, "two"), (1, "one")]
    assert rows_of(tables.execute_sql(LOOKUP.format(kind="") + " AND t.name <> 'two'")) == [
        (1, "one"),
        (1, "one"),
    ]


def test_errors_name_the_cause(tables, database):
    columns = "id INT, name STRING"
    declare(tables, database, columns, "missing")
    with pytest.raises(SourceError, match="missing"):
        rows_of(tables.execute_sql("SELECT * FROM missing"))
    for options, words in [
        ({"username": "me"}, "Either all or none"),
        ({"scan__partition__column": "id"}, "Either all or none"),
        ({"lookup__cach": "ALL"}, "Did you mean 'lookup.cache'"),
        ({"driver": "com.oracle.Driver"}, "not one of the drivers"),
    ]:
        declare(tables, database, columns, "wrong", **options)
        with pytest.raises(ValidationException, match=words):
            tables.execute_sql("SELECT * FROM wrong")
        tables.execute_sql("DROP TABLE wrong")
