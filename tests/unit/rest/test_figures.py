"""Spreads, levels and io figures of the REST interface (internals M69, M71)."""

import math
from types import SimpleNamespace

import pytest
from penstock.metrics.values import MetricValues
from penstock.rest.figures import io_metrics, spread
from penstock.rest.metric_views import _aggregated, level_of, skew_of


@pytest.mark.parametrize(
    ("ratio", "level"),
    [(0.0, "ok"), (0.1, "ok"), (0.11, "low"), (0.5, "low"), (0.51, "high"), (1.0, "high")],
)
def test_levels_of_backpressure(ratio, level):
    assert level_of(ratio) == level
    assert level_of(math.nan) == "ok"


def test_the_spread_is_that_of_flink():
    """The first figures are Flink's answer for 32388 and 43080 bytes of two subtasks."""
    assert spread([43080, 32388]) == {
        "min": 32388,
        "max": 43080,
        "avg": 37734,
        "sum": 75468,
        "median": 37734,
        "p25": 32388,
        "p75": 43080,
        "p95": 43080,
    }
    assert spread([]) == dict.fromkeys(spread([1]), 0)
    assert set(spread([7]).values()) == {7}


def test_theskew_of_is_that_of_flink():
    assert math.isclose(skew_of([3522, 4630]), 13.591756624141315)
    assert skew_of([0, 0]) == 0


def attempt(number):
    return SimpleNamespace(attempt=number)


def metrics(number, **gauges):
    return SimpleNamespace(
        attempt=number, task=MetricValues(counters={"numBytesIn": 5}, gauges=gauges)
    )


def test_figures_of_attempts_that_have_said_nothing_are_incomplete():
    found = io_metrics(
        [
            (attempt(0), metrics(0, accumulateBusyTimeMs=3)),
            (attempt(1), metrics(0)),
            (attempt(0), None),
        ]
    )
    assert (found["read-bytes"], found["read-bytes-complete"]) == (5, False)
    assert found["accumulated-busy-time"] == 3
    assert io_metrics([(attempt(0), None)])["accumulated-busy-time"] == "NaN"
    assert io_metrics([(attempt(2), metrics(2))])["read-bytes-complete"]


def test_aggregates_leave_out_gauges_that_are_not_finite():
    call = SimpleNamespace(names=lambda name: ["level"] if name == "get" else None)
    each = [{"level": value} for value in (1.0, math.inf, -math.inf, math.nan, 3.0)]
    found = {"id": "level", "min": 1.0, "max": 3.0, "avg": 2.0, "sum": 4.0, "skew": 50.0}
    assert _aggregated(call, each) == [found]
