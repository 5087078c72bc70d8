"""Batches are split at watermarks only where late rows matter."""

import datetime
import random
from operator import itemgetter

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.time_use import time_grain
from unit.table.planning import ROWTIME, TABLES, TEXT, plan, scan
from unit.table.running import HarnessTable, RunningQuery, settled

START = datetime.datetime(2024, 1, 1)
WINDOWED = (
    "SELECT k, window_end, COUNT(*), SUM(n) FROM TABLE({window}) "
    "GROUP BY k, window_start, window_end"
)
TUMBLE = WINDOWED.format(window="TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND)")
HOP = WINDOWED.format(
    window="HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)"
)
SESSION = WINDOWED.format(
    window="SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)"
)


class WatermarkedTable(HarnessTable):
    """A table whose rows advance watermarks."""

    def node(self):
        scan = super().node()
        column = e.Column(scan.schema.fields[2].type, 2, "ts")
        return n.AssignWatermarks(scan.schema, scan, 2, column)


def table():
    return WatermarkedTable.of("t", k=TEXT, n=types.IntType(), ts=ROWTIME)


def rows(seed):
    """Return rows with advancing times, some of them equal or late."""
    drawn = random.Random(seed)
    time = 0
    found = []
    for number in range(60):
        time += drawn.choice([0, 0, 200, 700])
        late = drawn.choice([0, 0, 0, 300, 2500, 5000])
        moment = START + datetime.timedelta(milliseconds=max(time - late, 0))
        found.append((drawn.choice("ab"), number, moment))
    return found


def run(sql, batches):
    query = RunningQuery(sql, [table()])
    (assigner,) = (op for op in query.harness._opened().operators if hasattr(op, "splits"))
    for batch in batches:
        query.give("t", batch)
    query.end()
    changes = query.changes()
    query.close()
    return settled(changes), assigner.splits


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sql", [TUMBLE, HOP, SESSION])
def test_late_rows_are_those_of_single_rows(sql, seed):
    given = rows(seed)
    together, splits = run(sql, [given])
    alone, none = run(sql, [[row] for row in given])
    assert together == alone
    assert splits > 0
    assert none == 0


def test_windows_split_less_than_sessions():
    given = rows(3)
    assert run(TUMBLE, [given])[1] < run(SESSION, [given])[1]


def test_sessions_split_no_rows_in_order():
    found, splits = run(SESSION, [sorted(rows(3), key=itemgetter(2))])
    assert splits == 0
    assert sum(count for _, _, count, _ in found) == 60


@pytest.mark.parametrize("size", [1, 2, 3])
def test_rows_of_the_last_time_of_a_window_are_in_it(size):
    last = START + datetime.timedelta(milliseconds=3999)
    given = [("a", 1, START), *[("a", number, last) for number in range(4)]]
    batches = [given[i : i + size] for i in range(0, 5, size)]
    found, splits = run(TUMBLE, batches)
    assert [(row[0], row[2]) for row in found] == [("a", 5)]
    assert splits == 0


def test_queries_without_time_split_no_batch():
    found, splits = run("SELECT k, COUNT(*) FROM t GROUP BY k", [rows(1)])
    assert splits == 0
    assert sum(count for _, count in found) == 60


@pytest.mark.parametrize(
    ("sql", "grain"),
    [
        ("SELECT n FROM orders", 0),
        ("SELECT k, COUNT(*) FROM orders GROUP BY k", 0),
        ("SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))", 10_000),
        (
            "SELECT * FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL "
            "'12' SECOND)) UNION ALL SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), "
            "INTERVAL '6' SECOND))",
            2_000,
        ),
        (
            "SELECT SUM(n) FROM orders GROUP BY HOP(ts, INTERVAL '4' SECOND, INTERVAL '6' SECOND)",
            2_000,
        ),
        ("SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY))", 86_400_000),
        ("SELECT * FROM TABLE(TUMBLE(TABLE zoned, DESCRIPTOR(ts), INTERVAL '1' DAY))", 1_000),
        (
            "SELECT * FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))",
            None,
        ),
        ("SELECT SUM(n) OVER (PARTITION BY k ORDER BY ts) FROM orders", None),
        ("SELECT n FROM orders ORDER BY ts", None),
        ("SELECT CURRENT_WATERMARK(ts) FROM orders", None),
        (
            "SELECT o.n FROM orders AS o JOIN rates AS r ON o.k = r.k AND r.ts BETWEEN o.ts AND "
            "o.ts + INTERVAL '5' SECOND",
            None,
        ),
    ],
)
def test_grains(monkeypatch, sql, grain):
    """The days of zones such as GMT+08:00:15 begin at any second of UTC."""
    kind = types.LocalZonedTimestampType(3).with_time_attribute(types.TimeAttribute.ROWTIME)
    monkeypatch.setitem(TABLES, "zoned", scan("zoned", ts=kind))
    assert time_grain([plan(sql)]) == grain


def test_each_row_reads_the_watermark_of_the_rows_before_it():
    seconds = [0, 5, 3, 10, 10]
    query = RunningQuery("SELECT n, CURRENT_WATERMARK(ts) FROM t", [table()])
    moments = [START + datetime.timedelta(seconds=second) for second in seconds]
    query.give("t", [("a", number, moment) for number, moment in enumerate(moments)])
    query.end()
    found = [row for _, row in query.changes()]
    query.close()
    greatest = [None, moments[0], moments[1], moments[1], moments[3]]
    assert found == list(enumerate(greatest))


def test_watermarks_that_are_read_advance_by_more_than_their_interval():
    query = RunningQuery("SELECT n, CURRENT_WATERMARK(ts) FROM t", [table()])
    moments = [START + datetime.timedelta(milliseconds=100 * number) for number in range(9)]
    query.give("t", [("a", number, moment) for number, moment in enumerate(moments)])
    query.end()
    found = [mark for _, (_, mark) in query.changes()]
    query.close()
    assert found == [None, *[moments[n] for n in (0, 0, 0, 3, 3, 3, 6, 6)]]
