"""Generated queries over generated tables have DuckDB's results.

Tables arrive in batches, in streaming mode and in batch mode; in streaming mode the operators are
also snapshotted halfway and continue in another harness.  Changes must be consistent: no change
removes a missing row.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import duckdb
from penstock.table import types
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery, run, settled

COLUMNS = {
    "t": {"a": types.IntType(), "b": types.IntType(), "s": TEXT},
    "u": {"a": types.IntType(), "c": types.IntType()},
}
INTS = st.one_of(st.none(), st.integers(-3, 3))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "x", "yy", "X%"]))
ROWS = {
    "t": st.lists(st.tuples(INTS, INTS, TEXTS), max_size=8),
    "u": st.lists(st.tuples(INTS, INTS), max_size=6),
}


def tables():
    return [HarnessTable.of(name, **columns) for name, columns in COLUMNS.items()]


SCALARS = st.sampled_from(
    [
        "a", "b", "s", "a + b", "a * 2 - b", "-a", "ABS(a)", "COALESCE(a, b, 0)", "UPPER(s)",
        "s || 'z'", "CASE WHEN a > b THEN 'gt' WHEN a = b THEN 'eq' END", "CHAR_LENGTH(s)",
        "NULLIF(a, 1)", "GREATEST(COALESCE(a, 0), COALESCE(b, 0))", "CAST(a AS BIGINT)",
        "a IS NULL", "SUBSTRING(s, 1, 1)", "a BETWEEN b AND 2", "s LIKE 'x%'", "MOD(a, 2)",
    ]
)  # fmt: skip
CONDITIONS = st.sampled_from(
    [
        "a > 0", "b IS NOT NULL", "a = b", "a <> b OR b > 1", "NOT (a > b)", "s = 'x'",
        "a IN (1, 2, NULL)", "a NOT IN (1, 2)", "s LIKE '%y'", "a IS NOT DISTINCT FROM b",
        "a + b > 1 AND s IS NOT NULL", "COALESCE(a, -5) < COALESCE(b, 5)",
        "b <> 0 AND a * 10 > b",
    ]
)  # fmt: skip
AGGREGATES = st.sampled_from(
    [
        "COUNT(*)", "COUNT(a)", "SUM(a)", "MIN(b)", "MAX(a)", "COUNT(DISTINCT b)",
        "SUM(DISTINCT a)", "COUNT(*) FILTER (WHERE a > 0)", "MAX(s)", "SUM(a + b)", "MIN(s)",
    ]
)  # fmt: skip


@st.composite
def queries(draw):
    """Draw a query that both engines understand."""
    kind = draw(st.sampled_from(list(FORMS)))
    return FORMS[kind](draw)


def _where(draw, prefix=" WHERE "):
    return prefix + draw(CONDITIONS) if draw(st.booleans()) else ""


def _projection(draw):
    columns = ", ".join(draw(st.lists(SCALARS, min_size=1, max_size=3)))
    return f"SELECT {draw(st.sampled_from(['', 'DISTINCT ']))}{columns} FROM t{_where(draw)}"


def _grouped(draw):
    key = draw(st.sampled_from(["a", "s", "a + b", "COALESCE(b, 0)"]))
    calls = ", ".join(draw(st.lists(AGGREGATES, min_size=1, max_size=3)))
    having = draw(st.sampled_from(["", " HAVING COUNT(*) > 1", " HAVING MAX(a) > 0"]))
    return f"SELECT {key}, {calls} FROM t{_where(draw)} GROUP BY {key}{having}"


def _nested(draw):
    call = draw(st.sampled_from(["SUM", "MAX", "MIN", "COUNT"]))
    return (
        f"SELECT m, COUNT(*), {call}(k) FROM (SELECT a AS k, {draw(AGGREGATES)} AS m FROM t"
        f"{_where(draw)} GROUP BY a) AS i GROUP BY m"
    )


def _joined(draw):
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
    extra = draw(st.sampled_from(["", " AND t.b > 0", " AND u.c > 0", " AND t.b < u.c"]))
    return f"SELECT t.a, t.b, t.s, u.a, u.c FROM t {kind} u ON t.a = u.a{extra}"


def _joined_groups(draw):
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "FULL JOIN"]))
    return (
        f"SELECT t.s, i.m FROM t {kind} (SELECT a, {draw(st.sampled_from(['SUM(c)', 'MAX(c)']))} "
        "AS m FROM u GROUP BY a) AS i ON t.a = i.a"
    )


def _subquery(draw):
    return draw(
        st.sampled_from(
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
    )


def _set_operation(draw):
    name = draw(st.sampled_from(["UNION", "INTERSECT", "EXCEPT"]))
    every = draw(st.sampled_from(["", " ALL"]))
    return f"SELECT a, b FROM t{_where(draw)} {name}{every} SELECT a, c FROM u"


def _first_rows(draw):
    number = draw(st.integers(1, 3))
    order = draw(st.sampled_from(["b DESC NULLS LAST", "b NULLS FIRST"]))
    rank = draw(st.sampled_from([", rn", ""]))
    return (
        f"SELECT a, b, s{rank} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY {order}, "
        f"s NULLS FIRST) AS rn FROM t) AS i WHERE rn <= {number}"
    )


def _over(draw):
    call = draw(st.sampled_from(["SUM(b)", "COUNT(*)", "MAX(b)", "COUNT(b)"]))
    return f"SELECT a, b, {call} OVER (PARTITION BY a ORDER BY b NULLS FIRST) FROM t"


def _grouping_sets(draw):
    # Without the empty grouping set, which over no rows is one row in DuckDB and none in Flink.
    sets = draw(
        st.sampled_from(["GROUPING SETS ((a), (s), (a, s))", "a, ROLLUP (s)", "s, CUBE (a)"])
    )
    calls = ", ".join(draw(st.lists(AGGREGATES, min_size=1, max_size=2)))
    return f"SELECT a, s, {calls}, GROUPING(a) FROM t{_where(draw)} GROUP BY {sets}"


def _three_relations(draw):
    first, second = (draw(st.sampled_from(["JOIN", "LEFT JOIN", "FULL JOIN"])) for _ in range(2))
    return (
        f"SELECT t.a, t.b, u.c, i.n FROM t {first} u ON t.a = u.a {second} (SELECT b, COUNT(*) AS "
        f"n FROM t{_where(draw)} GROUP BY b) AS i ON i.b = u.c"
    )


def _grouped_join(draw):
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
    call = draw(st.sampled_from(["SUM(u.c)", "COUNT(t.b)", "MAX(t.s)", "COUNT(DISTINCT u.c)"]))
    return f"SELECT t.a, COUNT(*), {call} FROM t {kind} u ON t.a = u.a GROUP BY t.a"


def _united_groups(draw):
    every = draw(st.sampled_from([" ALL", ""]))
    return (
        f"SELECT a, COUNT(*) FROM t{_where(draw)} GROUP BY a UNION{every} SELECT a, MAX(c) FROM u "
        "GROUP BY a"
    )


def _first_groups(draw):
    return (
        "SELECT a, n, m FROM (SELECT a, n, m, ROW_NUMBER() OVER (ORDER BY n DESC, a NULLS FIRST) "
        f"AS rn FROM (SELECT a, COUNT(*) AS n, {draw(AGGREGATES)} AS m FROM t{_where(draw)} "
        f"GROUP BY a) AS g) AS r WHERE rn <= {draw(st.integers(1, 3))}"
    )


FORMS = {
    "grouping_sets": _grouping_sets,
    "three_relations": _three_relations,
    "grouped_join": _grouped_join,
    "united_groups": _united_groups,
    "first_groups": _first_groups,
    "projection": _projection,
    "grouped": _grouped,
    "nested": _nested,
    "joined": _joined,
    "joined_groups": _joined_groups,
    "subquery": _subquery,
    "set_operation": _set_operation,
    "first_rows": _first_rows,
    "over": _over,
}


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a INT, b INT, s TEXT)")
        connection.execute("CREATE TABLE u (a INT, c INT)")
        yield connection


def expected(connection, sql, rows):
    """Return the bag of rows that DuckDB returns."""
    for name, found in rows.items():
        connection.execute(f"DELETE FROM {name}")
        if found:
            marks = ", ".join("?" for _ in found[0])
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", found)
    return Counter(connection.execute(sql).fetchall())


def parted(rows, size):
    """Return batches of both tables, alternately."""
    batches = []
    for start in range(0, max(map(len, rows.values())), size):
        batches.extend((name, found[start : start + size]) for name, found in rows.items())
    return batches


@given(sql=queries(), t=ROWS["t"], u=ROWS["u"], size=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_streams(database, sql, t, u, size):
    rows = {"t": t, "u": u}
    wanted = expected(database, sql, rows)
    assert settled(run(sql, tables(), parted(rows, size))) == wanted, sql
    mini_batch = {"table.exec.mini-batch.enabled": "true"}
    made = run(sql, tables(), parted(rows, size), settings=mini_batch)
    assert settled(made) == wanted, sql


@given(sql=queries(), t=ROWS["t"], u=ROWS["u"], size=st.integers(1, 8))
@settings(max_examples=15, deadline=None)
def test_batches(database, sql, t, u, size):
    rows = {"t": t, "u": u}
    wanted = expected(database, sql, rows)
    made = run(sql, tables(), parted(rows, size), is_streaming=False)
    assert {kind for kind, _ in made} <= {0}
    assert settled(made) == wanted, sql


@given(sql=queries(), t=ROWS["t"], u=ROWS["u"], size=st.integers(1, 4), at=st.integers(0, 6))
@settings(max_examples=15, deadline=None)
def test_snapshots(database, sql, t, u, size, at):
    rows = {"t": t, "u": u}
    batches = parted(rows, size)
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
    assert settled(changes) == expected(database, sql, rows), sql
