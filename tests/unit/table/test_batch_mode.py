"""In batch mode, rows that become final at the end of the input reach later operators in time."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from unit.table.running import HarnessTable, run, settled


def table(name, *columns):
    return HarnessTable.of(name, **dict.fromkeys(columns, types.IntType()))


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT t.a, i.m FROM t JOIN (SELECT a, SUM(c) AS m FROM u GROUP BY a) AS i "
            "ON t.a = i.a",
            {(1, 7): 2, (2, 3): 1},
        ),
        ("SELECT a, (SELECT COUNT(*) FROM u WHERE u.a = t.a) FROM t", {(1, 2): 2, (2, 1): 1}),
        (
            "SELECT a, m FROM (SELECT a, m, ROW_NUMBER() OVER (ORDER BY m DESC) AS rn FROM "
            "(SELECT a, SUM(b) AS m FROM t GROUP BY a)) WHERE rn = 1",
            {(1, 5): 1},
        ),
        (
            "SELECT t.b FROM t JOIN (SELECT a FROM t INTERSECT SELECT a FROM u) AS i ON t.a = i.a",
            {(2,): 1, (3,): 1, (4,): 1},
        ),
        (
            "SELECT t.b, i.r FROM t JOIN (SELECT a, RANK() OVER (ORDER BY a) AS r FROM u) AS i "
            "ON t.a = i.a WHERE t.a = 2",
            {(4, 3): 1},
        ),
        (
            "SELECT t.b FROM t JOIN (SELECT a FROM u ORDER BY c DESC LIMIT 2) AS i ON t.a = i.a",
            {(2,): 1, (3,): 1, (4,): 1},
        ),
        ("SELECT a FROM t WHERE b > (SELECT AVG(c) FROM u)", {(2,): 1}),
    ],
)
def test_final_rows_are_joined_and_ranked(sql, rows):
    given = [("t", [(1, 2), (1, 3), (2, 4)]), ("u", [(1, 5), (1, 2), (2, 3)])]
    tables = [table("t", "a", "b"), table("u", "a", "c")]
    assert settled(run(sql, tables, given, is_streaming=False)) == rows
