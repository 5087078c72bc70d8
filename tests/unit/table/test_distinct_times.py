"""Functions that compute each distinct time once return the results of a call per row."""

import datetime
import random
import zoneinfo
from types import SimpleNamespace

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.compute as pc
from penstock.table import types
from penstock.table.functions import time_texts
from penstock.table.functions.registry import table
from penstock.table.functions.times import distinct_times

PATTERNS = ("yyyy-MM-dd", "HH:mm", "yyyy-MM-dd HH:mm:ss", "ss.SSS", "E a h", "D Q", "'x'yyyy")
ZONES = ("UTC", "Asia/Kathmandu", "Africa/Monrovia")


def moments(first_year, zone):
    drawn = random.Random(first_year)
    start = datetime.datetime(first_year, 1, 1)
    many = [start + datetime.timedelta(seconds=drawn.randrange(10**9) / 8) for _ in range(200)]
    return pa.array([None, *many, *many[:20]], pa.timestamp("ms", zone))


def evaluator(zone):
    return SimpleNamespace(session=SimpleNamespace(zone=zoneinfo.ZoneInfo(zone)))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "column", [moments(1950, "UTC"), moments(1990, "UTC"), moments(2001, None)]
)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_of_times(column, pattern, zone):
    call = SimpleNamespace(type=types.VarCharType(0x7FFFFFFF))
    arguments = [column, pa.scalar(pattern)]
    found = table()["DATE_FORMAT"].kernel(arguments, len(column), call, evaluator(zone))
    by_row = [
        None if each is None else time_texts._date_format(each, pattern, zoneinfo.ZoneInfo(zone))
        for each in column.to_pylist()
    ]
    assert found.to_pylist() == by_row


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("first_year", [1950, 1990])
@pytest.mark.parametrize("unit", ["YEAR", "DAY", "HOUR", "MINUTE", "SECOND"])
def test_parts_of_times(first_year, zone, unit):
    column = moments(first_year, "UTC")
    call = SimpleNamespace(
        type=types.BigIntType(),
        options=(unit,),
        arguments=[SimpleNamespace(type=types.LocalZonedTimestampType(3))],
    )
    found = table()["EXTRACT"].kernel([column], len(column), call, evaluator(zone))
    by_row = [
        None if each is None else getattr(each.astimezone(zoneinfo.ZoneInfo(zone)), unit.lower())
        for each in column.to_pylist()
    ]
    assert found.to_pylist() == by_row


def test_seconds_are_kept_where_zones_had_some():
    for first_year, seconds in ((1990, {0}), (1950, set(range(60)))):
        times, _ = distinct_times(moments(first_year, "UTC"), 60)
        assert {each.second for each in times.to_pylist()} <= seconds
    assert len({each.second for each in times.to_pylist()}) > 1


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("step_s", [1, 3600])
def test_times_in_order_are_distinct_minutes(unit, step_s):
    seconds = [-7_200 + number * step_s for number in range(5_000)]
    column = pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp(unit))
    times, places = distinct_times(column, 60)
    assert len(times) == len({each // 60 for each in seconds})
    assert times.take(places).cast(pa.timestamp("s")).cast(pa.int64()).to_pylist() == [
        each // 60 * 60 for each in seconds
    ]


def test_times_without_a_value():
    column = pa.nulls(3, pa.timestamp("ms"))
    times, places = distinct_times(column, 60)
    assert times.take(places).to_pylist() == [None] * 3


def moment_call(arguments):
    """Return a call that computes moments in ms; its arguments are integers."""
    return SimpleNamespace(
        type=types.LocalZonedTimestampType(3),
        arguments=[SimpleNamespace(type=types.BigIntType()) for _ in arguments],
    )


@pytest.mark.parametrize("unit", [[], [pa.scalar(3)], [pa.scalar(0)]])
def test_moments_of_numbers(unit):
    column = pa.array([None, 0, -1, 1_700_000_000_123, -62_135_596_800], pa.int64())
    column = pc.divide(column, 1000) if unit == [pa.scalar(0)] else column
    arguments = [column, *unit]
    call = moment_call(arguments)
    found = table()["TO_TIMESTAMP_LTZ"].kernel(arguments, len(column), call)
    expected = time_texts._each_timestamp_ltz(arguments, len(column), call)
    assert found.equals(expected)
    assert found.null_count == 1


@pytest.mark.parametrize("rows", [63, 64, 2_000])
@pytest.mark.parametrize("zone", ZONES)
def test_each_distinct_text_is_parsed_once(monkeypatch, rows, zone):
    parsed = []

    def parse(text, pattern):
        parsed.append(text)
        return datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S")

    monkeypatch.setattr(time_texts, "parse_time_text", parse)
    texts = [None, *(f"2024-03-31 01:{minute}:00" for minute in (10, 20, 30))]
    column = pa.array([texts[row % 4] for row in range(rows)])
    call = SimpleNamespace(type=types.BigIntType())
    found = table()["UNIX_TIMESTAMP"].kernel([column], rows, call, evaluator(zone))
    assert len(parsed) == (3 if rows >= 64 else sum(map(bool, column.to_pylist())))
    expected = [
        text
        and int(
            datetime.datetime.fromisoformat(text)
            .replace(tzinfo=zoneinfo.ZoneInfo(zone))
            .timestamp()
        )
        for text in column.to_pylist()
    ]
    assert found.to_pylist() == expected


def test_moments_beyond_those_of_datetime_are_null():
    arguments = [pa.array([2**60, 0])]
    found = table()["TO_TIMESTAMP_LTZ"].kernel(arguments, 2, moment_call(arguments))
    assert found.is_null().to_pylist() == [True, False]
