"""Subqueries of all kinds and places return DuckDB's results, in streaming and batch mode."""

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import duckdb
from penstock.table.exceptions import TableException
from unit.table.running import run, settled
from unit.table.test_against_duckdb import expected, parted, tables

ROWS = {
    "t": [(1, 2, "x"), (1, 3, "yy"), (2, None, None), (None, 1, "x"), (3, 3, "X%"), (-1, 0, "")],
    "u": [(1, 5), (1, 2), (2, 3), (None, 4), (2, 3), (3, None)],
}
QUERIES = [
    "SELECT a, b FROM t WHERE a = 3 OR EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND c > 4)",
    "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a = t.a) FROM t",
    "SELECT a, NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a) FROM t",
    "SELECT a, a IN (SELECT a FROM u) FROM t",
    "SELECT a, a NOT IN (SELECT a FROM u WHERE a IS NOT NULL) FROM t",
    "SELECT a, b IN (SELECT c FROM u WHERE u.a = t.a) FROM t",
    "SELECT a, b FROM t WHERE b > 2 OR a IN (SELECT a FROM u)",
    "SELECT a, b FROM t WHERE b > 2 OR a NOT IN (SELECT a FROM u)",
    "SELECT CASE WHEN a IN (SELECT a FROM u) THEN 1 WHEN EXISTS (SELECT 1 FROM u) THEN 2 END "
    "FROM t",
    "SELECT a, b FROM t WHERE a = 1 AND (b = 3 OR b IN (SELECT c FROM u WHERE u.a = t.a))",
    "SELECT a FROM t WHERE NOT (a IN (SELECT a FROM u) AND b > 1)",
    "SELECT a, (SELECT c FROM u WHERE u.a = t.a AND c > 4) FROM t",
    "SELECT a, (SELECT COUNT(*) + 1 FROM u WHERE u.a = t.a) FROM t",
    "SELECT a, (SELECT COALESCE(SUM(c), 7) FROM u WHERE u.a = t.a) FROM t",
    "SELECT a, (SELECT MAX(c) + t.a FROM u WHERE u.a = t.a) FROM t",
    "SELECT a, (SELECT c FROM u WHERE u.a = t.a ORDER BY c DESC NULLS LAST LIMIT 1) FROM t",
    "SELECT COUNT(*) FROM t WHERE (SELECT COUNT(*) FROM u WHERE u.a = t.a) = 2",
    "SELECT a, (SELECT COUNT(*) FROM u WHERE (u.a = t.a AND c > 4) OR (u.a = t.a AND c = 3)) "
    "FROM t",
    "SELECT a, (SELECT MAX(c) FROM u WHERE u.a = t.a OR (u.a = t.a AND c < 3)) FROM t",
    "SELECT a, COUNT(*), (SELECT MAX(c) FROM u WHERE u.a = t.a) FROM t GROUP BY a",
    "SELECT b, COUNT(*) FROM t GROUP BY b HAVING EXISTS (SELECT 1 FROM u WHERE u.c = t.b)",
    "SELECT t.a, t.b, l.c FROM t, LATERAL (SELECT c FROM u WHERE u.a = t.a) AS l",
    "SELECT t.a, l.c FROM t LEFT JOIN LATERAL (SELECT c + t.a AS c FROM u WHERE u.a = t.a AND "
    "c > t.b) AS l ON TRUE",
    "SELECT t.a, l.c FROM t, LATERAL (SELECT c FROM u WHERE u.a = t.a ORDER BY c DESC NULLS LAST "
    "LIMIT 1) AS l",
    "SELECT t.a, l.n FROM t, LATERAL (SELECT COUNT(*) AS n FROM u WHERE u.a = t.a) AS l",
    "SELECT t.a, l.n, l.m FROM t CROSS JOIN LATERAL (SELECT COUNT(c), SUM(c) FROM u WHERE "
    "u.a = t.a) AS l(n, m)",
    "SELECT a, COUNT(DISTINCT b) FILTER (WHERE b > 1), SUM(DISTINCT b) FILTER (WHERE b < 3) "
    "FROM t GROUP BY a",
    "SELECT a, c FROM t FULL JOIN u USING (a)",
    "SELECT * FROM t FULL JOIN u USING (a)",
    "SELECT a, c FROM t RIGHT JOIN u USING (a)",
    "SELECT * FROM t RIGHT JOIN u USING (a)",
    "SELECT a, t.a, u.a FROM t RIGHT JOIN u USING (a)",
]


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a INT, b INT, s TEXT)")
        connection.execute("CREATE TABLE u (a INT, c INT)")
        yield connection


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize("sql", QUERIES)
def test_results_are_those_of_duckdb(database, sql, is_streaming):
    made = run(sql, tables(), parted(ROWS, 3), is_streaming=is_streaming)
    assert settled(made) == expected(database, sql, ROWS)


def test_a_correlated_value_must_be_one():
    sql = "SELECT a, (SELECT c FROM u WHERE u.a = t.a) FROM t"
    with pytest.raises(TableException, match="received more than one element"):
        run(sql, tables(), parted(ROWS, 3))


def test_correlations_that_cannot_be_decorrelated_are_rejected():
    sql = "SELECT a, (SELECT COUNT(*) FROM u WHERE u.a > t.a) FROM t"
    with pytest.raises(TableException, match="supported for equalities"):
        run(sql, tables(), [])
