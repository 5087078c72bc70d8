"""Metrics of a real job reach a reporter in the driver: all targets, both runtimes."""

import logging
import re
import time
import urllib.request

import pytest
from penstock.common import Configuration, Types
from penstock.datastream import (
    KeyedProcessFunction,
    MapFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from penstock.taskexecutor.worker.task_executor import TaskExecutor
from prometheus_client.parser import text_string_to_metric_families
from support.patience import PATIENCE_S

RUNNER = "penstock.metrics.reporters.runner"


def environment(**options):
    configuration = {"execution.target": "local", "parallelism.default": "1", **options}
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(configuration)
    )


class Counting(MapFunction):
    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.seen = group.counter("seen")
        self.spread = group.add_group("outer").distribution("spread")
        group.gauge("answer", lambda: 42)

    def map(self, value):
        self.seen.inc()
        self.spread.update(value)
        return value


class OneTimer(KeyedProcessFunction):
    """Registers one timer for each key."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10)
        return ()

    def on_timer(self, timestamp, ctx):
        return ()


def reported(caplog):
    """Return the last report, by identifier."""
    text = [r.getMessage() for r in caplog.records if r.name == RUNNER][-1]
    return dict(line.rsplit(": ", 1) for line in text.splitlines()[1:])


@pytest.mark.parametrize(
    ("target", "runtime"), [("local", "native"), ("local", "pure"), ("in-process", "native")]
)
def test_the_last_report_has_all_records(target, runtime, monkeypatch, caplog):
    """A task's last counts arrive before the report that it has ended."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    options = {
        "execution.target": target,
        "metrics.reporter.l.factory.class": "log",
        "metrics.reporter.l.interval": "1 h",
        "metrics.scope.jm-job": "jobs.<job_name>",
        "parallelism.default": "2",
        "taskmanager.network.memory.buffer-debloat.enabled": "true",
    }
    env = environment(**options)
    stream = env.from_collection([*range(100)], Types.LONG())
    stream.rebalance().map(Counting(), Types.LONG()).name("Mine").disable_chaining().print()
    keyed = stream.key_by(lambda n: n % 5, Types.LONG())
    timed = keyed.process(OneTimer()).name("Timed").set_parallelism(1)
    timed.print().name("Nothing")
    with caplog.at_level(logging.INFO, RUNNER):
        env.execute("job")
    found = reported(caplog)
    tasks = {
        re.sub(r"^.*\.taskmanager\.taskexecutor-\d+\.", "", name): value
        for name, value in found.items()
    }
    assert [tasks[f"job.Mine.{i}.numRecordsIn"] for i in (0, 1)] == ["50", "50"]
    assert [tasks[f"job.Mine.{i}.seen"] for i in (0, 1)] == ["50", "50"]
    assert float(tasks["job.Mine.0.outer.spread_max"]) >= 98
    assert tasks["job.Mine.1.answer"] == "42"
    source = [name for name in tasks if "Source" in name and name.endswith(".0.numRecordsOut")]
    assert {tasks[name] for name in source} == {"100"}
    sink = [name for name in tasks if "Print" in name and name.endswith(".numRecordsIn")]
    assert sum(int(tasks[name]) for name in sink if name.startswith("job.Sink")) == 100
    assert tasks["job.Mine.0.currentInputWatermark"] == str(2**63 - 1)
    assert tasks["job.Mine.0.currentOutputWatermark"] == str(2**63 - 1)
    assert int(tasks["job.Mine.0.numBytesIn"]) > 50 * 9
    for name in ("Input.Buffers.inPoolUsage", "Output.Buffers.outPoolUsage"):
        assert 0 <= float(tasks[f"job.Mine.0.Shuffle.Netty.{name}"]) <= 1
    assert tasks["job.Mine.0.Shuffle.Netty.Input.Buffers.inputQueueLength"] == "0"
    assert int(tasks["job.Mine.0.mailboxQueueSize"]) >= 0
    assert int(tasks["job.Mine.0.debloatedBufferSize"]) > 0
    mine = {name.removeprefix("job.Mine.0."): value for name, value in tasks.items()}
    received = sum(int(mine[f"numBytesIn{where}"]) for where in ("Local", "Remote"))
    assert received >= int(mine["numBytesIn"])
    for name in ("numBytesInLocal", "numBytesInRemote", "numBuffersInLocal", "numBuffersInRemote"):
        assert mine[f"Shuffle.Netty.Input.{name}"] == mine[name]
        assert f"{name}PerSecond" in mine
    assert sum(int(mine[f"numBuffersIn{where}"]) for where in ("Local", "Remote")) > 0
    assert int(mine["numBuffersOut"]) > 0
    assert int(mine["numFiredTimers"]) == 0
    assert mine["numRegionsWritten"] == "0"
    fired = [v for name, v in tasks.items() if re.search(r"Timed.*\.numFiredTimers$", name)]
    assert fired == ["5"]
    assert int(mine["initializationTime"]) >= 0
    assert float(mine["mailboxMailsPerSecond"]) >= 0
    for name in ("checkpointStartDelayNanos", "checkpointAlignmentTime"):
        assert mine[name] == "0"
    for kind in ("Soft", "Hard"):
        assert int(mine[f"max{kind}BackPressuredTimeMs"]) >= 0
    idle = [value for name, value in tasks.items() if name.endswith(".sourceIdleTime")]
    assert idle == ["0"]
    jobs = {re.sub(r"^.*\.jobmanager\.", "", name): value for name, value in found.items()}
    assert (found["jobs.job.numRestarts"], jobs["numRunningJobs"], jobs["taskSlotsTotal"]) == (
        "0",
        "0",
        "2",
    )


class UntilMarked(SourceFunction):
    def __init__(self, path):
        self.path = path

    def run(self, ctx):
        while ctx.is_running() and not self.path.exists():
            ctx.collect(1)
            self.path.with_name("began").touch()


def test_prometheus_scrapes_a_running_job(tmp_path, caplog):
    options = {
        "metrics.reporter.p.factory.class": (
            "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
        ),
        "metrics.reporter.p.port": "0",
    }
    env = environment(**options)
    stop = tmp_path / "stop"
    stream = env.add_source(UntilMarked(stop), type_info=Types.LONG())
    stream.map(Counting(), Types.LONG()).name("Mine").disable_chaining().print()
    with caplog.at_level(logging.INFO, RUNNER):
        client = env.execute_async("job")
    url = re.search(r"http://\S+/metrics", caplog.text)[0]
    seen, pages = [], 0
    while not any(seen):
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            found = list(text_string_to_metric_families(answer.read().decode()))
        pages += 1
        name = "flink_taskmanager_job_task_operator_seen"
        seen = [s for f in found if f.name == name for s in f.samples if s.value > 0]
    labels = seen[0].labels
    assert (labels["job_name"], labels["operator_name"], labels["subtask_index"]) == (
        "job",
        "Mine",
        "0",
    )
    running = next(f for f in found if f.name == "flink_jobmanager_numRunningJobs")
    assert running.samples[0].value == 1
    stop.touch()
    client.get_job_execution_result().result()


def test_a_task_that_is_faster_than_the_worker_counts(monkeypatch, caplog):
    """A worker is ready to send metrics before it can get a task."""
    original = TaskExecutor._start_metrics

    def slowly(self, *arguments):
        time.sleep(0.5)
        return original(self, *arguments)

    monkeypatch.setattr(TaskExecutor, "_start_metrics", slowly)
    options = {"metrics.reporter.l.factory.class": "log", "metrics.reporter.l.interval": "1 h"}
    env = environment(**{"execution.target": "in-process", **options})
    env.from_collection([1, 2]).print()
    with caplog.at_level(logging.INFO, RUNNER):
        env.execute("job")
    assert [name for name in reported(caplog) if name.endswith(".0.numRecordsOut")]


def test_nobody_sends_metrics_that_nobody_reads(monkeypatch):
    """Without a reporter the driver tells workers to send none."""
    from penstock.jobmaster import dispatcher

    specifications = []
    original = dispatcher.Dispatcher._launch_specification

    def watched(self, *arguments):
        specifications.append(original(self, *arguments))
        return specifications[-1]

    monkeypatch.setattr(dispatcher.Dispatcher, "_launch_specification", watched)
    env = environment()
    env.from_collection([1]).print()
    env.execute()
    assert [one["metrics_interval_ms"] for one in specifications] == [0]
