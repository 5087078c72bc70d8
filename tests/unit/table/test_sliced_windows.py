"""Windows aggregated by slices, as columns, have the results of windows aggregated row by row.

Method: the same batches, watermarks and snapshots go to both; strategy ONE_PHASE adds rows one by
one.
"""

import datetime
import random
from dataclasses import replace

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import numpy as np
from penstock.table import types
from penstock.table.plan.nodes import Window
from penstock.taskexecutor.operators.relational.windows import local_window_aggregate
from penstock.taskexecutor.operators.relational.windows.slices import Slices
from unit.table.planning import ROWTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery

ONE_PHASE = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
START = datetime.datetime(2024, 3, 31, 0, 30)
EPOCH = datetime.datetime(1970, 1, 1)
MILLISECOND = datetime.timedelta(milliseconds=1)
ZONED = types.LocalZonedTimestampType(3).with_time_attribute(types.TimeAttribute.ROWTIME)
CALLS = (
    "COUNT(*), COUNT(n), SUM(n), AVG(n), MIN(n), MAX(b), SUM(b), AVG(b), MIN(m), SUM(s), AVG(s), "
    "COUNT(*) FILTER (WHERE n > 0), SUM(n) FILTER (WHERE n < 0), MAX(n) FILTER (WHERE b > 0)"
)
WINDOWS = {
    "tumble": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '1' MINUTE)",
    "hop": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '30' MINUTE)",
    "cumulate": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '1' HOUR)",
}
GROUPS = "window_start, window_end"
QUERIES = {
    **{
        name: f"SELECT window_end, k, {CALLS} FROM TABLE({window}) GROUP BY k, {GROUPS}"
        for name, window in WINDOWS.items()
    },
    "all": f"SELECT {CALLS}, window_time FROM TABLE({WINDOWS['hop']}) "
    f"GROUP BY {GROUPS}, window_time",
    "keys": f"SELECT d, n + 1, window_start FROM TABLE({WINDOWS['cumulate']}) "
    f"GROUP BY n + 1, window_start, d, window_end",
    "attached": f"SELECT k, {CALLS}, window_end FROM TABLE({WINDOWS['hop']}) "
    f"WHERE MINUTE(window_start) > 10 GROUP BY k, {GROUPS}",
    "of_window": f"SELECT k, MAX(window_time), COUNT(*) FROM TABLE({WINDOWS['hop']}) "
    f"GROUP BY k, {GROUPS}",
    "sets": f"SELECT k, n, COUNT(*), window_end FROM TABLE({WINDOWS['tumble']}) "
    f"GROUP BY {GROUPS}, GROUPING SETS ((k), (n))",
    "nested": f"SELECT MAX(c), SUM(c), window_start FROM (SELECT k, COUNT(*) AS c, {GROUPS} FROM "
    f"TABLE({WINDOWS['hop']}) GROUP BY k, {GROUPS}) GROUP BY {GROUPS}",
    "gaps": f"SELECT k, {CALLS} FROM t GROUP BY k, HOP(ts, INTERVAL '7' MINUTE, "
    "INTERVAL '3' MINUTE)",
    "uneven": f"SELECT k, {CALLS} FROM t GROUP BY k, HOP(ts, INTERVAL '4' MINUTE, "
    "INTERVAL '6' MINUTE)",
}


def table(time):
    return HarnessTable.of(
        "t", k=TEXT, n=types.IntType(), b=types.BigIntType(), s=types.SmallIntType(),
        d=types.DateType(), m=types.TimestampType(3), ts=time,
    )  # fmt: skip


def batches(is_zoned):
    """Yield batches of two hours and watermarks behind them; some rows are late."""
    drawn = random.Random(7)
    for number in range(8):
        rows = []
        for _ in range(60):
            time = START + datetime.timedelta(minutes=15 * number + drawn.uniform(-25, 15))
            time = time.replace(microsecond=0, tzinfo=datetime.UTC if is_zoned else None)
            rows.append(
                (
                    drawn.choice(["a", "b", None]),
                    drawn.choice([None, drawn.randint(-(1 << 31), (1 << 31) - 1)]),
                    drawn.choice([None, drawn.randint(-(1 << 63), (1 << 63) - 1)]),
                    drawn.choice([None, drawn.randint(-(1 << 15), (1 << 15) - 1)]),
                    drawn.choice([None, datetime.date(2024, 1, drawn.randint(1, 2))]),
                    drawn.choice([None, START + datetime.timedelta(hours=drawn.randint(0, 99))]),
                    time,
                )
            )
        yield rows, START + datetime.timedelta(minutes=15 * number + 10)


def results(sql, settings, *, zone=None, restores=None):
    """Return the rows, sorted, and the number of late rows.

    Args:
        sql: The query.
        settings: The options.
        zone: The time zone; None for times without one.
        restores: By batch behind which a snapshot is restored, the options from there on.
    """
    found, late, restored = [], 0, None
    restores = restores or {}

    def start():
        return RunningQuery(
            sql, [table(ZONED if zone else ROWTIME)],
            settings=settings, time_zone=zone or "UTC", restored=restored,
        )  # fmt: skip

    def ended():
        nonlocal found, late
        metrics = query.harness.metrics("WindowAggregate")
        assert (metrics.get("numRowsAggregatedInColumns", 0) > 0) == (not settings)
        found += query.changes()
        late += metrics["numLateRecordsDropped"]
        query.close()

    query = start()
    for number, (rows, watermark) in enumerate(batches(zone is not None)):
        query.give("t", rows)
        query.harness.process_watermark("t", (watermark - EPOCH) // MILLISECOND)
        if number in restores:
            restored = query.harness.snapshot(number + 1)
            ended()
            settings = restores[number]
            query = start()
    query.end()
    ended()
    return sorted(found, key=repr), late


@pytest.mark.parametrize("name", QUERIES)
def test_results_are_those_of_single_rows(name):
    fast, slow = results(QUERIES[name], {}), results(QUERIES[name], ONE_PHASE)
    assert fast == slow
    assert len(fast[0]) > 5
    assert fast[1] > 0


@pytest.mark.parametrize(
    ("name", "other"),
    [("tumble", ONE_PHASE), ("hop", ONE_PHASE), ("cumulate", ONE_PHASE), ("attached", {}),
     ("nested", {})],
)  # fmt: skip
def test_state_fits_windows_of_single_rows(name, other):
    """Both restore each other's snapshots, of open windows that have emitted others before."""
    sql = QUERIES[name]
    slow = results(sql, ONE_PHASE, restores=dict.fromkeys((2, 3, 5), ONE_PHASE))
    assert len(slow[0]) > 5
    assert results(sql, {}, restores={2: {}, 3: other, 5: {}}) == slow


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_local_time(name):
    """In Berlin, clocks were set forward at 01:00 UTC."""
    sql = QUERIES[name]
    assert results(sql, {}, zone="Europe/Berlin") == results(sql, ONE_PHASE, zone="Europe/Berlin")


def test_rows_are_combined_until_their_slice_has_passed():
    query = RunningQuery(QUERIES["tumble"], [table(ROWTIME)])
    row = ("a", 1, 1, 1, None, None, START)
    for _ in range(3):
        query.give("t", [row] * 10)
        query.harness.process_watermark("t", (START - EPOCH) // MILLISECOND)
    assert query.harness.metrics("LocalWindowAggregate")["numRowsCombined"] == 0
    query.end()
    assert query.harness.metrics("LocalWindowAggregate")["numRowsCombined"] == 30
    assert query.harness.metrics("WindowAggregate")["numRowsAggregatedInColumns"] == 1
    query.close()


def test_rows_do_not_wait_while_the_input_is_idle():
    """The watermarks of other inputs may end their windows."""
    query = RunningQuery(QUERIES["tumble"], [table(ROWTIME)])
    query.give("t", [("a", 1, 1, 1, None, None, START)] * 10)
    query.harness.process_watermark_status("t", idle=True)
    assert query.harness.metrics("LocalWindowAggregate")["numRowsCombined"] == 10
    query.close()


def test_the_combine_is_switched_off_if_it_does_not_reduce(monkeypatch):
    monkeypatch.setattr(local_window_aggregate, "_TRIED_ROWS", 100)
    monkeypatch.setattr(local_window_aggregate, "_MOST_ROWS", 100)
    sql = f"SELECT b, COUNT(*), {GROUPS} FROM TABLE({WINDOWS['hop']}) GROUP BY b, {GROUPS}"
    query = RunningQuery(sql, [table(ROWTIME)])
    rows = [("a", 1, number % 150, 1, None, None, START) for number in range(300)]
    for first in range(0, 300, 50):
        query.give("t", rows[first : first + 50])
    query.end()
    assert query.harness.metrics("LocalWindowAggregate")["numRowsCombined"] == 100
    assert sorted(row[1] for _, row in query.changes()) == [2] * 450
    query.close()


@pytest.mark.parametrize("call", ["COUNT(DISTINCT n)", "SUM(CAST(n AS DOUBLE))", "LISTAGG(k)"])
def test_other_functions_take_single_rows(call):
    sql = f"SELECT {call} FROM TABLE({WINDOWS['tumble']}) GROUP BY {GROUPS}"
    query = RunningQuery(sql, [table(ROWTIME)])
    assert "numRowsAggregatedInColumns" not in query.harness.metrics("WindowAggregate")
    query.close()


@pytest.mark.parametrize(
    "window",
    [
        Window("TUMBLE", 10, 0, 3),
        Window("HOP", 10, 5, 1),
        Window("HOP", 9, 6, 0),
        Window("HOP", 2, 5, -1),
        Window("CUMULATE", 12, 3, 1),
    ],
)
def test_windows_of_slices_are_those_of_times(window):
    slices = Slices(window, is_attached=False)
    for time in range(-30, 30):
        positions, ends = slices.windows(slices.ends(np.array([time])))
        starts = slices.starts(ends)
        wanted = [
            (start, end)
            for start in range(-60, 60)
            for end in range(start + 1, start + window.size_ms + 1)
            if is_window(window, start, end) and start <= time < end
        ]
        assert sorted(zip(starts.tolist(), ends.tolist(), strict=True)) == sorted(wanted)
        assert set(positions.tolist()) <= {0}


def is_window(window, start, end):
    if window.kind == "CUMULATE":
        return (start - window.offset_ms) % window.size_ms == 0 and (
            (end - start) % window.slide_ms == 0
        )
    slide = window.slide_ms or window.size_ms
    return end - start == window.size_ms and (start - window.offset_ms) % slide == 0


def test_slices_that_all_open_windows_share_become_one():
    cumulate = Window("CUMULATE", 12, 3, 0)
    ends, last = np.array([3, 6, 9, 15]), np.array([6])
    assert Slices(cumulate, is_attached=False).merged(ends, last).tolist() == [6, 6, 9, 15]
    assert Slices(replace(cumulate, kind="HOP"), is_attached=False).merged(ends, last) is ends
