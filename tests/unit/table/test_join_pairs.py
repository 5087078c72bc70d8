"""Joins evaluate conditions and make their pairs by columns, with the results of rows."""

import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.taskexecutor.operators.relational import join, join_pairs
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery, settled


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
    query = RunningQuery(f"SELECT * FROM t {kind} JOIN u ON t.k = u.k AND t.n <= u.n", tables())
    left, right = rows(1), rows(2)
    for start in range(0, 60, 20):
        query.give("t", left[start : start + 20])
        query.give("u", right[start : start + 20])
    query.end()
    assert sorted(settled(query.changes()).elements(), key=repr) == joined(kind, left, right)
    assert query.harness.metrics("Join")["numBatchesInColumns"] >= 5
    query.close()


def test_pairs_of_removed_rows_are_taken_back():
    query = RunningQuery("SELECT t.s, u.s FROM t JOIN u ON t.k = u.k", tables((0, 1, 2, 3)))
    query.give("t", [(0, 1, 0, "a"), (0, 1, 0, "a"), (0, 2, 0, "b")])
    query.give("u", [(0, 1, 0, "x"), (0, 2, 0, "y")])
    query.give("t", [(3, 1, 0, "a"), (3, 3, 0, "never there"), (1, 2, 0, "b"), (2, 2, 0, "c")])
    query.end()
    assert settled(query.changes()) == {("a", "x"): 1, ("c", "y"): 1}
    query.close()
