"""Windows of processing time end by the clock, regardless of watermarks."""

import datetime

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.table.exceptions import TableException
from unit.table.planning import PROCTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery, run


def table():
    return HarnessTable.of("t", k=TEXT, n=types.IntType(), p=PROCTIME)


def second(number):
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=number)


def rows(*pairs):
    return [(*pair, None) for pair in pairs]


def windowed(window, more=""):
    return (
        f"SELECT k, window_start, SUM(n) FROM TABLE({window}) GROUP BY k, window_start, "
        f"window_end{more}"
    )


TUMBLE = windowed("TUMBLE(TABLE t, DESCRIPTOR(p), INTERVAL '10' SECOND)")


def test_a_window_is_emitted_when_the_clock_has_passed_its_end():
    query = RunningQuery(TUMBLE, [table()])
    query.harness.set_processing_time(1_000)
    query.give("t", rows(("a", 1), ("b", 5)))
    query.harness.set_processing_time(8_000)
    query.give("t", rows(("a", 2)))
    assert query.changes() == []
    query.harness.process_watermark("t", 1_000_000)
    assert query.changes() == []
    query.harness.set_processing_time(10_000)
    assert query.changes() == [(0, ("a", second(0), 3)), (0, ("b", second(0), 5))]
    query.give("t", rows(("a", 4)))
    query.harness.set_processing_time(21_000)
    assert query.changes()[2:] == [(0, ("a", second(10), 4))]
    query.close()


def test_the_older_group_windows():
    sql = (
        "SELECT k, TUMBLE_START(p, INTERVAL '10' SECOND), COUNT(*) FROM t "
        "GROUP BY k, TUMBLE(p, INTERVAL '10' SECOND)"
    )
    query = RunningQuery(sql, [table()])
    query.give("t", rows(("a", 1), ("a", 1)))
    query.harness.set_processing_time(10_000)
    assert query.changes() == [(0, ("a", second(0), 2))]
    query.close()


def test_windows_that_overlap():
    hop = "HOP(TABLE t, DESCRIPTOR(p), INTERVAL '5' SECOND, INTERVAL '10' SECOND)"
    query = RunningQuery(windowed(hop), [table()])
    query.harness.set_processing_time(6_000)
    query.give("t", rows(("a", 1)))
    query.harness.set_processing_time(11_000)
    query.give("t", rows(("a", 2)))
    query.harness.set_processing_time(30_000)
    assert query.changes() == [
        (0, ("a", second(0), 1)),
        (0, ("a", second(5), 3)),
        (0, ("a", second(10), 2)),
    ]
    query.close()


def test_sessions_end_when_nothing_came_for_the_gap():
    session = "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(p), INTERVAL '5' SECOND)"
    query = RunningQuery(windowed(session), [table()])
    for time, value in ((1_000, 1), (4_000, 2), (20_000, 4)):
        query.harness.set_processing_time(time)
        query.give("t", rows(("a", value)))
    query.harness.set_processing_time(20_001)
    assert query.changes() == [(0, ("a", second(1), 3))]
    query.harness.set_processing_time(40_000)
    query.harness.set_processing_time(40_001)
    assert query.changes()[1:] == [(0, ("a", second(20), 4))]
    query.close()


def test_open_windows_are_in_snapshots():
    first = RunningQuery(TUMBLE, [table()])
    first.give("t", rows(("a", 1)))
    snapshot = first.harness.snapshot(1)
    first.close()
    second_ = RunningQuery(TUMBLE, [table()], restored=snapshot)
    second_.give("t", rows(("a", 2)))
    second_.harness.set_processing_time(10_000)
    assert second_.changes() == [(0, ("a", second(0), 3))]
    second_.close()


def test_a_row_that_arrives_behind_its_window_is_in_a_later_one():
    query = RunningQuery(TUMBLE, [table()])
    query.give("t", rows(("a", 1)))
    query.harness.set_processing_time(10_000)
    (operator,) = (op for op in query.harness._opened().operators if hasattr(op, "moved_rows"))
    operator.watermark = 35_000
    query.give("t", rows(("a", 2)))
    query.harness.set_processing_time(41_000)
    assert operator.moved_rows == 1
    assert query.changes() == [(0, ("a", second(0), 1)), (0, ("a", second(30), 2))]
    query.close()


def test_queries_that_flink_rejects():
    ranked = (
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        "ORDER BY n) AS rn FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(p), INTERVAL '10' SECOND))) "
        "WHERE rn <= 3"
    )
    with pytest.raises(TableException, match="Processing time Window TopN"):
        run(ranked, [table()], [])
    with pytest.raises(TableException, match="needs streaming mode"):
        run(TUMBLE, [table()], [], is_streaming=False)
