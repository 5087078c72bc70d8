"""Event time that does not advance while records flow: the input that holds it back, and why."""

from types import SimpleNamespace

import pytest
from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import NumberSequenceSource
from penstock.datastream.state import ReducingStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.graph import operators
from penstock.graph.event_time_origins import EventTimeOrigin
from penstock.graph.job_graph import ChainConfig, GateConfig
from penstock.graph.job_graph_generator import JobGraphGenerator
from penstock.graph.wiring import DistributionPattern
from penstock.taskexecutor.task.event_time_watch import EventTimeWatch, event_time_gauges
from penstock.taskexecutor.time.processing_time import ProcessingTimeService
from penstock.testing import KeyedOneInputStreamOperatorTestHarness

NONE, AT = -(2**63), 1_577_836_800_000


class World:
    """A task with one operator that waits, unless a test changes that."""

    def __init__(self, *gates):
        self.now_ms = 0
        self.holding = {0: (NONE, [0], 1)}
        self.input = SimpleNamespace(
            records_in=0,
            watermark=lambda number: next(iter(self.holding.values()))[0],
            holding_channels=lambda: self.holding,
        )
        self.operator = SimpleNamespace(has_open_windows=True)
        context = SimpleNamespace(name="Window", timer_services=[])
        chain = SimpleNamespace(contexts=[context], operators=[self.operator])
        config = ChainConfig(
            (),
            tuple(
                GateConfig(b"", number, None, DistributionPattern.ALL_TO_ALL, origins=origins)
                for number, origins in enumerate(gates)
            ),
        )
        timers = ProcessingTimeService(lambda: self.now_ms)
        self.timers = timers
        self.watch = EventTimeWatch(config, chain, self.input, timers)
        self.watch.start()

    def run(self, seconds, records_per_s=1):
        for _ in range(seconds):
            self.now_ms += 1000
            self.input.records_in += records_per_s
            self.timers.fire_due()
        return self.watch.text


BARE = EventTimeOrigin("numbers", has_strategy=False, has_assigner=False)
WITHOUT_ASSIGNER = EventTimeOrigin("numbers", has_strategy=True, has_assigner=False)
WHOLE = EventTimeOrigin("parts", has_strategy=True, has_assigner=True)


@pytest.mark.parametrize(
    ("origins", "watermark", "text"),
    [
        ((WHOLE, BARE), NONE, "input 1 from 'numbers' has no watermark strategy"),
        ((WITHOUT_ASSIGNER,), NONE, "input 1 from 'numbers' has a strategy without a timestamp as"),
        ((WHOLE,), NONE, "input 1 from 'parts' brings no later watermark: a partition, split or"),
        ((BARE,), AT, "input 1 from 'numbers' brings no later watermark"),
    ],
)
def test_the_reason_is_named_after_half_a_minute(caplog, origins, watermark, text):
    world = World(origins)
    world.holding = {0: (watermark, [0], 1)}
    assert world.run(25) == ""
    assert world.run(15).startswith(text)
    world.run(100)
    (told,) = caplog.messages
    at = "its beginning" if watermark == NONE else "2020-01-01 00:00:00.000+00:00"
    assert told.startswith(f"event time of 'Window' has stood still at {at} for ")
    assert text in told


def test_the_inputs_and_subtasks_that_are_behind_are_named():
    world = World((BARE,), (WHOLE,))
    world.holding = {1: (AT, [1, 3], 4)}
    assert "input 2 from 'parts'" in world.run(40)
    assert "through subtask 2, 4 of the task before" in world.watch.text
    assert "numbers" not in world.watch.text


def test_nothing_is_reported_while_no_records_flow_or_nothing_waits(caplog):
    world = World((BARE,))
    assert world.run(100, records_per_s=0) == ""
    world = World((BARE,))
    world.operator.has_open_windows = False
    assert world.run(100) == ""
    assert caplog.messages == []


def test_event_time_that_advances_is_no_longer_held_back(caplog):
    world = World((WHOLE,))
    assert world.run(40)
    world.holding = {0: (AT, [0], 1)}
    assert world.run(5) == ""
    assert world.run(40)
    assert len(caplog.messages) == 1


class Itself(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def chains(build):
    """Return the chains of a program, by the names of their first operators."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    build(env)
    graph = JobGraphGenerator(env.get_stream_graph()).generate()
    loaded = [vertex.load_chain() for vertex in graph.vertices.values()]
    return {chain.operators[0].name: chain for chain in loaded}


def has_event_time(config):
    return event_time_gauges(config, None)["hasEventTime"]()


def source(env, name, strategy):
    return env.from_source(NumberSequenceSource(1, 9), strategy, name, Types.LONG())


def test_the_graph_tells_where_the_event_time_of_an_input_comes_from():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    whole = strategy.with_idleness(Duration.of_seconds(1)).with_timestamp_assigner(Itself())

    def build(env):
        bare = source(env, "bare", WatermarkStrategy.no_watermarks())
        early = source(env, "early", strategy).rebalance().map(abs, Types.LONG()).name("abs")
        later = source(env, "plain", WatermarkStrategy.no_watermarks()).rebalance()
        later = later.assign_timestamps_and_watermarks(whole).name("assigned")
        united = bare.union(early, later).key_by(lambda v: v)
        united.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(max).name("window")

    found = chains(build)
    behind = {origin for gate in found["window"].gates for origin in gate.origins}
    assert behind == {
        EventTimeOrigin("Source: bare", has_strategy=False, has_assigner=False),
        EventTimeOrigin("Source: early", has_strategy=True, has_assigner=False),
        EventTimeOrigin("assigned", has_strategy=True, has_assigner=True),
    }
    assert {name: has_event_time(chain) for name, chain in found.items()} == {
        "Source: bare": 0,
        "Source: early": 1,
        "abs": 1,
        "Source: plain": 0,
        "assigned": 1,
        "window": 1,
    }


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(Time.milliseconds(10)),
        EventTimeSessionWindows.with_gap(Time.milliseconds(10)),
    ],
)
def test_windows_without_timers_tell_whether_one_is_open(assigner):
    state = ReducingStateDescriptor("contents", max, Types.LONG())
    descriptor = operators.Window(
        max,
        assigner=assigner,
        trigger=assigner.get_default_trigger(None),
        function_kind="reduce",
        state_descriptor=state,
    )
    with KeyedOneInputStreamOperatorTestHarness(descriptor, abs) as test:
        assert not test.operator.has_open_windows
        test.process_element(3, 3)
        assert test.operator.has_open_windows
        test.process_watermark(100)
        assert not test.operator.has_open_windows
