"""Equal parts of the plans of a job run once, with the columns that any of them uses."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.plan import nodes as n
from penstock.table.pruning import pruned

HOP = (
    "SELECT a, COUNT(*) AS c, window_start AS s, window_end AS e FROM TABLE(HOP(TABLE t, "
    "DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND)) GROUP BY a, window_start, "
    "window_end"
)
MOST = f"SELECT MAX(c) AS m, s, e FROM ({HOP}) GROUP BY s, e"


@pytest.fixture
def tables(tmp_path):
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        "CREATE TABLE t (a INT, b STRING, d DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet')"
    )
    return made


def nodes(plans):
    """Return the different nodes of plans."""
    found = {}
    pending = list(plans)
    while pending:
        node = pending.pop()
        found[id(node)] = node
        pending += node.inputs
    return list(found.values())


def counts(tables, *queries, is_streaming=True):
    plans = pruned([tables.sql_query(sql)._node for sql in queries], is_streaming=is_streaming)
    found = nodes(plans)
    scans = [node for node in found if isinstance(node, n.Scan)]
    aggregates = [node for node in found if isinstance(node, n.WindowAggregate)]
    return scans, aggregates


def test_an_aggregate_that_is_joined_with_one_of_its_own_rows_runs_once(tables):
    sql = f"SELECT x.a FROM ({HOP}) x JOIN ({MOST}) y ON x.s = y.s AND x.e = y.e AND x.c = y.m"
    [scan], aggregates = counts(tables, sql)
    assert scan.projected == (0, 3)
    assert len(aggregates) == 2


def test_a_batch_job_reads_its_inputs_one_after_the_other(tables):
    sql = f"SELECT x.a FROM ({HOP}) x JOIN ({MOST}) y ON x.s = y.s AND x.e = y.e AND x.c = y.m"
    scans, aggregates = counts(tables, sql, is_streaming=False)
    assert (len(scans), len(aggregates)) == (2, 3)


def test_insertions_of_one_job_share_a_scan_with_the_columns_of_both(tables):
    [scan], _ = counts(tables, "SELECT a FROM t", "SELECT UPPER(b) FROM t WHERE a > 1")
    assert scan.projected == (0, 1, 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM t", "SELECT a FROM t /*+ OPTIONS('source.monitor-interval' = '1 s') */"),
        ("SELECT a FROM t WHERE d > 0.0E0", "SELECT a FROM t WHERE d > -0.0E0"),
        ("SELECT a, RAND() FROM t", "SELECT a, RAND() FROM t"),
    ],
)
def test_different_parts_are_not_shared(tables, one, other):
    plans = pruned([tables.sql_query(sql)._node for sql in (one, other)], is_streaming=True)
    assert plans[0] is not plans[1]
    [same, again] = pruned([tables.sql_query("SELECT a FROM t")._node] * 2, is_streaming=True)
    assert same is again
