"""Generated queries over generated tables have DuckDB's results.

A seed generates tables and queries, which run as a stream of small batches, with mini-batches, in
batch mode, or as a stream that is snapshotted somewhere and continues in another harness.  Changes
must be consistent: no change removes a missing row.  `make test-all` runs 20,000 queries.
"""

import random
from collections import Counter

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import duckdb
from penstock.table import types
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery, run, settled

SEEDS = 40
QUERIES_OF_A_SEED = 500
#: So many queries after each other have the same rows.
QUERIES_OF_ROWS = 10

COLUMNS = {
    "t": {"a": types.IntType(), "b": types.IntType(), "s": TEXT},
    "u": {"a": types.IntType(), "c": types.IntType()},
}
INTS = (None, *range(-3, 4))
TEXTS = (None, "", "x", "yy", "X%")


def tables():
    return [HarnessTable.of(name, **columns) for name, columns in COLUMNS.items()]


class Draw(random.Random):
    """Draws parts of queries, and rows."""

    def __call__(self, choices):
        return self.choice(choices)

    def some(self, choices, most):
        """Draw between one and so many, repeated or not."""
        return self.choices(choices, k=self.randint(1, most))

    def rows(self):
        """Draw the rows of both tables."""
        return {
            "t": [(self(INTS), self(INTS), self(TEXTS)) for _ in range(self.randint(0, 8))],
            "u": [(self(INTS), self(INTS)) for _ in range(self.randint(0, 6))],
        }


SCALARS = (
    "a", "b", "s", "a + b", "a * 2 - b", "-a", "ABS(a)", "COALESCE(a, b, 0)", "UPPER(s)",
    "s || 'z'", "CASE WHEN a > b THEN 'gt' WHEN a = b THEN 'eq' END", "CHAR_LENGTH(s)",
    "NULLIF(a, 1)", "GREATEST(COALESCE(a, 0), COALESCE(b, 0))", "CAST(a AS BIGINT)",
    "a IS NULL", "SUBSTRING(s, 1, 1)", "a BETWEEN b AND 2", "s LIKE 'x%'", "MOD(a, 2)",
)  # fmt: skip
CONDITIONS = (
    "a > 0", "b IS NOT NULL", "a = b", "a <> b OR b > 1", "NOT (a > b)", "s = 'x'",
    "a IN (1, 2, NULL)", "a NOT IN (1, 2)", "s LIKE '%y'", "a IS NOT DISTINCT FROM b",
    "a + b > 1 AND s IS NOT NULL", "COALESCE(a, -5) < COALESCE(b, 5)",
    "b <> 0 AND a * 10 > b",
)  # fmt: skip
AGGREGATES = (
    "COUNT(*)", "COUNT(a)", "SUM(a)", "MIN(b)", "MAX(a)", "COUNT(DISTINCT b)",
    "SUM(DISTINCT a)", "COUNT(*) FILTER (WHERE a > 0)", "MAX(s)", "SUM(a + b)", "MIN(s)",
)  # fmt: skip


def _where(draw, prefix=" WHERE "):
    return prefix + draw(CONDITIONS) if draw((True, False)) else ""


def _projection(draw):
    columns = ", ".join(draw.some(SCALARS, 3))
    return f"SELECT {draw(['', 'DISTINCT '])}{columns} FROM t{_where(draw)}"


def _grouped(draw):
    key = draw(["a", "s", "a + b", "COALESCE(b, 0)"])
    calls = ", ".join(draw.some(AGGREGATES, 3))
    having = draw(["", " HAVING COUNT(*) > 1", " HAVING MAX(a) > 0"])
    return f"SELECT {key}, {calls} FROM t{_where(draw)} GROUP BY {key}{having}"


def _nested(draw):
    call = draw(["SUM", "MAX", "MIN", "COUNT"])
    return (
        f"SELECT m, COUNT(*), {call}(k) FROM (SELECT a AS k, {draw(AGGREGATES)} AS m FROM t"
        f"{_where(draw)} GROUP BY a) AS i GROUP BY m"
    )


def _joined(draw):
    kind = draw(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    extra = draw(["", " AND t.b > 0", " AND u.c > 0", " AND t.b < u.c"])
    return f"SELECT t.a, t.b, t.s, u.a, u.c FROM t {kind} u ON t.a = u.a{extra}"


def _joined_groups(draw):
    kind = draw(["JOIN", "LEFT JOIN", "FULL JOIN"])
    return (
        f"SELECT t.s, i.m FROM t {kind} (SELECT a, {draw(['SUM(c)', 'MAX(c)'])} "
        "AS m FROM u GROUP BY a) AS i ON t.a = i.a"
    )


def _subquery(draw):
    return draw(
        [
            "SELECT a, b, s FROM t WHERE a IN (SELECT a FROM u)",
            "SELECT a, b, s FROM t WHERE a NOT IN (SELECT a FROM u)",
            "SELECT a, b, s FROM t WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL)",
            "SELECT a, b, s FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND c > 0)",
            "SELECT a, s FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
            "SELECT a, b FROM t WHERE b > (SELECT MIN(c) FROM u)",
            "SELECT a, b FROM t WHERE b = (SELECT MAX(c) FROM u WHERE u.a = t.a)",
            "SELECT a, (SELECT COUNT(*) FROM u WHERE u.a = t.a) FROM t",
            "SELECT a FROM t WHERE b > 1 OR a IN (SELECT a FROM u)",
            "SELECT a, b NOT IN (SELECT c FROM u WHERE u.a = t.a) FROM t",
            "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND c > 0) FROM t",
            "SELECT t.a, l.c FROM t, LATERAL (SELECT c FROM u WHERE u.a = t.a AND c > b) AS l",
            "SELECT t.a, l.m FROM t LEFT JOIN LATERAL (SELECT SUM(c) AS m, COUNT(*) AS n FROM "
            "u WHERE u.a = t.a) AS l ON TRUE",
        ]
    )


def _set_operation(draw):
    name = draw(["UNION", "INTERSECT", "EXCEPT"])
    every = draw(["", " ALL"])
    return f"SELECT a, b FROM t{_where(draw)} {name}{every} SELECT a, c FROM u"


def _first_rows(draw):
    number = draw.randint(1, 3)
    order = draw(["b DESC NULLS LAST", "b NULLS FIRST"])
    rank = draw([", rn", ""])
    return (
        f"SELECT a, b, s{rank} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY {order}, "
        f"s NULLS FIRST) AS rn FROM t) AS i WHERE rn <= {number}"
    )


def _over(draw):
    call = draw(["SUM(b)", "COUNT(*)", "MAX(b)", "COUNT(b)"])
    return f"SELECT a, b, {call} OVER (PARTITION BY a ORDER BY b NULLS FIRST) FROM t"


def _grouping_sets(draw):
    # Without the empty grouping set, which over no rows is one row in DuckDB and none in Flink.
    sets = draw(["GROUPING SETS ((a), (s), (a, s))", "a, ROLLUP (s)", "s, CUBE (a)"])
    calls = ", ".join(draw.some(AGGREGATES, 2))
    return f"SELECT a, s, {calls}, GROUPING(a) FROM t{_where(draw)} GROUP BY {sets}"


def _three_relations(draw):
    first, second = (draw(["JOIN", "LEFT JOIN", "FULL JOIN"]) for _ in range(2))
    return (
        f"SELECT t.a, t.b, u.c, i.n FROM t {first} u ON t.a = u.a {second} (SELECT b, COUNT(*) AS "
        f"n FROM t{_where(draw)} GROUP BY b) AS i ON i.b = u.c"
    )


def _grouped_join(draw):
    kind = draw(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    call = draw(["SUM(u.c)", "COUNT(t.b)", "MAX(t.s)", "COUNT(DISTINCT u.c)"])
    return f"SELECT t.a, COUNT(*), {call} FROM t {kind} u ON t.a = u.a GROUP BY t.a"


def _united_groups(draw):
    every = draw([" ALL", ""])
    return (
        f"SELECT a, COUNT(*) FROM t{_where(draw)} GROUP BY a UNION{every} SELECT a, MAX(c) FROM u "
        "GROUP BY a"
    )


def _first_groups(draw):
    return (
        "SELECT a, n, m FROM (SELECT a, n, m, ROW_NUMBER() OVER (ORDER BY n DESC, a NULLS FIRST) "
        f"AS rn FROM (SELECT a, COUNT(*) AS n, {draw(AGGREGATES)} AS m FROM t{_where(draw)} "
        f"GROUP BY a) AS g) AS r WHERE rn <= {draw.randint(1, 3)}"
    )


FORMS = (
    _grouping_sets,
    _three_relations,
    _grouped_join,
    _united_groups,
    _first_groups,
    _projection,
    _grouped,
    _nested,
    _joined,
    _joined_groups,
    _subquery,
    _set_operation,
    _first_rows,
    _over,
)


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a INT, b INT, s TEXT)")
        connection.execute("CREATE TABLE u (a INT, c INT)")
        yield connection


def fill(connection, rows):
    """Replace the rows of DuckDB's tables."""
    for name, found in rows.items():
        connection.execute(f"DELETE FROM {name}")
        if found:
            marks = ", ".join(f"({', '.join('?' for _ in row)})" for row in found)
            values = [value for row in found for value in row]
            connection.execute(f"INSERT INTO {name} VALUES {marks}", values)


def expected(connection, sql, rows):
    """Return the bag of rows that DuckDB returns."""
    fill(connection, rows)
    return Counter(connection.execute(sql).fetchall())


def parted(rows, size):
    """Return batches of both tables, alternately."""
    batches = []
    for start in range(0, max(map(len, rows.values())), size):
        batches.extend((name, found[start : start + size]) for name, found in rows.items())
    return batches


def stream(sql, batches, draw):
    del draw
    return run(sql, tables(), batches)


def mini_batches(sql, batches, draw):
    del draw
    return run(sql, tables(), batches, settings={"table.exec.mini-batch.enabled": "true"})


def batch_mode(sql, batches, draw):
    del draw
    made = run(sql, tables(), batches, is_streaming=False)
    assert {kind for kind, _ in made} <= {0}
    return made


def snapshotted(sql, batches, draw):
    """Restore a snapshot that is taken between two batches."""
    at = draw.randint(0, len(batches))
    first = RunningQuery(sql, tables())
    for table, found in batches[:at]:
        first.give(table, found)
    first.harness.run_sources()
    snapshot = first.harness.snapshot(1)
    before = first.changes()
    first.close()
    second = RunningQuery(sql, tables(), restored=snapshot)
    for table, found in batches[at:]:
        second.give(table, found)
    second.end()
    changes = before + second.changes()
    second.close()
    return changes


WAYS = (stream, stream, stream, mini_batches, batch_mode, snapshotted)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, SEEDS))]
)
def test_generated_queries(database, seed):
    draw = Draw(seed)
    for number in range(QUERIES_OF_A_SEED):
        if number % QUERIES_OF_ROWS == 0:
            rows = draw.rows()
            fill(database, rows)
        sql, way, size = draw(FORMS)(draw), draw(WAYS), draw.randint(1, 8)
        wanted = Counter(database.execute(sql).fetchall())
        found = settled(way(sql, parted(rows, size), draw))
        assert found == wanted, f"query {number} of the seed, {way.__name__}: {sql} over {rows}"
