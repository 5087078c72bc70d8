"""Latency markers and ingestion time on the local target."""

import time

import pytest
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.common.watermark_generator import WatermarkGenerator
from penstock.datastream import MapFunction, ProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.functions import SourceFunction


def environment(**settings):
    configuration = Configuration.from_dict({"execution.target": "local", **settings})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


class UntilMarked(SourceFunction):
    """Runs until a file shows that the marker has arrived."""

    def __init__(self, path):
        self.path = path

    def run(self, ctx):
        while ctx.is_running() and not self.path.exists():
            ctx.collect(1)
            time.sleep(0.001)


class WatchLatency(MapFunction):
    def __init__(self, path):
        self.path = path

    def open(self, runtime_context):
        self.metrics = runtime_context._operator.environment.metrics

    def map(self, value):
        found = [name for name in self.metrics if name.startswith("latency.source_id.")]
        if found:
            self.path.write_text("\n".join(sorted(found)))
        return value


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_latency_markers_travel_from_the_source_to_other_tasks(tmp_path, runtime, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    env = environment(**{"metrics.latency.interval": "1 ms"})
    path = tmp_path / "latency"
    stream = env.add_source(UntilMarked(path), type_info=Types.INT())
    stream.map(WatchLatency(path), Types.INT()).disable_chaining().print()
    env.execute()
    names = path.read_text().splitlines()
    assert len(names) == 1
    assert names[0].endswith(".operator_subtask_index.0.latency")


def test_ingestion_time_is_the_time_of_arrival():
    class Time(ProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.timestamp()

    before_ms = time.time_ns() // 1_000_000
    stream = environment().from_collection([1, 2, 3], Types.INT())
    timed = stream.assign_timestamps_and_watermarks(WatermarkStrategy.for_ingestion_time())
    with timed.process(Time(), Types.LONG()).execute_and_collect() as found:
        times = list(found)
    assert before_ms <= times[0] <= times[1] <= times[2] <= time.time_ns() // 1_000_000


class WithoutPause(SourceFunction):
    """Runs until a file exists, and holds the lock while it emits."""

    def __init__(self, path):
        self.path = path

    def run(self, ctx):
        while ctx.is_running() and not self.path.exists():
            with ctx.get_checkpoint_lock():
                ctx.collect(1)


class Slow(WatermarkGenerator):
    """Is slow for each record, and creates a file when a timer fires after one."""

    def __init__(self, path):
        self.path = path
        self.has_seen = False

    def on_event(self, event, event_timestamp, output):
        self.has_seen = True
        time.sleep(0.005)

    def on_periodic_emit(self, output):
        if self.has_seen:
            self.path.touch()


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_timers_fire_between_the_records_of_a_source_function(tmp_path, monkeypatch, runtime):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    path = tmp_path / "fired"
    env = environment()
    env.set_parallelism(1)
    env.get_config().set_auto_watermark_interval(10)
    stream = env.add_source(WithoutPause(path), "without pause", Types.LONG())
    strategy = WatermarkStrategy.for_generator(lambda: Slow(path))
    stream.assign_timestamps_and_watermarks(strategy).sink_to(DiscardingSink())
    env.execute()
    assert path.exists()
