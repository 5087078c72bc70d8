"""Metrics as a worker sends them: kinds, bounds, and gauges that fail (internals M70)."""

import logging
import math
import threading
import time

import msgspec
import numpy
import pytest
from penstock.metrics import gauges
from penstock.metrics import values as values_module
from penstock.metrics.values import HistogramValue, MetricValues, read_metrics
from penstock.taskexecutor.task.latency import LatencyHistogram
from penstock.taskexecutor.task.metric_group import OperatorMetricGroup
from support.patience import PATIENCE_S


def group():
    registry = {}
    return OperatorMetricGroup(registry, ("Map", "0")), registry


def test_each_kind_keeps_its_kind():
    metrics, registry = group()
    metrics.counter("count").inc(3)
    metrics.gauge("level", lambda: 7)
    metrics.meter("rate").mark_event(2)
    metrics.add_group("outer", "value").distribution("spread").update(5)
    read = read_metrics(registry, "Map")
    assert read.counters == {"count": 3}
    assert read.gauges == {"level": 7}
    assert read.meters["rate"].count == 2
    assert read.histograms["outer.value.spread"].max == 5
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(read), type=MetricValues) == read


def test_names_of_flat_values_are_those_of_flinks_rest_interface():
    metrics, registry = group()
    metrics.counter("count")
    metrics.distribution("spread")
    figures = ["min", "max", "mean", "median", "stddev"]
    figures += ["p75", "p90", "p95", "p98", "p99", "p999"]
    names = {"count", *(f"spread_{figure}" for figure in figures)}
    assert set(read_metrics(registry, "Map").flat()) == names


def test_spread_of_values():
    spread = HistogramValue.of([*range(1, 101)], 300)
    assert (spread.count, spread.min, spread.max, spread.mean) == (300, 1, 100, 50.5)
    assert (spread.median, spread.p75, spread.p99) == (51, 76, 100)
    assert math.isclose(spread.stddev, math.sqrt((100**2 - 1) / 12))
    assert HistogramValue.of([], 0) == HistogramValue()
    latency = LatencyHistogram()
    latency.update(4)
    assert read_metrics({"latency": latency}, "x").histograms["latency"].mean == 4


def fails():
    raise ValueError("broken")


@pytest.mark.parametrize(
    ("gauge", "expected"),
    [
        (fails, None),
        (lambda: None, None),
        (lambda: object(), None),
        (lambda: True, "true"),
        (lambda: 2**80, 2**63 - 1),
        (lambda: -(2**80), -(2**63)),
        (lambda: "x" * 5000, "x" * 1024),
        (lambda: "\ud800", "\\ud800"),
        (lambda: 1.5, 1.5),
        (lambda: numpy.float64(1.5), 1.5),
        (lambda: numpy.int64(2), 2),
    ],
)
def test_a_gauge_of_any_value_can_be_sent(gauge, expected, caplog, monkeypatch):
    """A gauge that fails or returns an invalid value is left out, which is logged once."""
    monkeypatch.setattr(values_module, "_complained", set())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            read = read_metrics({"gauge": gauge}, "task")
    assert read.gauges == ({} if expected is None else {"gauge": expected})
    msgspec.msgpack.encode(read)
    assert len(caplog.records) == (1 if expected is None else 0)


def test_more_metrics_than_can_be_sent_are_cut(caplog, monkeypatch):
    monkeypatch.setattr(values_module, "_complained", set())
    many = {f"m{n}": (lambda: 1) for n in range(values_module.MAX_METRICS + 5)}
    assert len(read_metrics(many, "task").gauges) == values_module.MAX_METRICS
    assert "are reported" in caplog.text


def test_the_first_metric_of_a_name_is_reported(caplog):
    metrics, registry = group()
    first = metrics.counter("count")
    metrics.counter("count").inc(9)
    first.inc()
    assert read_metrics(registry, "Map").counters == {"count": 1}
    assert "'count'" in caplog.text
    assert metrics.add_group("a").get_metric_identifier("b") == "Map.0.a.b"
    assert metrics.add_group("a").get_scope_components() == ["Map", "0", "a"]


@pytest.mark.parametrize("raised", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_a_gauge_that_steers_the_interpreter_is_left_out(raised, caplog, monkeypatch):
    monkeypatch.setattr(values_module, "_complained", set())

    def gauge():
        raise raised

    metrics, registry = group()
    metrics.gauge("bad", gauge)
    metrics.gauge("good", lambda: 7)
    assert read_metrics(registry, "Map").gauges == {"good": 7}
    assert f"bad of Map raised {type(raised).__name__}" in caplog.text


def test_a_gauge_that_does_not_return_is_left_out_until_it_does(caplog, monkeypatch):
    """The others are read, and at most one thread calls the blocked one."""
    monkeypatch.setattr(values_module, "_complained", set())
    monkeypatch.setattr(values_module, "GAUGES_TIME_S", 0.05)
    may_return, calls = threading.Event(), []

    def blocks():
        calls.append(threading.current_thread())
        may_return.wait()
        return 1

    metrics, registry = group()
    metrics.gauge("blocks", blocks)
    metrics.gauge("good", lambda: 7)
    while not calls:  # a thread that begins when the time is over calls nothing
        assert read_metrics(registry, "Map").gauges == {}
    monkeypatch.setattr(values_module, "GAUGES_TIME_S", PATIENCE_S)
    for _ in range(2):
        assert read_metrics(registry, "Map").gauges == {"good": 7}
    assert len(calls) == 1
    assert calls[0] is not threading.current_thread()
    assert "blocks of Map takes more than" in caplog.text
    may_return.set()
    calls[0].join(PATIENCE_S)
    assert read_metrics(registry, "Map").gauges == {"blocks": 1, "good": 7}


def test_a_gauge_whose_turn_comes_too_late_is_called_the_next_time():
    """Another reader holds it for longer than this one has time."""
    gauge = gauges.UserGauge(lambda: 7)

    def read(time_s):
        turn = gauges.GaugeTurn({"held": gauge}, lambda name, call: call(), lambda *_: None)
        return turn.run(time.monotonic() + time_s)

    with gauge.turn:
        assert read(0.05) == {}
    assert read(PATIENCE_S) == {"held": 7}


def test_few_threads_are_lost_to_gauges(caplog, monkeypatch):
    monkeypatch.setattr(values_module, "_complained", set())
    monkeypatch.setattr(gauges, "_threads", threading.BoundedSemaphore(1))
    may_return, called = threading.Event(), threading.Event()
    lost = []

    def blocks():
        lost.append(threading.current_thread())
        called.set()
        may_return.wait()

    turn = gauges.GaugeTurn(
        {"blocks": gauges.UserGauge(blocks)}, lambda name, gauge: gauge(), lambda *_: None
    )
    reader = threading.Thread(target=turn.run, args=(time.monotonic() + PATIENCE_S,))
    reader.start()
    assert called.wait(PATIENCE_S)
    metrics, registry = group()
    metrics.gauge("other", lambda: 7)
    assert read_metrics(registry, "Map").gauges == {}
    assert "other of Map is not called" in caplog.text
    may_return.set()
    reader.join(PATIENCE_S)
    lost[0].join(PATIENCE_S)
    assert read_metrics(registry, "Map").gauges == {"other": 7}


@pytest.mark.parametrize("count", [math.nan, math.inf, 10**400])
def test_a_count_that_is_no_number_is_left_out(count, caplog, monkeypatch):
    monkeypatch.setattr(values_module, "_complained", set())
    metrics, registry = group()
    metrics.counter("count").inc(count)
    metrics.distribution("spread").update(count)
    metrics.gauge("good", lambda: 7)
    read = read_metrics(registry, "Map")
    assert read.gauges == {"good": 7}
    msgspec.msgpack.encode(read)
