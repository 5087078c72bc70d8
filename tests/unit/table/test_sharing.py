"""Equal parts of the plans of a job run once, with the columns that any of them uses."""

import json

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.graph.transformations import TwoInputTransformation
from penstock.table import EnvironmentSettings, PlanReference, TableEnvironment
from penstock.table.plan import nodes as n
from penstock.table.plan.translation import translate_optimized
from penstock.table.planning.pruning import pruned
from penstock.table.udf import udf

HOP = (
    "SELECT a, COUNT(*) AS c, window_start AS s, window_end AS e FROM TABLE(HOP(TABLE t, "
    "DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND)) GROUP BY a, window_start, "
    "window_end"
)
MOST = f"SELECT MAX(c) AS m, s, e FROM ({HOP}) GROUP BY s, e"
HOTTEST = f"SELECT x.a FROM ({HOP}) x JOIN ({MOST}) y ON x.s = y.s AND x.e = y.e AND x.c = y.m"


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


def counts(tables, *queries, is_streaming=True, **settings):
    plans = pruned(
        [tables.sql_query(sql)._node for sql in queries],
        is_streaming=is_streaming,
        settings={
            f"table.optimizer.{key.replace('_', '-')}-enabled": value
            for key, value in settings.items()
        },
    )
    found = nodes(plans)
    scans = [node for node in found if isinstance(node, n.Scan)]
    aggregates = [node for node in found if isinstance(node, n.WindowAggregate)]
    return scans, aggregates


@pytest.mark.parametrize("is_streaming", [True, False])
def test_an_aggregate_that_is_joined_with_one_of_its_own_rows_runs_once(tables, is_streaming):
    [scan], aggregates = counts(tables, HOTTEST, is_streaming=is_streaming)
    assert scan.projected == (0, 3)
    assert len(aggregates) == 2


def test_without_reuse_of_sub_plans_nothing_is_shared(tables):
    scans, aggregates = counts(tables, HOTTEST, reuse_sub_plan="false")
    assert (len(scans), len(aggregates)) == (2, 3)
    one = tables.sql_query(HOP)
    [plan] = pruned(
        [one.union_all(one)._node],
        is_streaming=True,
        settings={"table.optimizer.reuse-sub-plan-enabled": "false"},
    )
    assert len([node for node in nodes([plan]) if isinstance(node, n.Scan)]) == 2


def test_without_reuse_of_sources_scans_are_shared_in_equal_sub_plans_only(tables):
    scans, aggregates = counts(tables, HOTTEST, reuse_source="false")
    assert (len(scans), len(aggregates)) == (1, 2)
    scans, _ = counts(tables, "SELECT a FROM t", "SELECT b FROM t", reuse_source="false")
    assert [scan.projected for scan in scans] == [(1, 3), (0, 3)]
    [_], _ = counts(tables, "SELECT a FROM t", "SELECT a FROM t", reuse_source="false")


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("SELECT x.a, y.d FROM t x JOIN t y ON x.a = y.a", n.Join),
        ("SELECT x.a, y.d FROM t x JOIN (SELECT a, d FROM t UNION ALL SELECT a + 1, d FROM t) y "
         "ON x.a = y.a", n.Join),
        ("SELECT a, b FROM t UNION ALL SELECT a, UPPER(b) FROM t", n.Union),
        ("SELECT a, d FROM (SELECT a, d, ROW_NUMBER() OVER (PARTITION BY a ORDER BY d) AS r "
         "FROM t) WHERE r <= 2", n.Rank),
        ("SELECT a, SUM(d) OVER (PARTITION BY a ORDER BY ts) FROM t", n.Over),
        ("SELECT a, twice(a) FROM t", n.Project),
    ],
)  # fmt: skip
def test_every_repeatable_node_is_shared(tables, part, kind):
    tables.create_temporary_function("twice", udf(lambda a: 2 * a, result_type="INT"))
    plans = pruned([tables.sql_query(part)._node for _ in range(2)], is_streaming=True)
    assert plans[0] is plans[1]
    assert [node for node in nodes(plans) if isinstance(node, kind)]


def test_functions_that_are_not_deterministic_are_called_by_each_consumer(tables):
    made = udf(lambda a: a, result_type="INT", deterministic=False)
    tables.create_temporary_function("drawn", made)
    plans = pruned(
        [tables.sql_query("SELECT a, drawn(a) FROM t")._node for _ in range(2)], is_streaming=True
    )
    assert plans[0] is not plans[1]


def execution_plan(text):
    return text.split("== Optimized Execution Plan ==\n")[1]


def test_explain_shows_a_shared_node_once(tables):
    text = execution_plan(tables.explain_sql(HOTTEST))
    [shown] = [line for line in text.splitlines() if line.endswith("(reuse_id=[1])")]
    assert shown.strip().startswith("+- WindowAggregate(groupBy=[a, window_start, window_end]")
    assert text.count("+- Reused(reference_id=[1])\n") == 1
    assert text.count("TableSourceScan") == 1
    tables.get_config().set("table.optimizer.reuse-sub-plan-enabled", "false")
    text = execution_plan(tables.explain_sql(HOTTEST))
    assert "reuse_id" not in text
    assert text.count("TableSourceScan") == 2


def test_explain_shows_nodes_that_insertions_share_as_trees_of_their_own(tables):
    for name in ("o", "p"):
        tables.execute_sql(f"CREATE TABLE {name} (a INT, c BIGINT) WITH ('connector' = 'print')")
    statements = tables.create_statement_set()
    for name in ("o", "p"):
        statements.add_insert_sql(f"INSERT INTO {name} SELECT a, COUNT(*) FROM t GROUP BY a")
    statements.add_insert_sql("INSERT INTO p SELECT a, CAST(d AS BIGINT) FROM t")
    lines = execution_plan(statements.explain()).splitlines()
    starts = [line.partition("(")[0] + line[-14:] for line in lines if not line.startswith(" ")]
    assert [line for line in starts if not line.startswith("+-")][:2] == [
        "WatermarkAssigner(reuse_id=[2])",
        "Calc(reuse_id=[1])",
    ]
    assert [line.strip() for line in lines if "Reused" in line] == [
        "+- Reused(reference_id=[2])",
        "+- Reused(reference_id=[1])",
        "+- Reused(reference_id=[1])",
        "+- Reused(reference_id=[2])",
    ]


def test_operators_with_equal_keys_share_the_exchange(tables):
    query = "SELECT a, x.d, y.d FROM (SELECT a, d FROM t) x JOIN (SELECT a, d FROM t) y USING (a)"
    job = tables.jobs.environment()
    [plan] = pruned([tables.sql_query(query)._node], is_streaming=True)
    join = translate_optimized(plan, tables.jobs.context(job))
    while not isinstance(join, TwoInputTransformation):
        [join] = join.inputs
    assert join.input1 is join.input2


def test_a_compiled_plan_keeps_its_shared_nodes(tables):
    tables.execute_sql("CREATE TABLE o (a INT, c INT) WITH ('connector' = 'print')")
    insert = "INSERT INTO o SELECT x.a, y.a FROM t x JOIN t y ON x.a = y.a"
    insert = f"{insert} UNION ALL SELECT x.a, y.a FROM t x JOIN t y ON x.a = y.a"
    plan = tables.compile_plan_sql(insert)
    assert len([uid for uid in json.loads(plan.as_json_string())["operators"]
                if uid.startswith("Join")]) == 1  # fmt: skip
    tables.get_config().set("table.optimizer.reuse-sub-plan-enabled", "false")
    again = tables.load_plan(PlanReference.from_json_string(plan.as_json_string()))
    assert "Reused(reference_id=[1])" in again.explain()
    apart = tables.compile_plan_sql(insert)
    tables.get_config().set("table.optimizer.reuse-sub-plan-enabled", "true")
    again = tables.load_plan(PlanReference.from_json_string(apart.as_json_string()))
    assert "Reused" not in again.explain()


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
