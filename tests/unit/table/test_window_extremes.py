"""Joins of rows with the extremes of their windows drop rows early, and have the same results.

Method: random batches with NULLs, ties and late rows; the plan with equal nodes shared drops rows
before the exchange, the plan without sharing does not.
"""

import datetime
import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.taskexecutor.operators.relational.windows import window_extremes
from unit.table.planning import ROWTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery

START = datetime.datetime(2024, 1, 1)
MS = int((START - datetime.datetime(1970, 1, 1)).total_seconds()) * 1000
WINDOWS = {
    "TUMBLE": "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))",
    "HOP": "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))",
    "CUMULATE": "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, "
    "INTERVAL '10' SECOND))",
    "SESSION": "TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND))",
}
SAME = "l.window_start = r.window_start AND l.window_end = r.window_end"


def sql_of(
    window="TUMBLE", call="MAX(n)", equated="", of_key=False, kind="", condition="", source=None
):
    """Return a query that joins rows with a result of their window."""
    rows = WINDOWS[window]
    keys = "k, window_start, window_end" if of_key else "window_start, window_end"
    return (
        f"SELECT l.k, l.n, l.m, r.most, l.window_end FROM {rows} AS l {kind} JOIN ("
        f"SELECT {call} AS most, {keys} FROM {source or rows} {condition} GROUP BY {keys}) AS r "
        f"ON {SAME} AND l.n = r.most {equated}"
    )


QUERIES = {
    "most": sql_of(),
    "least": sql_of(call="MIN(n)"),
    "hop": sql_of("HOP"),
    "cumulate": sql_of("CUMULATE"),
    "of a key": sql_of(of_key=True, equated="AND l.k = r.k"),
    "right": sql_of(kind="RIGHT"),
    "all equal": sql_of(call="MAX(m)", equated="AND l.m = r.most"),
}
"""Queries that drop rows early."""

OTHERS = {
    "another column": sql_of(call="MAX(m)"),
    "another key": sql_of(of_key=True),
    "session": sql_of("SESSION"),
    "left": sql_of(kind="LEFT"),
    "sum": sql_of(call="SUM(n)"),
    "condition": sql_of(call="MAX(n) FILTER (WHERE m > 1)"),
    "fewer rows": sql_of(condition="WHERE m > 1"),
}
"""Queries whose left rows may all have partners."""


def drawn():
    """Yield batches of some seconds and the watermark behind each, in seconds."""
    random_ = random.Random(5)
    for number in range(12):
        rows = [
            (
                random_.choice(["a", "b", None]),
                random_.choice([None, *range(6)]),
                random_.randint(0, 5),
                START + datetime.timedelta(seconds=max(0, 4 * number + random_.randint(-14, 5))),
            )
            for _ in range(40 if number % 3 else 1)
        ]
        yield rows, 4 * number


def results(sql, *, is_shared, restores_at=None):
    """Return the rows, sorted, and the number of rows that were dropped early."""
    dropped, found, restored = 0, [], None

    def start():
        table = HarnessTable.of("t", k=TEXT, n=types.IntType(), m=types.IntType(), ts=ROWTIME)
        return RunningQuery(sql, [table], is_shared=is_shared, restored=restored)

    query = start()
    for number, (rows, watermark) in enumerate(drawn()):
        query.give("t", rows)
        query.harness.process_watermark("t", MS + 1000 * watermark)
        if number == restores_at:
            restored = query.harness.snapshot(1)
            dropped += dropped_rows(query)
            found += query.changes()
            query.close()
            query = start()
    query.end()
    dropped += dropped_rows(query)
    found += query.changes()
    query.close()
    return sorted((row for _, row in found), key=repr), dropped


def dropped_rows(query):
    names = {made.name for made in query.harness.environment.added_operators()}
    if "WindowExtremes" not in names:
        return 0
    return query.harness.metrics("WindowExtremes")["numRowsNotExtreme"]


@pytest.mark.parametrize("restores_at", [None, 6])
@pytest.mark.parametrize("name", QUERIES)
def test_rows_that_are_no_extreme_are_dropped_early(name, restores_at):
    expected, none = results(QUERIES[name], is_shared=False, restores_at=restores_at)
    assert none == 0
    assert expected
    found, dropped = results(QUERIES[name], is_shared=True, restores_at=restores_at)
    assert found == expected
    assert dropped > 100


@pytest.mark.parametrize("name", OTHERS)
def test_other_joins_keep_their_rows(name):
    expected, _ = results(OTHERS[name], is_shared=False)
    assert results(OTHERS[name], is_shared=True) == (expected, 0)


def test_the_comparison_switches_itself_off(monkeypatch):
    monkeypatch.setattr(window_extremes, "_TRIED_ROWS", 40)
    monkeypatch.setattr(window_extremes, "_MOST_KEPT", 0.1)
    expected, _ = results(QUERIES["of a key"], is_shared=False)
    found, dropped = results(QUERIES["of a key"], is_shared=True)
    assert found == expected
    assert 0 < dropped < 100
