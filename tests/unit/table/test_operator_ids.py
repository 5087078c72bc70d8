"""Uids of operators with state: the same for a statement that is planned again, else others."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.plan.translation import Translation
from penstock.table.planning.pruning import pruned

STATEFUL = ("GroupAggregate", "Join", "Rank", "WindowAggregate")
TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '5' SECOND))"
SESSION = TUMBLE.replace("TUMBLE(", "SESSION(").replace("{}", "{} PARTITION BY k")
BOUNDS = "window_start, window_end"

#: Statements over a table, in place of which a subquery may stand.
STATEMENTS = [
    "SELECT m, COUNT(*) FROM {} GROUP BY m",
    "SELECT first.m, u.n FROM {} AS first JOIN u ON first.k = u.k AND first.n < u.n",
    f"SELECT k, {BOUNDS}, SUM(m) FROM {TUMBLE} GROUP BY k, {BOUNDS}",
    f"SELECT k, {BOUNDS}, SUM(m) FROM {SESSION} GROUP BY k, {BOUNDS}",
    "SELECT k, m FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) AS place FROM {}) "
    "WHERE place <= 3",
]


@pytest.fixture
def tables(tmp_path):
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    stored = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet')"
    made.execute_sql(
        "CREATE TABLE t (k STRING, n INT, x INT, m AS n + 1, ts TIMESTAMP(3), "
        f"WATERMARK FOR ts AS ts) {stored}"
    )
    made.execute_sql(f"CREATE TABLE u (k STRING, n INT, x INT) {stored}")
    return made


def uids(tables, *statements):
    """Return the uids of the operators with state that run the first of some statements."""
    environment = tables.jobs.environment()
    context = tables.jobs.context(environment)
    nodes = [tables.sql_query(statement).plan_node for statement in statements]
    Translation.of(nodes, context).translate(pruned(nodes, is_streaming=True)[0])
    found = {made.uid for made in environment.added_operators() if made.name in STATEFUL}
    assert found
    return found


@pytest.mark.parametrize("statement", STATEMENTS)
def test_other_columns_of_filters_and_statements_do_not_change_uids(tables, statement):
    plain = uids(tables, statement.format("t"))
    assert uids(tables, statement.format("t"), "SELECT k, x, m FROM t") == plain
    filtered = statement.format("(SELECT * FROM t WHERE x > 0)").replace("TABLE (", "(")
    assert uids(tables, filtered) == plain


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (STATEMENTS[0], STATEMENTS[0].replace("{}", "(SELECT n + 2 AS m FROM t)")),
        (STATEMENTS[0], STATEMENTS[0].replace("{}", "(SELECT x AS m FROM t)")),
        (STATEMENTS[0], STATEMENTS[0].replace("{}", "(SELECT n AS m FROM u)")),
        ("SELECT 1, COUNT(*) FROM t GROUP BY 1 + 1", "SELECT 1, COUNT(*) FROM u GROUP BY 1 + 1"),
        (STATEMENTS[1], STATEMENTS[1].replace("first.m", "first.x")),
        (STATEMENTS[2], STATEMENTS[2].replace("'5'", "'6'")),
        (f"SELECT k, COUNT(*) FROM {TUMBLE} GROUP BY k", "SELECT k, COUNT(*) FROM t GROUP BY k"),
        (STATEMENTS[3], STATEMENTS[3].replace("'5'", "'6'")),
    ],
)
def test_other_computations_change_uids(tables, one, other):
    assert not uids(tables, one.format("t")) & uids(tables, other.format("t"))
