"""A job whose equal parts run once has the results of the job in which each part runs by itself."""

import pytest
from penstock.table import EnvironmentSettings, TableEnvironment

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

HOP = (
    "SELECT a, COUNT(*) AS c, window_start AS s, window_end AS e FROM TABLE(HOP(TABLE t, "
    "DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND)) GROUP BY a, window_start, "
    "window_end"
)
MOST = f"SELECT MAX(c) AS m, s, e FROM ({HOP}) GROUP BY s, e"
HOTTEST = (
    f"SELECT x.a, CAST(x.s AS STRING), x.c FROM ({HOP}) x JOIN ({MOST}) y ON x.s = y.s AND "
    "x.e = y.e WHERE x.c >= y.m"
)
SUMS = "SELECT a, b FROM t UNION ALL SELECT a, SUM(b) FROM t GROUP BY a"
BEST = (
    "SELECT a, b, d FROM (SELECT x.a, x.b, y.b AS d, ROW_NUMBER() OVER (PARTITION BY y.a ORDER BY "
    "x.b DESC, y.b) AS r FROM t x JOIN t y ON x.a = y.a AND y.b BETWEEN x.b AND x.b + 200) WHERE "
    "r <= 2"
)
PAIRS = "SELECT x.a, x.b, y.b FROM t x JOIN t y ON x.a = y.a AND x.b = y.b"


@pytest.fixture(autouse=True)
def _in_process(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")


def rows(folder, mode, query, shares, options):
    tables = TableEnvironment.create(getattr(EnvironmentSettings, f"in_{mode}_mode")())
    config = tables.get_config()
    for key, value in {"parallelism.default": "2", **options}.items():
        config.set(key, value)
    config.set("table.optimizer.reuse-sub-plan-enabled", shares)
    tables.execute_sql(
        "CREATE TABLE t (a BIGINT, b BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH "
        f"('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet')"
    )
    left = []
    with tables.execute_sql(query).collect() as found:
        for row in found:
            if row.get_row_kind().value in (0, 2):
                left.append(tuple(row))
            else:
                left.remove(tuple(row))
    return sorted(left)


ALIGNED = {"execution.checkpointing.interval": "50 ms"}
UNALIGNED = {
    **ALIGNED,
    "execution.checkpointing.unaligned.enabled": "true",
    "taskmanager.memory.segment-size": "4kb",
}


def write(folder):
    numbers = range(3000)
    times = pa.array([i * 7 for i in numbers], pa.timestamp("ms"))
    table = pa.table({"a": [i * i % 97 for i in numbers], "b": list(numbers), "ts": times})
    pq.write_table(table, folder / "t.parquet", row_group_size=100)


@pytest.mark.parametrize(
    ("query", "mode", "options"),
    [
        (HOTTEST, "batch", {}),
        (SUMS, "batch", {}),
        (HOTTEST, "streaming", ALIGNED),
        (HOTTEST, "streaming", UNALIGNED),
        (PAIRS, "streaming", UNALIGNED),
    ],
    ids=["windows-batch", "union-batch", "windows-aligned", "windows-unaligned", "pairs-unaligned"],
)
def test_shared_parts_change_no_results(tmp_path, query, mode, options):
    write(tmp_path)
    shared = rows(tmp_path, mode, query, "true", options)
    assert shared
    assert shared == rows(tmp_path, mode, query, "false", options)


def test_ranks_of_the_key_of_a_join_are_not_exchanged(tmp_path):
    write(tmp_path)
    found = rows(tmp_path, "streaming", BEST, "true", ALIGNED)
    assert len(found) == 98
    assert found == rows(tmp_path, "batch", BEST, "true", {})
