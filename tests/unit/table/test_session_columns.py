"""Sessions aggregated as columns have the results of sessions aggregated row by row.

Method: the same batches, watermarks and snapshots go to both; strategy ONE_PHASE adds rows one by
one.
"""

import datetime
import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from unit.table.planning import ROWTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery

ONE_PHASE = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
START = datetime.datetime(2024, 1, 1)
MS = int((START - datetime.datetime(1970, 1, 1)).total_seconds()) * 1000
CALLS = (
    "COUNT(*), COUNT(n), SUM(n), AVG(n), MIN(n), MAX(b), SUM(b), AVG(b), MIN(d), MAX(m), "
    "SUM(n) FILTER (WHERE n < 0)"
)
SQL = (
    f"SELECT {{keys}} {CALLS}, window_end, window_time, window_start FROM TABLE(SESSION(TABLE t "
    "{partition}, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY {keys} window_start, window_end, "
    "window_time"
)
QUERIES = {
    "key": SQL.format(keys="k,", partition="PARTITION BY k"),
    "keys": SQL.format(keys="k, d,", partition="PARTITION BY k, d"),
    "all": SQL.format(keys="", partition=""),
}


def table():
    return HarnessTable.of(
        "t", k=TEXT, n=types.IntType(), b=types.BigIntType(), d=types.DateType(),
        m=types.TimestampType(3), ts=ROWTIME,
    )  # fmt: skip


def batches(least, most, disorder_s):
    """Yield batches and watermarks behind them."""
    drawn = random.Random(disorder_s)
    for number in range(12):
        rows = [
            (
                drawn.choice(["a", "b", "c", None, *map(str, range(20))]),
                drawn.choice([None, drawn.randint(-(1 << 31), (1 << 31) - 1)]),
                drawn.choice([None, drawn.randint(-(1 << 63), (1 << 63) - 1)]),
                drawn.choice([None, datetime.date(2024, 1, drawn.randint(1, 2))]),
                drawn.choice([None, START + datetime.timedelta(hours=drawn.randint(0, 99))]),
                START + datetime.timedelta(seconds=10 * number + drawn.randint(-disorder_s, 9)),
            )
            for _ in range(drawn.randint(least, most))
        ]
        if not disorder_s:
            rows.sort(key=lambda row: row[-1])
        yield rows, MS + 10_000 * number + 8_000


def results(sql, settings, given, restores=None):
    """Return the rows, sorted, and the numbers of late rows and of batches in columns."""
    found, counts, restored = [], [0, 0], None
    restores = restores or {}

    def start():
        return RunningQuery(sql, [table()], settings=settings, restored=restored)

    def ended():
        metrics = query.harness.metrics("WindowAggregate")
        counts[0] += metrics["numLateRecordsDropped"]
        counts[1] += metrics["numBatchesInColumns"]
        found.extend(query.changes())
        query.close()

    query = start()
    for number, (rows, watermark) in enumerate(batches(*given)):
        query.give("t", rows)
        query.harness.process_watermark("t", watermark)
        if number in restores:
            restored = query.harness.snapshot(number + 1)
            ended()
            settings = restores[number]
            query = start()
    query.end()
    ended()
    return sorted(found, key=repr), *counts


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("disorder_s", [0, 2, 15])
def test_results_are_those_of_single_rows(name, disorder_s):
    """With batches of few rows between them, which are added one by one."""
    given = (10, 100, disorder_s)
    fast = results(QUERIES[name], {}, given)
    slow = results(QUERIES[name], ONE_PHASE, given)
    assert fast[:2] == slow[:2]
    assert len(fast[0]) > (0 if name == "all" else 100)
    assert (fast[1] > 0) == (disorder_s > 10)
    assert slow[2] == 0
    if name != "keys":  # DATE is no key of columns
        assert fast[2] >= (1 if disorder_s > 10 else 5)


@pytest.mark.parametrize("disorder_s", [0, 2])
def test_state_fits_sessions_of_single_rows(disorder_s):
    """Both restore each other's snapshots."""
    given = (30, 60, disorder_s)
    slow = results(QUERIES["key"], ONE_PHASE, given, dict.fromkeys((2, 4, 6, 9), ONE_PHASE))
    fast = results(QUERIES["key"], {}, given, {2: {}, 4: ONE_PHASE, 6: {}, 9: {}})
    assert fast[:2] == slow[:2]
    assert fast[2] > 4


def test_a_snapshot_leaves_sessions_in_columns():
    query = RunningQuery(QUERIES["key"], [table()])
    row = (None, None, None, None)
    for number in range(3):
        query.give("t", [("a", *row, START + datetime.timedelta(seconds=number))] * 40)
        query.harness.snapshot(number + 1)
    (operator,) = (op for op in query.harness._opened().operators if hasattr(op, "columns"))
    assert list(operator.sessions.table.keys()) == ['["a"]']
    assert operator.sessions.ends == []
    query.end()
    assert [change[1][:2] for change in query.changes()] == [("a", 120)]
    assert list(operator.sessions.table.keys()) == []
    assert operator.columns.places == {}
    query.close()
