"""Scans of files skip partitions and row groups without wanted rows, and the plan shows it."""

import datetime

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import pyarrow as pa
from penstock.formats.file_format import FileRange
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.plan import nodes as n
from penstock.table.plan.predicates import Predicate
from penstock.table.planning.pruning import Pruning
from pyarrow import parquet

DAY = datetime.date(2024, 1, 1)


@pytest.fixture
def tables(tmp_path):
    """Return a table of parquet files in two partitions, of four row groups each."""
    for part in ("a", "b"):
        folder = tmp_path / "files" / f"p={part}"
        folder.mkdir(parents=True)
        numbers = list(range(40))
        table = pa.table(
            {
                "n": pa.array(numbers, pa.int32()),
                "s": [f"x{number:02}" for number in numbers],
                "d": [DAY + datetime.timedelta(days=number) for number in numbers],
                "f": [float(number) for number in numbers],
            }
        )
        parquet.write_table(table, folder / "part.parquet", row_group_size=10)
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        "CREATE TABLE t (n INT, s STRING, d DATE, f DOUBLE, p STRING) PARTITIONED BY (p) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}/files', 'format' = 'parquet')"
    )
    return made


def scan(tables, sql):
    node = Pruning().pruned(tables.sql_query(sql)._node)
    while not isinstance(node, n.Scan):
        (node,) = node.inputs
    return node


def read(found, tmp_path):
    """Return the rows that a scan reads, and how many files and row groups it skips."""
    rows, skipped = 0, 0
    for path in sorted((tmp_path / "files").rglob("*.parquet")):
        reader = found.source._format
        reader.skipped = 0
        with pa.OSFile(str(path)) as file:
            for batch in reader.read(file, FileRange(str(path), 0, path.stat().st_size)):
                rows += sum(part.num_rows for part in batch.elements)
        skipped += reader.skipped
    return rows, skipped


@pytest.mark.parametrize(
    ("condition", "rows", "skipped"),
    [
        ("n >= 30", 20, 6),
        ("25 < n AND s <> 'x'", 40, 4),
        ("n = 15", 20, 6),
        ("n IN (1, 39)", 40, 4),
        ("s < 'x10'", 20, 6),
        ("d > DATE '2024-01-31'", 20, 6),
        ("p = 'a'", 40, 1),
        ("p = 'a' AND n < 0", 0, 5),
        ("p IN ('c', 'd')", 0, 2),
        ("f < 5", 80, 0),
        ("n < 0 OR s = 'x01'", 80, 0),
        ("n + 1 < 0", 80, 0),
        ("n IS NULL", 80, 0),
    ],
)
def test_files_and_row_groups_are_skipped(tables, tmp_path, condition, rows, skipped):
    assert read(scan(tables, f"SELECT s FROM t WHERE {condition}"), tmp_path) == (rows, skipped)


def test_the_plan_shows_columns_and_predicates(tables):
    text = tables.sql_query("SELECT s FROM t WHERE n >= 30 AND f < 2 AND p = 'a'").explain()
    assert (
        "TableSourceScan(table=[[default_catalog.default_database.t, filter=[n >= 30 AND p = 'a'], "
        "project=[n, s, f, p]]], fields=[n, s, f, p])"
    ) in text


def test_a_view_of_renamed_columns_is_seen_through(tables):
    tables.execute_sql("CREATE VIEW v AS SELECT n AS number, p AS part, n + 1 AS higher FROM t")
    found = scan(tables, "SELECT part FROM v WHERE number < 3")
    assert found.predicates == (Predicate("n", "<", (3,)),)
    assert scan(tables, "SELECT part FROM v WHERE higher < 3").predicates == ()


def test_rows_in_front_of_a_watermark_move_time(tables, tmp_path):
    tables.execute_sql(
        "CREATE TABLE w (n INT, d DATE, ts AS CAST(d AS TIMESTAMP(3)), WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/files', 'format' = 'parquet')"
    )
    assert scan(tables, "SELECT n FROM w WHERE n < 3").predicates == ()


def test_results_are_the_same(tables, monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    sql = "SELECT COUNT(*) FROM t WHERE n > 7 AND n <= 21 AND p = 'b'"
    with tables.execute_sql(sql).collect() as rows:
        assert tuple(list(rows)[-1]) == (14,)


def test_bounds_of_other_types_leave_rows_in():
    zoned = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    predicate = Predicate("ts", "<", (datetime.datetime(2023, 1, 1),))
    assert predicate.may_hold(zoned, zoned)
    assert Predicate("n", "=", (1,)).may_hold("a", "b")
    assert not Predicate("n", "=", (1,)).may_hold(2, 3)
