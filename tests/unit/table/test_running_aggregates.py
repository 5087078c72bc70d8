"""Changes of aggregates by columns are those of aggregates row by row, in their order."""

import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery

ONE_PHASE = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
CALLS = (
    "COUNT(*)",
    "COUNT(n)",
    "COUNT(*) FILTER (WHERE n > 0)",
    "COUNT(DISTINCT n)",
    "COUNT(DISTINCT s) FILTER (WHERE n > 0)",
    "SUM(n)",
    "SUM(w)",
    "SUM(n) FILTER (WHERE n > 0)",
    "SUM(DISTINCT n)",
    "AVG(n)",
    "AVG(f)",
    "MIN(n)",
    "MAX(w)",
    "MIN(w)",
    "MAX(s)",
    "SUM(f)",
)


def table():
    return HarnessTable.of(
        "t",
        k=TEXT,
        b=types.BooleanType(),
        n=types.IntType(),
        w=types.BigIntType().not_null(),
        f=types.DoubleType(),
        s=TEXT,
    )


def rows(seed, most, count=60):
    drawn = random.Random(seed)
    return [
        (
            drawn.choice(["a", "b", 'q"', None]),
            drawn.choice([True, None]),
            drawn.choice([None, drawn.randint(-most, most)]),
            drawn.randint(-(most**2), most**2),
            drawn.choice([None, 0.0, -0.0, 0.1, 1e300]),
            drawn.choice("xyz"),
        )
        for _ in range(count)
    ]


def changes(sql, settings, most):
    query = RunningQuery(sql, [table()], settings=settings)
    for seed in range(3):
        query.give("t", rows(seed, most))
    query.give("t", rows(4, most, count=3))
    query.end()
    found = query.changes()
    counted = query.harness.metrics("GroupAggregate").get("numBatchesInColumns", 0)
    query.close()
    return list(map(repr, found)), counted


@pytest.mark.parametrize("most", [3, 2**31 - 1])
@pytest.mark.parametrize(
    "columns", [*CALLS, ", ".join(CALLS), "MAX(n), MIN(n)", "COUNT(DISTINCT n), COUNT(DISTINCT s)"]
)
def test_each_change_is_that_of_its_row(columns, most):
    sql = f"SELECT k, b, {columns} FROM t GROUP BY k, b"
    found, batches = changes(sql, {}, most)
    assert batches == 3
    assert (found, 0) == changes(sql, ONE_PHASE, most)


@pytest.mark.parametrize("ttl", ["0 ms", "1 h"])
def test_equal_rows_are_emitted_only_where_state_expires(ttl):
    sql = "SELECT k, MAX(n) FROM t GROUP BY k"
    settings = {"table.exec.state.ttl": ttl}
    found, batches = changes(sql, settings, 3)
    assert batches == 3
    assert (found, 0) == changes(sql, settings | ONE_PHASE, 3)


def test_distinct_rows():
    sql = "SELECT DISTINCT k, b FROM t"
    found, batches = changes(sql, {}, 3)
    assert batches == 3
    assert len(found) == 8
    assert (found, 0) == changes(sql, ONE_PHASE, 3)


def test_keys_that_kernels_group_otherwise_are_left_to_rows():
    found, batches = changes("SELECT f, COUNT(*) FROM t GROUP BY f", {}, 3)
    assert batches == 0
    assert found
