"""Queries become relational nodes; errors of queries that cannot be planned name the place."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table.exceptions import TableException, ValidationException
from penstock.table.plan import nodes as n
from penstock.table.plan.changelog import Changelog
from penstock.table.plan.explaining import explained
from penstock.table.plan.rules import check
from unit.table.planning import plan


def find(node, kind):
    if type(node) is kind:
        return node
    for child in node.inputs:
        found = find(child, kind)
        if found is not None:
            return found
    return None


RANKED = (
    "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn "
    "FROM orders) WHERE rn {limit}"
)
UNEVEN = "TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND))"
WINDOWED = "SELECT * FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"


def test_names_and_types_of_a_projection():
    made = plan("SELECT n + 1, k AS name, n / 2.0 AS half, COUNT(*) OVER (ORDER BY ts) FROM orders")
    assert made.schema.names == ["EXPR$0", "name", "half", "EXPR$3"]
    assert [str(t) for t in made.schema.types] == [
        "INT",
        "STRING",
        "DECIMAL(17, 6)",
        "BIGINT NOT NULL",
    ]


@pytest.mark.parametrize(
    ("order", "limit", "kind"),
    [
        ("n DESC", "<= 3", n.Rank),
        ("ts", "= 1", n.Deduplicate),
        ("ts DESC", "= 1", n.Deduplicate),
        ("ts", "<= 2", n.Rank),
    ],
)
def test_limited_row_numbers_are_ranks_or_deduplications(order, limit, kind):
    assert find(plan(RANKED.format(order=order, limit=limit)), kind) is not None


def test_a_rank_that_nobody_reads_is_not_kept():
    assert not find(plan(RANKED.format(order="n", limit="<= 3")), n.Rank).with_rank


def test_row_numbers_of_a_window_are_ranked_when_it_ends():
    sql = (
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        f"ORDER BY n) AS rn FROM ({WINDOWED.format(table='orders')})) WHERE rn <= 3"
    )
    made = plan(sql)
    assert find(made, n.Rank).bounds is not None
    assert not Changelog(is_streaming=True).is_updating(made)


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("o.k = r.k", n.Join),
        ("o.k = r.k AND r.ts BETWEEN o.ts AND o.ts + INTERVAL '5' SECOND", n.IntervalJoin),
        ("o.k = r.k AND r.ts > o.ts AND r.ts < o.ts + INTERVAL '5' SECOND", n.IntervalJoin),
        ("o.k = r.k AND r.ts > o.ts", n.Join),
    ],
)
def test_kinds_of_joins(condition, kind):
    made = plan(f"SELECT o.id FROM orders o, rates r WHERE {condition}")
    assert find(made, kind) is not None


def test_strict_bounds_of_an_interval_join_are_a_millisecond_nearer():
    made = find(
        plan(
            "SELECT o.id FROM orders o JOIN rates r ON o.k = r.k AND r.ts > o.ts AND "
            "r.ts < o.ts + INTERVAL '5' SECOND"
        ),
        n.IntervalJoin,
    )
    assert (made.lower_ms, made.upper_ms) == (1, 4999)


def test_conditions_of_one_side_are_applied_to_it():
    made = plan("SELECT o.id FROM orders o, rates r WHERE o.k = r.k AND o.n > 1 AND r.rate < 5")
    join = find(made, n.Join)
    assert isinstance(join.left, n.Filter)
    assert isinstance(join.right, n.Filter)


def test_joins_of_windows():
    window = WINDOWED.format
    made = plan(
        f"SELECT l.id FROM ({window(table='orders')}) l JOIN ({window(table='rates')}) r ON "
        "l.window_start = r.window_start AND l.window_end = r.window_end AND l.k = r.k"
    )
    assert find(made, n.WindowJoin) is not None


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT id FROM orders WHERE k IN (SELECT k FROM rates)", "SEMI"),
        ("SELECT id FROM orders WHERE k NOT IN (SELECT k FROM rates)", "ANTI"),
        (
            "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM rates r WHERE r.k = o.k)",
            "SEMI",
        ),
        (
            "SELECT id FROM orders o WHERE n = (SELECT MAX(n) FROM orders i WHERE i.k = o.k)",
            "LEFT",
        ),
    ],
)
def test_subqueries_are_joins(sql, kind):
    assert find(plan(sql), n.Join).kind == kind


@pytest.mark.parametrize(
    ("sql", "is_updating"),
    [
        ("SELECT n FROM orders WHERE n > 1", False),
        ("SELECT k, COUNT(*) FROM orders GROUP BY k", True),
        ("SELECT DISTINCT k FROM orders", False),
        (
            "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), "
            "INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
            False,
        ),
        (
            "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), "
            "INTERVAL '1' HOUR)) GROUP BY window_start",
            True,
        ),
        ("SELECT o.id FROM orders o JOIN rates r ON o.k = r.k", False),
        ("SELECT o.id FROM orders o LEFT JOIN rates r ON o.k = r.k", True),
    ],
)
def test_changelogs(sql, is_updating):
    assert Changelog(is_streaming=True).is_updating(plan(sql)) is is_updating
    assert not Changelog(is_streaming=False).is_updating(plan(sql, is_streaming=False))


def test_explain_shows_what_each_node_emits():
    shown = explained(
        plan("SELECT k, COUNT(*) FROM orders GROUP BY k"), is_streaming=True, with_changelog=True
    )
    assert "GroupAggregate(groupBy=[k]" in shown
    assert "changelogMode=[I,UB,UA]" in shown
    assert "changelogMode=[I])" in shown


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT colour FROM orders", "colour"),
        ("SELECT idd FROM orders", "did you mean 'id'"),
        ("SELECT ROW_NUMBER() FROM orders", "OVER clause is necessary"),
        ("SELECT id, n FROM orders WHERE LAG(n) > 1", "OVER clause is necessary"),
        ("SELECT * FROM order_s", "did you mean 'orders'"),
        ("SELECT FROBNICATE(id) FROM orders", "FROBNICATE"),
        ("SELECT UPPR(k) FROM orders", "did you mean UPPER"),
        ("SELECT BITMAP_BUILD(ARRAY[1])", "there is no type BITMAP"),
        ("SELECT UPPER(k, k) FROM orders", "UPPER"),
        ("SELECT id FROM orders WHERE id", "WHERE"),
        ("SELECT id FROM orders a, orders b", "ambiguous"),
        ("SELECT k, COUNT(*) FROM orders", "'k' is not being grouped"),
        ("SELECT SUM(COUNT(id)) FROM orders", "nested"),
        ("SELECT id FROM orders WHERE COUNT(*) > 1", "illegal in WHERE"),
        ("SELECT id FROM orders UNION ALL SELECT id, k FROM orders", "UNION"),
        ("SELECT 1 = '1'", "CAST"),
        ("SELECT CAST(DATE '2024-01-01' AS INT)", "DATE"),
        ("SELECT\n  id,\n  nothing FROM orders", "From line 3, column 3"),
    ],
)
def test_invalid_queries_name_what_is_wrong(sql, words):
    with pytest.raises(ValidationException) as caught:
        plan(sql)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT SUM(n) OVER (PARTITION BY k ORDER BY ts DESC) FROM orders", "ASCENDING"),
        ("SELECT SUM(n) OVER (PARTITION BY k) FROM orders", "ORDER BY"),
        ("SELECT LEAD(n) OVER (ORDER BY ts) FROM orders", "LEAD"),
        ("SELECT id FROM orders ORDER BY n", "LIMIT"),
        (f"SELECT COUNT(*) FROM {UNEVEN} GROUP BY window_start, window_end", "multiple of slide"),
        (RANKED.format(order="n", limit="> 2"), "rn <= 10"),
    ],
)
def test_queries_that_streams_reject(sql, words):
    with pytest.raises(TableException) as caught:
        check(plan(sql), is_streaming=True)
    assert words in str(caught.value)


def test_unnest_names_its_columns():
    sql = "SELECT id, v, i FROM orders CROSS JOIN UNNEST(ARRAY[n, 2]) WITH ORDINALITY AS u(v, i)"
    made = plan(sql)
    assert made.schema.names == ["id", "v", "i"]
    assert find(made, n.Correlate).with_ordinality
    assert plan("SELECT x FROM UNNEST(ARRAY[1, 2]) AS u(x)").schema.names == ["x"]


@pytest.mark.parametrize(
    ("relation", "names"),
    [
        ("UNNEST(ARRAY[1, 2]) AS city", ["city"]),
        ("UNNEST(ARRAY[1, 2]) WITH ORDINALITY AS city", ["city", "ORDINALITY"]),
        ("UNNEST(MAP['a', 1]) AS pair", ["KEY", "VALUE"]),
        ("(VALUES (1), (2)) AS city", ["city"]),
        ("(VALUES (1, 2)) AS pair", ["EXPR$0", "EXPR$1"]),
    ],
)
def test_an_alias_without_columns_names_a_sole_column(relation, names):
    assert plan(f"SELECT * FROM {relation}").schema.names == names


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT * FROM orders JOIN rates USING (k)", "k id n ts rate ts0"),
        ("SELECT * FROM orders NATURAL JOIN rates", "k ts id n rate"),
        ("SELECT * FROM orders LEFT JOIN rates USING (ts, k)", "ts k id n rate"),
        ("SELECT orders.* FROM orders JOIN rates USING (k)", "id k n ts"),
    ],
)
def test_columns_of_using_are_first(query, columns):
    assert plan(query).schema.names == columns.split()


def test_a_column_of_using_is_not_null_if_a_joined_side_is():
    kinds = {
        side: plan(f"SELECT k FROM orders {side} JOIN rates USING (k)").schema.fields[0].type
        for side in ("INNER", "LEFT", "RIGHT", "FULL")
    }
    assert [side for side, kind in kinds.items() if kind.is_nullable] == ["LEFT", "FULL"]


def test_the_time_of_a_match_is_not_null():
    node = plan(
        "SELECT rt FROM orders MATCH_RECOGNIZE (ORDER BY ts MEASURES MATCH_ROWTIME() AS rt "
        "PATTERN (A) DEFINE A AS A.n > 1)"
    )
    assert not node.schema.fields[0].type.is_nullable
