"""The output of reporters, and their configuration (internals M70)."""

import logging
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from penstock.common.options.check import check_options, warn_of_idle_options
from penstock.common.options.metrics import ReporterSettings, reporters_of
from penstock.errors import ConfigurationError
from penstock.metrics.export import Scope
from penstock.metrics.reporters.prometheus import prometheus_text
from penstock.metrics.reporters.runner import (
    PrometheusEndpoint,
    ScheduledReporter,
    StatsdSender,
    log_metrics,
)
from penstock.metrics.values import HistogramValue, MeterValue, MetricValues
from penstock.spark.metric_source import SparkMetricsSender
from prometheus_client.parser import text_string_to_metric_families
from support.packages import required
from support.patience import PATIENCE_S
from support.processes import listens_at

TASK = Scope(
    ("taskmanager", "job", "task"),
    ("host", "taskmanager", "tm", "job", 'a "task"\\', "0"),
    {"tm_id": "tm", "task_name": 'a "task"\\\n', "subtask_index": "0"},
)
VALUES = MetricValues(
    counters={"numRecordsIn": 2**60},
    gauges={"level-of.x": -1.5, "text": "words", "nan": float("nan")},
    meters={"rate": MeterValue(10, 2.5)},
    histograms={"spread": HistogramValue(3, median=7)},
)


def families():
    text = prometheus_text([(TASK, VALUES), (TASK, MetricValues(gauges={"rate": 4}))])
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_prometheus_reads_what_is_written():
    found = families()
    prefix = "flink_taskmanager_job_task_"
    assert set(found) == {
        prefix + name for name in ("numRecordsIn", "level_of_x", "nan", "rate", "spread")
    }
    counter = found[prefix + "numRecordsIn"]
    assert counter.type == "gauge"
    assert counter.samples[0].value == 2**60
    assert counter.samples[0].labels == TASK.variables
    assert [sample.value for sample in found[prefix + "rate"].samples] == [2.5, 4]
    spread = found[prefix + "spread"]
    assert spread.type == "summary"
    assert {s.labels.get("quantile"): s.value for s in spread.samples}["0.5"] == 7
    assert [s.value for s in spread.samples if s.name.endswith("_count")] == [3]


def test_each_family_says_what_it_is():
    """Its name and scope, as in Flink's reporter."""
    found = families()
    assert found["flink_taskmanager_job_task_level_of_x"].documentation == (
        "level-of.x (scope: taskmanager_job_task)"
    )
    odd = prometheus_text([(TASK, MetricValues(gauges={"back\\slash\nline": 1}))])
    (family,) = text_string_to_metric_families(odd)
    assert family.documentation == "back\\slash\nline (scope: taskmanager_job_task)"


def test_a_label_that_is_not_utf_8_is_escaped():
    """As a backslash and a u of the text, since the format has no such escape."""
    host = b"caf\xe9".decode(errors="surrogateescape")
    text = prometheus_text([(Scope((), (), {"host": host}), MetricValues(gauges={host: 1}))])
    assert 'host="caf\\\\udce9"' in text
    assert "# HELP flink_caf_ caf\\\\udce9 " in text
    assert text.encode()


@pytest.mark.process
def test_promtool_has_nothing_to_say_but_that_flinks_names_are_in_camel_case():
    promtool = required(shutil.which("promtool"), "prometheus")
    text = prometheus_text([(TASK, VALUES)])
    found = subprocess.run(
        [promtool, "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    words = [line for line in found.stderr.splitlines() if "camelCase" not in line]
    assert words == []
    assert found.returncode == 3  # 1 for text that it cannot parse, 3 for its warnings
    found = subprocess.run(
        [promtool, "check", "metrics"],
        input='a{b="',
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert found.returncode == 1


def settings(**options):
    return reporters_of(
        {f"metrics.reporter.r.{k.replace('_', '.')}": v for k, v in options.items()}
    )


def test_prometheus_answers_at_a_port_of_its_own():
    endpoint = PrometheusEndpoint(
        settings(factory_class="prometheus", port="0")[0], lambda: [(TASK, VALUES)]
    )
    endpoint.start()
    try:
        url = "http://{}:{}".format(*endpoint.address)
        with urllib.request.urlopen(f"{url}/metrics", timeout=PATIENCE_S) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"flink_taskmanager_job_task_numRecordsIn{" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/etc/passwd", timeout=PATIENCE_S)
    finally:
        endpoint.close()
    assert not listens_at(endpoint.address[1])


def test_a_taken_port_is_passed_over_and_all_taken_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=r"metrics\.reporter\.r\.port: none of 1"):
            PrometheusEndpoint(settings(factory_class="prometheus", port=str(port))[0], list)
        other = PrometheusEndpoint(settings(factory_class="prometheus", port=f"{port},0")[0], list)
        assert other.address[1] != port
        other.close()


def test_statsd_gets_datagrams():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(PATIENCE_S)
        port = str(receiver.getsockname()[1])
        sender = StatsdSender(settings(factory_class="statsd", host="127.0.0.1", port=port)[0], ".")
        sender.send([(TASK, VALUES)])
        lines = receiver.recv(65536).decode().splitlines()
    assert f'host.taskmanager.tm.job.a "task"\\.0.numRecordsIn:{2**60}|g' in lines
    assert not [line for line in lines if "text" in line]


def test_statsd_sets_gauges_below_zero():
    """A sign would change the gauge by the value: the gauge becomes 0 first."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(PATIENCE_S)
        port = str(receiver.getsockname()[1])
        sender = StatsdSender(settings(factory_class="statsd", host="127.0.0.1", port=port)[0], ".")
        sender.send([(TASK, MetricValues(gauges={"level": -5}))])
        lines = receiver.recv(65536).decode().splitlines()
    assert [line.rpartition(".")[2] for line in lines] == ["level:0|g", "level:-5|g"]


def test_a_reporter_reports_a_last_time_when_it_ends(caplog):
    seen = []
    reporter = ScheduledReporter(
        settings(factory_class="log", interval="1 h")[0], lambda: [(TASK, VALUES)], seen.append
    )
    reporter.start()
    reporter.close()
    assert seen == [[(TASK, VALUES)]]
    with caplog.at_level(logging.INFO):
        log_metrics(seen[0], ".")
    assert f"numRecordsIn: {2**60}" in caplog.text


def test_flinks_factories_name_reporters():
    package = "org.apache.flink.metrics"
    configuration = {
        "metrics.reporter.a.factory.class": f"{package}.prometheus.PrometheusReporterFactory",
        "metrics.reporter.a.port": "9000-9010",
        "metrics.reporter.b.factory.class": f"{package}.statsd.StatsDReporterFactory",
        "metrics.reporter.c.factory.class": f"{package}.slf4j.Slf4jReporterFactory",
        "metrics.reporter.c.interval": "60 SECONDS",
        "metrics.reporter.d.factory.class": f"{package}.influxdb.InfluxdbReporterFactory",
    }
    found = {one.name: one for one in reporters_of(configuration)}
    assert {name: one.kind for name, one in found.items()} == {
        "a": "prometheus",
        "b": "statsd",
        "c": "log",
    }
    assert found["a"].values["port"] == tuple(range(9000, 9011))
    assert found["c"].values["interval"] == 60_000
    for chosen in (("a,c",), ("a", "c")):
        assert [one.name for one in reporters_of(configuration, chosen)] == ["a", "c"]


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"metrics.reporters": "x"}, r"metrics\.reporter\.x\.factory\.class is not set"),
        (
            {"metrics.reporter.r.factory.class": "log", "metrics.reporter.r.interval": "soon"},
            r"metrics\.reporter\.r\.interval: 'soon'",
        ),
        (
            {"metrics.reporter.r.factory.class": "statsd", "metrics.reporter.r.port": "0"},
            r"metrics\.reporter\.r\.port: '0'",
        ),
        (
            {"metrics.reporter.r.factory.class": "prometheus", "metrics.reporter.r.port": "9-1"},
            r"metrics\.reporter\.r\.port: '9-1'",
        ),
    ],
)
def test_invalid_reporter_options_are_rejected_before_a_job_starts(configuration, message):
    with pytest.raises(ConfigurationError, match=message):
        check_options(configuration)


def test_options_without_effect_are_reported(caplog):
    configuration = {
        "metrics.reporter.r.factory.class": "log",
        "metrics.reporter.r.filter.includes": "*",
        "metrics.reporter.x.factory.class": "com.example.Reporter",
        "metrics.reporter.x.host": "h",
    }
    check_options(configuration)
    with caplog.at_level(logging.WARNING):
        warn_of_idle_options(configuration, "local")
    idle = caplog.records[0].getMessage()
    assert idle.endswith(
        "metrics.reporter.r.filter.includes, metrics.reporter.x.factory.class, "
        "metrics.reporter.x.host"
    )


def test_metrics_are_not_shown_in_a_spark_that_there_is_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    settings = ReporterSettings("own", "spark", {"interval": 1})
    with pytest.raises(ConfigurationError, match="spark is for jobs that Spark hosts"):
        SparkMetricsSender(settings, ".")
