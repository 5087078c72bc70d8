"""ANY, SOME and ALL return DuckDB's results, as conditions and as values of three kinds."""

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import duckdb
from penstock.table.exceptions import ValidationException
from unit.table.running import run, settled
from unit.table.test_against_duckdb import expected, parted, tables

ROWS = {
    "t": [(1, 2, "x"), (1, 5, "yy"), (2, None, None), (None, 1, "x"), (3, 3, "X%"), (4, 0, "")],
    "u": [(1, 5), (1, 2), (2, 3), (None, 4), (2, 3), (3, None)],
}
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
SUBQUERIES = (
    "SELECT c FROM u",
    "SELECT c FROM u WHERE c > 9",
    "SELECT c FROM u WHERE c = 3",
)


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a INT, b INT, s TEXT)")
        connection.execute("CREATE TABLE u (a INT, c INT)")
        yield connection


@pytest.mark.parametrize("subquery", SUBQUERIES)
@pytest.mark.parametrize("quantifier", ["ANY", "ALL"])
def test_comparisons_have_three_values(database, quantifier, subquery):
    # Not all in one query: each is a join, and joins the changes of all before it.
    for pair in zip(OPERATORS[::2], OPERATORS[1::2], strict=True):
        tests = ", ".join(f"b {operator} {quantifier} ({subquery})" for operator in pair)
        sql = f"SELECT a, b, {tests} FROM t"
        assert settled(run(sql, tables(), parted(ROWS, 3))) == expected(database, sql, ROWS)


@pytest.mark.parametrize(
    ("condition", "is_streaming"),
    [
        ("NOT b > ANY (SELECT c FROM u) OR b = ANY (SELECT c FROM u) OR a = 4", True),
        ("b > ALL (SELECT c FROM u WHERE c < 4)", False),
        ("b >= ANY (SELECT c FROM u WHERE u.a = t.a)", True),
        ("b <= ALL (SELECT c FROM u WHERE u.a = t.a)", True),
        ("b <> ANY (SELECT c FROM u WHERE u.a = t.a)", False),
    ],
)
def test_conditions(database, condition, is_streaming):
    sql = f"SELECT a, b FROM t WHERE {condition}"
    made = run(sql, tables(), parted(ROWS, 3), is_streaming=is_streaming)
    assert settled(made) == expected(database, sql, ROWS)


def test_lists_of_values(database):
    sql = "SELECT b > SOME (2, 3), b > ALL (2, 3), b <> ALL (2, 3), b = ANY (2) FROM t"
    same = "SELECT b > 2 OR b > 3, b > 2 AND b > 3, b NOT IN (2, 3), b = 2 FROM t"
    assert settled(run(sql, tables(), parted(ROWS, 3))) == expected(database, same, ROWS)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("s LIKE ANY (SELECT s FROM t)", "not with LIKE"),
        ("b > ANY (SELECT a, c FROM u)", "subquery of one column, this one has 2"),
    ],
)
def test_other_comparisons_are_refused(condition, message):
    with pytest.raises(ValidationException, match=message):
        run(f"SELECT a FROM t WHERE {condition}", tables(), [])
