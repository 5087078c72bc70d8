"""Joins evaluate conditions and build pairs by columns; top-N skips rows below the top."""

import datetime
import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.taskexecutor.operators.relational.joins import inner_join, join, join_pairs
from unit.table.planning import ROWTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery, settled

SECOND = datetime.timedelta(seconds=1)


def tables(kinds=(0,)):
    return [
        HarnessTable.of(name, kinds, k=types.BigIntType(), n=types.IntType(), s=TEXT)
        for name in ("t", "u")
    ]


def rows(seed, count=60):
    drawn = random.Random(seed)
    return [
        (drawn.choice([1, 2, 3, None]), drawn.choice([None, *range(5)]), drawn.choice("ab"))
        for _ in range(count)
    ]


def joined(kind, left, right):
    """Return the bag of pairs of a join on equal `k` and ``t.n <= u.n``, by nested loops."""
    pairs = [
        (i, j)
        for i, one in enumerate(left)
        for j, other in enumerate(right)
        if one[0] is not None and one[0] == other[0]
        if None not in (one[1], other[1]) and one[1] <= other[1]
    ]
    found = [left[i] + right[j] for i, j in pairs]
    none = (None,) * 3
    if kind in ("LEFT", "FULL"):
        found += [row + none for i, row in enumerate(left) if i not in {i for i, _ in pairs}]
    if kind in ("RIGHT", "FULL"):
        found += [none + row for j, row in enumerate(right) if j not in {j for _, j in pairs}]
    return sorted(found, key=repr)


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize("most", [7, join_pairs.MOST_PAIRS])
def test_joins_in_columns_have_the_pairs_of_nested_loops(monkeypatch, kind, most):
    monkeypatch.setattr(join_pairs, "MOST_PAIRS", most)
    monkeypatch.setattr(join, "MOST_PAIRS", most)
    monkeypatch.setattr(join_pairs, "MOST_PLACED", 4 * most)
    monkeypatch.setattr(inner_join, "MOST_PLACED", 4 * most)
    query = RunningQuery(f"SELECT * FROM t {kind} JOIN u ON t.k = u.k AND t.n <= u.n", tables())
    left, right = rows(1), rows(2)
    for start in range(0, 60, 20):
        query.give("t", left[start : start + 20])
        query.flush()
        query.give("u", right[start : start + 20])
        query.flush()
    query.end()
    assert sorted(settled(query.changes()).elements(), key=repr) == joined(kind, left, right)
    assert query.harness.metrics("Join")["numBatchesInColumns"] >= 5
    query.close()


@pytest.mark.parametrize("condition", ["t.k = u.k", "t.k = u.k AND t.n <= u.n", "t.s = u.s"])
@pytest.mark.parametrize("size", [5, 50])
def test_pairs_of_rows_that_stay_are_those_of_rows_that_expire(monkeypatch, condition, size):
    monkeypatch.setattr(inner_join, "MOST_PLACED", 100)
    found = []
    for settings in ({}, {"table.exec.state.ttl": "1 d"}):
        sql = f"SELECT * FROM t JOIN u ON {condition}"
        query = RunningQuery(sql, tables(), settings=settings)
        for start in range(0, 150, size):
            for name, seed in (("t", 3), ("u", 4)):
                query.give(name, rows(seed, 150)[start : start + size])
                query.flush()
        query.end()
        found.append([row for _, row in query.changes()])
        metrics = query.harness.metrics("Join")
        assert metrics.get("numBatchesByKey", 0) == (0 if settings else 300 // size)
        query.close()
    assert len(found[0]) > 500
    assert found[0] == found[1]


def test_pairs_of_removed_rows_are_taken_back():
    query = RunningQuery("SELECT t.s, u.s FROM t JOIN u ON t.k = u.k", tables((0, 1, 2, 3)))
    query.give("t", [(0, 1, 0, "a"), (0, 1, 0, "a"), (0, 2, 0, "b")])
    query.give("u", [(0, 1, 0, "x"), (0, 2, 0, "y")])
    query.give("t", [(3, 1, 0, "a"), (3, 3, 0, "never there"), (1, 2, 0, "b"), (2, 2, 0, "c")])
    query.end()
    assert settled(query.changes()) == {("a", "x"): 1, ("c", "y"): 1}
    query.close()


def timed_tables():
    return [HarnessTable.of(name, k=TEXT, n=types.IntType(), ts=ROWTIME) for name in ("t", "u")]


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_interval_joins_evaluate_their_condition_over_all_pairs_of_a_batch(kind):
    start = datetime.datetime(2024, 1, 1)
    drawn = random.Random(5)
    left, right = (
        [
            (drawn.choice(["a", "b", None]), drawn.randint(0, 4), start + second * SECOND)
            for second in range(40)
        ]
        for _ in range(2)
    )
    query = RunningQuery(
        f"SELECT * FROM t {kind} JOIN u ON t.k = u.k AND t.n <= u.n "
        "AND u.ts BETWEEN t.ts - INTERVAL '3' SECOND AND t.ts + INTERVAL '2' SECOND",
        timed_tables(),
    )
    for at in (0, 20):
        query.give("t", left[at : at + 20])
        query.give("u", right[at : at + 20])
    query.end()
    pairs = [
        (i, j)
        for i, (k, n, ts) in enumerate(left)
        for j, (other_k, other_n, other_ts) in enumerate(right)
        if k is not None and k == other_k and n <= other_n
        if -3 * SECOND <= other_ts - ts <= 2 * SECOND
    ]
    expected = [left[i] + right[j] for i, j in pairs]
    none = (None,) * 3
    if kind in ("LEFT", "FULL"):
        expected += [row + none for i, row in enumerate(left) if i not in {i for i, _ in pairs}]
    if kind in ("RIGHT", "FULL"):
        expected += [none + row for j, row in enumerate(right) if j not in {j for _, j in pairs}]
    found = [row for _, row in query.changes()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert 1 <= query.harness.metrics("IntervalJoin")["numBatchesInColumns"] <= 8
    query.close()


def test_top_rows_skip_rows_below_them():
    sql = (
        "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS place "
        "FROM t) WHERE place <= 2"
    )
    query = RunningQuery(sql, tables())
    query.give("t", [(1, n, "a") for n in (5, 7, 1, 2, 6, 6)])
    query.end()
    assert query.changes() == [(0, (1, 5)), (0, (1, 7)), (3, (1, 5)), (0, (1, 6))]
    assert query.harness.metrics("Rank")["numRowsBelowTop"] == 3
    query.close()
