"""Window joins return what a comparison of all pairs of rows returns.

Method: batches with NULL keys and watermarks between them; several windows end at once, and a
snapshot is restored while windows are open.
"""

import datetime
import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.taskexecutor.operators.relational.joins import final_join
from unit.table.planning import ROWTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery

START = datetime.datetime(2024, 1, 1)
MS = int((START - datetime.datetime(1970, 1, 1)).total_seconds()) * 1000
WINDOWS = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
SAME = "l.window_start = r.window_start AND l.window_end = r.window_end"
CONDITIONS = {
    "l.k = r.k": lambda left, right: left[0] is not None and left[0] == right[0],
    "l.k = r.k AND l.n < r.n": lambda left, right: (
        left[0] is not None and left[0] == right[0] and left[1] < right[1]
    ),
    "l.k = r.k AND l.n = r.b": lambda left, right: (
        left[0] is not None and left[0] == right[0] and left[1] == right[2]
    ),
}
KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")


def tables():
    return [
        HarnessTable.of(name, k=TEXT, n=types.IntType(), b=types.BigIntType(), ts=ROWTIME)
        for name in ("t", "u")
    ]


def sql_of(kind, condition):
    left, right = WINDOWS.format("t"), WINDOWS.format("u")
    if kind in ("SEMI", "ANTI"):
        word = "NOT EXISTS" if kind == "ANTI" else "EXISTS"
        return (
            f"SELECT l.k, l.n FROM {left} AS l WHERE {word} (SELECT * FROM {right} AS r "
            f"WHERE {condition} AND {SAME})"
        )
    return (
        f"SELECT l.k, l.n, r.k, r.n FROM {left} AS l {kind} JOIN {right} AS r "
        f"ON {condition} AND {SAME}"
    )


def drawn(seed):
    """Return a batch of each table for each of some stretches of 15 seconds."""
    random_ = random.Random(seed)
    return [
        {
            name: [
                (
                    random_.choice(["a", "b", "c", None]),
                    random_.randint(0, 5),
                    random_.randint(0, 5),
                    START + datetime.timedelta(seconds=15 * number + random_.randint(0, 14)),
                )
                for _ in range(12)
            ]
            for name in ("t", "u")
        }
        for number in range(5)
    ]


def expected(kind, fits, given):
    sides = [[row for batch in given for row in batch[name]] for name in ("t", "u")]
    pairs = [
        (i, j)
        for i, left in enumerate(sides[0])
        for j, right in enumerate(sides[1])
        if (left[3] - START).seconds // 10 == (right[3] - START).seconds // 10 and fits(left, right)
    ]
    matched = {i for i, _ in pairs}, {j for _, j in pairs}
    if kind in ("SEMI", "ANTI"):
        return [r[:2] for i, r in enumerate(sides[0]) if (i in matched[0]) == (kind == "SEMI")]
    rows = [sides[0][i][:2] + sides[1][j][:2] for i, j in pairs]
    if kind in ("LEFT", "FULL"):
        rows += [(*r[:2], None, None) for i, r in enumerate(sides[0]) if i not in matched[0]]
    if kind in ("RIGHT", "FULL"):
        rows += [(None, None, *r[:2]) for j, r in enumerate(sides[1]) if j not in matched[1]]
    return rows


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_window_join(monkeypatch, kind, condition):
    monkeypatch.setattr(final_join, "MOST_PAIRS", 7)
    given = drawn(len(kind))
    sql = sql_of(kind, condition)
    query = RunningQuery(sql, tables())
    found = []
    for number, batch in enumerate(given):
        for name, rows in batch.items():
            query.give(name, rows)
            query.harness.process_watermark(name, MS + 15_000 * (number + 1) - 1)
        if number in (1, 2):
            snapshot = query.harness.snapshot(number)
            found += query.changes()
            query.close()
            query = RunningQuery(sql, tables(), restored=snapshot)
    query.end()
    assert query.harness.metrics("WindowJoin")["numBatchesInColumns"] > 1
    found += query.changes()
    query.close()
    wanted = expected(kind, CONDITIONS[condition], given)
    assert sorted((row for _, row in found), key=repr) == sorted(wanted, key=repr)
    assert wanted


def test_windows_that_end_together_are_joined_in_their_order():
    query = RunningQuery(sql_of("INNER", "l.k = r.k"), tables())
    for name in ("t", "u"):
        for second in (25, 5, 15):
            time = START + datetime.timedelta(seconds=second)
            query.give(name, [("a", second, 0, time)])
    query.end()
    assert [row[1] for _, row in query.changes()] == [5, 15, 25]
    query.close()
