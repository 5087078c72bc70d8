"""In batch mode, rows that become final at the end of the input reach later operators in time."""

import datetime
import math

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.table.types import TimeAttribute
from unit.table.running import HarnessTable, run, settled


def table(name, *columns):
    return HarnessTable.of(name, **dict.fromkeys(columns, types.IntType()))


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT t.a, i.m FROM t JOIN (SELECT a, SUM(c) AS m FROM u GROUP BY a) AS i "
            "ON t.a = i.a",
            {(1, 7): 2, (2, 3): 1},
        ),
        ("SELECT a, (SELECT COUNT(*) FROM u WHERE u.a = t.a) FROM t", {(1, 2): 2, (2, 1): 1}),
        (
            "SELECT a, m FROM (SELECT a, m, ROW_NUMBER() OVER (ORDER BY m DESC) AS rn FROM "
            "(SELECT a, SUM(b) AS m FROM t GROUP BY a)) WHERE rn = 1",
            {(1, 5): 1},
        ),
        (
            "SELECT t.b FROM t JOIN (SELECT a FROM t INTERSECT SELECT a FROM u) AS i ON t.a = i.a",
            {(2,): 1, (3,): 1, (4,): 1},
        ),
        (
            "SELECT t.b, i.r FROM t JOIN (SELECT a, RANK() OVER (ORDER BY a) AS r FROM u) AS i "
            "ON t.a = i.a WHERE t.a = 2",
            {(4, 3): 1},
        ),
        (
            "SELECT t.b FROM t JOIN (SELECT a FROM u ORDER BY c DESC LIMIT 2) AS i ON t.a = i.a",
            {(2,): 1, (3,): 1, (4,): 1},
        ),
        ("SELECT a FROM t WHERE b > (SELECT AVG(c) FROM u)", {(2,): 1}),
        (
            "SELECT a, SUM(SUM(b)) OVER (ORDER BY a), SUM(b) * 100 / SUM(SUM(b)) OVER () FROM t "
            "GROUP BY a",
            {(1, 5, 55): 1, (2, 9, 44): 1},
        ),
        ("SELECT MAX(COUNT(*)) OVER () FROM t", {(3,): 1}),
    ],
)
def test_final_rows_are_joined_and_ranked(sql, rows):
    given = [("t", [(1, 2), (1, 3), (2, 4)]), ("u", [(1, 5), (1, 2), (2, 3)])]
    tables = [table("t", "a", "b"), table("u", "a", "c")]
    assert settled(run(sql, tables, given, is_streaming=False)) == rows


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("", [None, -math.inf, 1.0, 2.0, math.inf, "NaN", "NaN"]),
        ("DESC", ["NaN", "NaN", math.inf, 2.0, 1.0, -math.inf, None]),
    ],
)
def test_nan_is_greater_than_all_numbers(order, expected):
    numbers = HarnessTable.of("t", f=types.DoubleType())
    given = [2.0, math.nan, -math.inf, None, math.inf, math.nan, 1.0]
    found = run(
        f"SELECT f FROM t ORDER BY f {order}",
        [numbers],
        [("t", [(f,) for f in given])],
        is_streaming=False,
    )
    assert ["NaN" if f != f else f for _, (f,) in found] == expected


@pytest.mark.parametrize(
    ("window", "starts"),
    [
        ("TUMBLE(ts, INTERVAL '10' SECOND)", [0, 60]),
        ("HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)", [-5, 0, 5, 55, 60]),
        ("SESSION(ts, INTERVAL '10' SECOND)", [1, 60]),
    ],
)
def test_group_windows_take_timestamps_that_are_no_time_attributes(window, starts):
    begin = datetime.datetime(2020, 1, 1)
    table = HarnessTable.of("t", ts=types.TimestampType(3))
    rows = [(begin + datetime.timedelta(seconds=second),) for second in (60, 1, 7)]
    call = window.replace("(", "_START(", 1)
    found = run(
        f"SELECT {call} FROM t GROUP BY {window}", [table], [("t", rows)], is_streaming=False
    )
    assert sorted((row[0] - begin).total_seconds() for _, row in found) == starts


def test_window_functions_take_timestamps_that_are_no_time_attributes():
    begin = datetime.datetime(2020, 1, 1)
    table = HarnessTable.of("t", ts=types.TimestampType(3))
    rows = [(begin + datetime.timedelta(seconds=second),) for second in (60, 1, 7)]
    found = run(
        "SELECT window_time, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' "
        "SECOND)) GROUP BY window_start, window_end, window_time",
        [table],
        [("t", rows)],
        is_streaming=False,
    )
    last = datetime.timedelta(milliseconds=1)
    assert sorted(row for _, row in found) == [
        *((begin + datetime.timedelta(seconds=10) - last, 2),),
        *((begin + datetime.timedelta(seconds=70) - last, 1),),
    ]


def test_an_empty_group_by_has_one_row_without_rows():
    table = HarnessTable.of("e", a=types.IntType())
    made = run("SELECT COUNT(*) FROM e GROUP BY ()", [table], [("e", [])], is_streaming=False)
    assert made == [(0, (0,))]


def test_uneven_hops_overlap():
    """In a stream, their rows may be ranked or joined, but not aggregated."""
    begin = datetime.datetime(2020, 1, 1)
    table = HarnessTable.of(
        "t", ts=types.TimestampType(3).with_time_attribute(TimeAttribute.ROWTIME)
    )
    windowed = "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND))"
    rows = [(begin + datetime.timedelta(seconds=second),) for second in (1, 7)]
    for selected, grouped, is_streaming in (
        ("window_start", "", True),
        ("window_start, COUNT(*)", "GROUP BY window_start, window_end", False),
    ):
        sql = f"SELECT {selected} FROM {windowed} {grouped}"
        found = run(sql, [table], [("t", rows)], is_streaming=is_streaming)
        starts = sorted((start - begin).total_seconds() for _, (start, *_) in found)
        assert starts == ([-8, -4, 0, 0, 4] if is_streaming else [-8, -4, 0, 4])
