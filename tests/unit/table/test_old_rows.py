"""Operators leave out UPDATE_BEFORE where no consumer reads such rows, as in Flink."""

import random
from dataclasses import replace

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import EnvironmentSettings, ExplainDetail, TableEnvironment, types
from penstock.table.plan.nodes import UPDATE_BEFORE
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery

TOP = "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS r FROM t)"
COUNTS = "SELECT k, COUNT(*) AS c, COUNT(DISTINCT v) AS d FROM t GROUP BY k"

LEFT_OUT = {
    "group": COUNTS,
    "projected group": f"SELECT c + 1, k FROM ({COUNTS})",
    "group of updates": f"SELECT c, MAX(d), COUNT(*) FROM ({COUNTS}) GROUP BY c",
    "mini-batch": COUNTS,
    "top 1": TOP.format("v DESC") + " WHERE r = 1",
    "top 1 with a time to live": TOP.format("v DESC") + " WHERE r = 1",
    "last row": TOP.format("PROCTIME() DESC") + " WHERE r = 1",
    "ranks": TOP.format("v").replace("k, v", "k, v, r", 1) + " WHERE r <= 2",
}
KEPT = {
    "filtered group": f"SELECT * FROM ({COUNTS}) WHERE d > 3",
    "union": f"{COUNTS} UNION ALL {COUNTS}",
    "append-only": "SELECT k, v FROM t",
}
SETTINGS = {
    "mini-batch": {"table.exec.mini-batch.enabled": "true"},
    "top 1 with a time to live": {"table.exec.state.ttl": "1 d"},
}


def changes_of(name, sizes, *, reads_old_rows):
    drawn = random.Random(7)
    query = RunningQuery(
        {**LEFT_OUT, **KEPT}[name],
        [HarnessTable.of("t", k=TEXT, v=types.IntType())],
        settings=SETTINGS.get(name),
        reads_old_rows=reads_old_rows,
    )
    try:
        for size in sizes:
            query.give("t", [(drawn.choice("abc"), drawn.randrange(20)) for _ in range(size)])
            query.flush()
        return query.changes()
    finally:
        query.close()


@pytest.mark.parametrize("sizes", [[5] * 10, [100] * 3], ids=["by row", "by columns"])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_the_other_changes_are_the_same_without_old_rows(name, sizes):
    changes = changes_of(name, sizes, reads_old_rows=True)
    expected = [change for change in changes if change[0] != UPDATE_BEFORE]
    assert len(expected) < len(changes)
    assert changes_of(name, sizes, reads_old_rows=False) == expected


@pytest.mark.parametrize("name", KEPT)
def test_old_rows_stay_where_an_operator_reads_them(name):
    assert changes_of(name, [100], reads_old_rows=False) == changes_of(
        name, [100], reads_old_rows=True
    )


@pytest.mark.parametrize(
    ("sinks", "kinds"),
    [(["blackhole"], "I,UA"), (["print"], "I,UB,UA"), (["blackhole", "print"], "I,UB,UA")],
)
def test_a_plan_leaves_out_old_rows_if_no_table_reads_them(sinks, kinds):
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.execute_sql("CREATE TABLE t (k STRING) WITH ('connector' = 'datagen')")
    statements = env.create_statement_set()
    for sink in sinks:
        env.execute_sql(f"CREATE TABLE {sink}s (k STRING, c BIGINT) WITH ('connector' = '{sink}')")
        statements.add_insert_sql(f"INSERT INTO {sink}s SELECT k, COUNT(*) FROM t GROUP BY k")
    shown = statements.explain(ExplainDetail.CHANGELOG_MODE)
    aggregates = [
        line for line in shown.splitlines() if "GroupAggregate" in line and "Mode" in line
    ]
    assert aggregates
    assert all(f"changelogMode=[{kinds}]" in line for line in aggregates)


MOST = "(SELECT k, MAX(v) AS m FROM u GROUP BY k)"
JOINS = {
    # Each row of the most recent maximum, without and with the padded rows of an outer join.
    f"SELECT t.v, b.m FROM t JOIN {MOST} AS b ON t.k = b.k": ["+I 3 1", "-U 3 1", "+U 3 2"],
    f"SELECT t.v, b.m FROM t LEFT JOIN {MOST} AS b ON t.k = b.k": [
        *("+I 3 None", "-D 3 None", "+I 3 1", "-U 3 1", "+I 3 None", "-D 3 None", "+I 3 2")
    ],
    f"SELECT v FROM t WHERE k IN (SELECT k FROM {MOST} WHERE m = 1)": ["+I 3", "-U 3"],
}
LETTERS = ("+I", "-U", "+U", "-D")


@pytest.mark.parametrize("sql", JOINS)
def test_a_pair_has_the_kind_of_the_change(sql):
    tables = [HarnessTable.of(name, k=TEXT, v=types.IntType()) for name in "tu"]
    query = RunningQuery(sql, tables)
    try:
        for table, row in (("t", ("a", 3)), ("u", ("a", 1)), ("u", ("a", 2))):
            query.give(table, [row])
            query.flush()
        found = [" ".join([LETTERS[kind], *map(str, row)]) for kind, row in query.changes()]
    finally:
        query.close()
    assert found == JOINS[sql]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        # The update that changes the key leaves the row of the old one to be deleted.
        ("SELECT k, v + 1 FROM t", ["+I a 2", "+U a 3", "-U a 3", "+U b 4", "-D b 4"]),
        # The new row of an update may be missing, so that the old one is a deletion.
        ("SELECT k, v FROM t WHERE v < 2", ["+I a 1", "-U a 1"]),
    ],
)
def test_old_rows_of_a_source_reach_a_table_only_as_deletions(sql, expected):
    changes = HarnessTable.of("t", k=TEXT, v=types.IntType(), kinds=frozenset(range(4)))
    changes.schema = replace(changes.schema, primary_key=(0,))
    query = RunningQuery(sql, [changes], reads_old_rows=False)
    try:
        query.give("t", [(0, "a", 1), (1, "a", 1), (2, "a", 2), (1, "a", 2), (2, "b", 3)])
        query.give("t", [(3, "b", 3)])
        found = [" ".join([LETTERS[kind], *map(str, row)]) for kind, row in query.changes()]
    finally:
        query.close()
    assert found == expected
