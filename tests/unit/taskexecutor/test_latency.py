"""Latency markers: their histograms."""

from types import SimpleNamespace

import pytest
from penstock.errors import ConfigurationError
from penstock.taskexecutor.task.latency import LatencyHistogram, LatencyTracking

ONE, TWO = bytes(15) + b"\1", bytes(15) + b"\2"


def tracking(**configuration):
    environment = SimpleNamespace(metrics={}, subtask=3, configuration=configuration)
    contexts = [SimpleNamespace(config=SimpleNamespace(id=id_)) for id_ in (ONE, TWO)]
    return LatencyTracking(environment, contexts), environment.metrics


def test_every_operator_of_the_chain_has_a_histogram_per_source():
    latency, metrics = tracking()
    assert latency.own_id == (1, 0)
    latency.record(100, 9, 0, 0, 107)
    latency.record(100, 9, 0, 1, 105)
    latency.record(100, 8, 0, 0, 99)
    source = bytes(15).hex()
    assert {name: metric.recent_values() for name, metric in metrics.items()} == {
        f"latency.source_id.{source}{at}.operator_id.{op.hex()}.operator_subtask_index.3.latency": v
        for at, v in (("09", [7, 5]), ("08", [0]))
        for op in (ONE, TWO)
    }


@pytest.mark.parametrize(("granularity", "count"), [("single", 1), ("operator", 2), ("subtask", 3)])
def test_granularity_says_what_is_kept_apart(granularity, count):
    latency, metrics = tracking(**{"metrics.latency.granularity": granularity})
    for lower, subtask in ((8, 0), (9, 0), (9, 1)):
        latency.record(0, lower, 0, subtask, 1)
    assert len(metrics) == 2 * count


def test_an_unknown_granularity_is_refused():
    with pytest.raises(ConfigurationError, match="'all': must be one of single, operator, subtask"):
        tracking(**{"metrics.latency.granularity": "all"})


def test_a_histogram_keeps_the_last_128():
    histogram = LatencyHistogram()
    assert histogram.quantile(0.5) == 0.0
    for number in range(1, 201):
        histogram.update(number)
    assert histogram.count == 200
    assert histogram.recent_values() == list(range(73, 201))
    assert histogram.quantile(0.0) == 73.0
    assert histogram.quantile(0.5) == 137.0
    assert histogram.quantile(1.0) == 200.0
