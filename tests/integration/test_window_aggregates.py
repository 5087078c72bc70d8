"""Named aggregates of windows in jobs: by columns and by rows, and their counters.

Goal: windows of every kind emit the same rows with `pipeline.columns` on and off, and tumbling and
sliding ones group batches of columns.  Method: jobs in this process over a table whose times are
out of order, and a plain loop as the oracle.
"""

import re
from collections import defaultdict

import penstock.aggregates as agg
import pyarrow as pa
import pytest
from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.connectors import DiscardingSink
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.errors import WrongArgumentError
from penstock.expressions import as_tuple, field
from penstock.network import runtime
from support.environments import in_process

pytestmark = pytest.mark.process

NATIVE = pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns")
COUNT = 12_000
TABLE = pa.table(
    {
        "auction": [n * 7919 % 40 for n in range(COUNT)],
        "price": [n * 7919 % 12_007 for n in range(COUNT)],
        "share": [n % 97 / 10 for n in range(COUNT)],
        "channel": [f"channel {n % 13}" for n in range(COUNT)],
        # Records are up to 40 ms, and one of a hundred 3 s, behind the others.
        "at": [n + 5000 - (n % 5) * 10 - (3000 if n % 100 == 99 else 0) for n in range(COUNT)],
    }
)
BY_AUCTION = field("auction")
AGGREGATES = {
    "bids": agg.count(),
    "high": agg.count(where=field("price") > 6000),
    "total": agg.sum("price"),
    "shares": agg.sum("share"),
    "best": agg.max("price"),
    "channel": agg.max_by("channel", "price"),
    "channels": agg.count_distinct("channel"),
    "last": agg.last("price"),
}


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.at


STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(
    Duration.of_seconds(60)  # the clock decides when a watermark arrives: nothing is late
).with_timestamp_assigner(At())

WINDOWS = {
    "tumbling": TumblingEventTimeWindows.of(Time.seconds(1)),
    "shifted": TumblingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(300)),
    "sliding": SlidingEventTimeWindows.of(Time.seconds(2), Time.milliseconds(500)),
    "no multiple": SlidingEventTimeWindows.of(Time.milliseconds(1700), Time.milliseconds(500)),
    "sessions": EventTimeSessionWindows.with_gap(Time.milliseconds(60)),
}


def windowed(env, windows, key=BY_AUCTION, **options):
    stream = env.from_arrow(TABLE).assign_timestamps_and_watermarks(STRATEGY)
    return stream.key_by(key).window(windows).aggregate(AGGREGATES, **options)


def results(windows, parallelism=1, build=windowed, **options):
    with build(in_process(parallelism, **options), windows).execute_and_collect() as found:
        return sorted(tuple(row) for row in found)


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_results_are_those_of_rows(windows):
    found = results(windows)
    assert len(found) > 90
    assert found == results(windows, pipeline_columns="off")


@pytest.mark.parametrize("parallelism", [1, 2])
def test_results_are_those_of_a_loop(parallelism):
    bids = defaultdict(list)
    for row in TABLE.to_pylist():
        for start in range(row["at"] // 500 * 500, row["at"] - 2000, -500):
            bids[row["auction"], start].append(row)
    expected = sorted(
        (
            auction,
            start,
            start + 2000,
            len(rows),
            sum(row["price"] > 6000 for row in rows),
            sum(row["price"] for row in rows),
            len({row["channel"] for row in rows}),
        )
        for (auction, start), rows in bids.items()
    )

    def build(env, windows):
        stream = env.from_arrow(TABLE).assign_timestamps_and_watermarks(STRATEGY)
        names = ("bids", "high", "total", "channels")
        chosen = {name: AGGREGATES[name] for name in names}
        return stream.key_by(field("auction")).window(windows).aggregate(chosen)

    assert results(WINDOWS["sliding"], parallelism, build) == expected


def test_windows_of_several_fields_and_of_all_records():
    key = as_tuple(field("auction") % 3, field("channel"))
    found = results(
        WINDOWS["tumbling"],
        build=lambda env, windows: windowed(env, windows, key, key_names=["third", "of"]),
    )
    assert {row[:2] for row in found} == {(n, f"channel {m}") for n in range(3) for m in range(13)}

    def of_all(env, windows):
        stream = env.from_arrow(TABLE).assign_timestamps_and_watermarks(STRATEGY)
        return stream.window_all(windows).aggregate({"bids": agg.count(), "best": agg.max("price")})

    of_all_windows = results(WINDOWS["tumbling"], build=of_all)
    assert sum(row[2] for row in of_all_windows) == sum(row[4] for row in found)


def test_counted_windows_have_no_bounds():
    def build(env, windows):
        keyed = env.from_arrow(TABLE).key_by(field("auction"))
        return keyed.count_window(100).aggregate({"bids": agg.count(), "best": agg.max("price")})

    found = results(None, build=build)
    assert {row[1] for row in found} == {100}
    assert len(found) == COUNT // 100


def test_named_aggregates_take_no_window_function():
    env = in_process()
    keyed = env.from_arrow(TABLE).key_by(field("auction")).window(WINDOWS["tumbling"])
    with pytest.raises(WrongArgumentError, match="cannot be combined with named aggregates"):
        keyed.aggregate(AGGREGATES, output_type=Types.LONG())


def explained(windows, **options):
    env = in_process(2, **options)
    windowed(env, windows).sink_to(DiscardingSink())
    return env.explain(analyze=True)


@NATIVE
@pytest.mark.parametrize("name", ["tumbling", "sliding"])
def test_batches_are_grouped_and_counted(name):
    plan = explained(WINDOWS[name])
    assert plan.count("records received: batches of columns") == 1
    line = next(line for line in plan.splitlines() if re.match(r" *\w*EventTimeWindows: ", line))
    counts = {
        what: int(number.replace(",", ""))
        for number, what in re.findall(r"(\d[\d,]*) ([a-z ]+?)(?:, |$)", line)
    }
    assert counts["batches in columns"] >= 2
    assert counts.get("batches given up", 0) == 0


@NATIVE
def test_sessions_say_why_they_take_records_one_by_one():
    assert "one by one, as EventTimeSessionWindows looks at each" in explained(WINDOWS["sessions"])
