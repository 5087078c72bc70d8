"""Columns that nobody uses are not exchanged or kept: plans give the same rows without them."""

import datetime
import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.table.functions.evaluation import Session
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.context import PlanningContext
from penstock.table.plan.queries import bind_query
from penstock.table.plan.rules import optimized
from penstock.table.planning.narrowing import Narrowing
from penstock.table.sql.parsing import parse_query
from unit.table import running
from unit.table.planning import ROWTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery, settled

START = datetime.datetime(2024, 1, 1)
COLUMNS = {"k": TEXT, "n": types.IntType(), "a": TEXT, "m": types.IntType(), "ts": ROWTIME}
DERIVED = "(SELECT k, n, a, UPPER(a) AS b, m + 1 AS m, ts FROM t WHERE m > 1)"
HOP = "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND))"
SESSION = "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND))"
FIRST = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY m, n) AS place FROM"

#: Queries, and the columns that the plan has below its joins, windows and ranks.
QUERIES = {
    "SELECT d.b, u.n FROM {DERIVED} d JOIN u ON d.k = u.k AND d.n <= u.m": ["k n b", "k n m"],
    "SELECT t.n, v.n FROM t LEFT JOIN (SELECT * FROM u WHERE m > 2) v ON t.k = v.k": ["k n", "k n"],
    "SELECT u.a, COUNT(*) FROM t RIGHT JOIN u ON t.k = u.k GROUP BY u.a": ["k", "k a"],
    "SELECT t.a FROM t WHERE t.k IN (SELECT k FROM u WHERE m > 2)": ["k a", "k"],
    "SELECT COUNT(*) FROM t FULL JOIN u ON t.k = u.k AND t.m = u.m": ["k m", "k m"],
    "SELECT t.a, u.a FROM t JOIN u ON t.k = u.k AND u.ts BETWEEN t.ts - INTERVAL '1' SECOND "
    "AND t.ts": ["k a ts", "k a ts"],
    "SELECT window_end, k, SUM(m) FROM {HOP} GROUP BY k, window_start, window_end": ["k m ts"],
    "SELECT window_end, MAX(n) FROM {SESSION} GROUP BY window_start, window_end": ["k n ts"],
    "SELECT k, n FROM ({FIRST} t) WHERE place <= 2": ["k n m"],
    "SELECT place, n FROM ({FIRST} {DERIVED}) WHERE place <= 2": ["k n m"],
    "SELECT x.a, y.s FROM (SELECT a, window_end AS e, window_start AS s FROM {HOP}) x JOIN "
    "(SELECT window_end AS e, window_start AS s, COUNT(*) FROM {HOP} GROUP BY window_end, "
    "window_start) y ON x.e = y.e AND x.s = y.s": ["a ts", "ts"],
    "SELECT a, SUM(n) OVER (PARTITION BY k ORDER BY ts) FROM t": [],
}


def tables():
    return [HarnessTable.of(name, **COLUMNS) for name in ("t", "u")]


def rows(seed):
    drawn = random.Random(seed)
    return [
        (
            drawn.choice(["x", "y", None]),
            drawn.randint(0, 3),
            drawn.choice("ab"),
            drawn.randint(0, 4),
            START + second * datetime.timedelta(seconds=1),
        )
        for second in range(24)
    ]


def text_of(query):
    return query.format(DERIVED=DERIVED, HOP=HOP, SESSION=SESSION, FIRST=FIRST)


def changes(sql):
    query = RunningQuery(sql, tables())
    for start in range(0, 24, 8):
        query.give("t", rows(1)[start : start + 8])
        query.give("u", rows(2)[start : start + 8])
    query.end()
    found = query.changes()
    query.close()
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_the_same_without_unused_columns(monkeypatch, query):
    expected = changes(text_of(query))

    def narrowed(*arguments):
        [made] = Narrowing([optimized(bind_query(*arguments), is_streaming=True)]).narrowed()
        return made

    monkeypatch.setattr(running, "bind_query", narrowed)
    found = changes(text_of(query))
    assert expected
    assert settled(found) == settled(expected)


def narrow_inputs(node):
    """Return the columns of the inputs of joins, windows and ranks."""
    found = []
    if isinstance(node, n.Join | n.Rank | n.WindowTableFunction):
        found = [" ".join(child.schema.names) for child in node.inputs]
        if isinstance(node, n.WindowJoin):
            found = []
    return found + [text for child in node.inputs for text in narrow_inputs(child)]


def planned(sql):
    nodes = {table.name: table.node() for table in tables()}
    context = PlanningContext(
        lambda path, _: nodes.get(path[-1]), is_streaming=True, text=sql, session=Session()
    )
    return optimized(bind_query(parse_query(sql), context), is_streaming=True)


@pytest.mark.parametrize(("query", "expected"), QUERIES.items())
def test_joins_windows_and_ranks_have_the_used_columns(query, expected):
    # Each reads its own node of the table: a node that is read twice keeps all columns.
    node = planned(text_of(query))
    [made] = Narrowing([node]).narrowed()
    assert made.schema == node.schema
    assert narrow_inputs(made) == expected


def test_constants_of_shared_nodes_need_no_column():
    """A projection without used columns keeps its first one, which it did not read before."""
    table = tables()[0].node()
    one = e.Literal(types.IntType(nullable=False), 1)
    read = n.project(table, n.columns(table)[:3], ["k", "n", "a"])
    again = n.project(read, n.columns(read)[::-1], ["a", "n", "k"])
    shared = n.project(again, [one, n.columns(again)[2]], ["one", "k"])
    plans = [
        *(n.project(shared, n.columns(shared)[:1], [name]) for name in ("one", "other")),
        n.project(again, [one], ["one"]),
        n.project(read, n.columns(read)[:1], ["k"]),
    ]
    assert [made.schema for made in Narrowing(plans).narrowed()] == [p.schema for p in plans]
