"""PipelineTestHarness: whole programs in virtual time."""

import pytest
from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
)
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import InvalidProgramError
from penstock.testing import PipelineTestHarness

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


def add(left, right):
    return left[0], left[1] + right[1]


def test_a_program_runs_from_its_sources_to_its_sinks():
    harness = PipelineTestHarness()
    words = harness.source("lines", Types.STRING()).flat_map(str.split, Types.STRING())
    pairs = words.map(lambda word: (word, 1), PAIR)
    counts = pairs.key_by(lambda v: v[0]).window(TEN).reduce(add)
    harness.sink("counts", counts)
    harness.sink("words", words)
    with harness:
        harness.process_element("lines", "a b a", 1)
        harness.process_element("lines", "a", 12)
        assert harness.values("words") == ["a", "b", "a", "a"]
        assert harness.values("counts") == []
        harness.process_watermark("lines", 9)
        assert sorted(harness.values("counts")) == [("a", 2), ("b", 1)]
        assert harness.output("counts").watermarks == [9]
        harness.end_inputs()
        assert harness.values("counts")[2:] == [("a", 1)]


def test_the_slowest_of_united_and_joined_streams_decides():
    harness = PipelineTestHarness()
    left, right, other = (harness.source(name, PAIR) for name in ("left", "right", "other"))
    both = left.union(right)
    harness.sink("both", both)
    joined = both.join(other).where(lambda v: v[0]).equal_to(lambda v: v[0]).window(TEN)
    harness.sink("joined", joined.apply(lambda a, b: (a[0], a[1] * b[1])))
    with harness:
        harness.process_element("left", ("a", 2), 1)
        harness.process_element("right", ("a", 3), 2)
        harness.process_element("other", ("a", 10), 3)
        harness.process_watermark("left", 50)
        harness.process_watermark("other", 40)
        assert harness.output("both").watermarks == []
        harness.process_watermark("right", 20)
        assert harness.output("both").watermarks == [20]
        assert sorted(harness.values("joined")) == [("a", 20), ("a", 30)]
        harness.process_watermark_status("right", idle=True)
        assert harness.output("both").watermarks == [20, 50]


class Remind(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_processing_time_timer(100)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()


def test_a_snapshot_of_a_program_is_restored_into_the_same_one():
    def program():
        harness = PipelineTestHarness()
        harness.sink("reminders", harness.source("keys").key_by(lambda v: v).process(Remind()))
        return harness

    with program() as old:
        old.process_element("keys", "a")
        snapshot = old.snapshot(1)
    new = program()
    new.open(snapshot)
    new.process_element("keys", "a")
    new.set_processing_time(100)
    assert new.values("reminders") == [("a", 2)]
    new.close()


LATE = OutputTag("odd", Types.INT())


class Sort(ProcessFunction):
    def process_element(self, value, ctx):
        yield (LATE, value) if value % 2 else value


class Doubled(AsyncFunction):
    async def async_invoke(self, value):
        return [value * 2]


class Rules(BroadcastProcessFunction):
    RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())

    def process_element(self, value, ctx):
        yield value + (ctx.get_broadcast_state(self.RULES).get("more") or 0)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self.RULES).put("more", value)


class Itself(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def test_side_outputs_asynchronous_calls_broadcasts_and_own_sources():
    harness = PipelineTestHarness()
    env = harness.environment
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1))
    numbers = env.from_collection([1, 2, 3, 4], Types.INT()).set_parallelism(1)
    timed = numbers.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Itself()))
    even = timed.process(Sort())
    rules = harness.source("rules").broadcast(Rules.RULES)
    harness.sink("odd", even.get_side_output(LATE))
    doubled = AsyncDataStream.ordered_wait(even, Doubled(), Time.seconds(10), 1)
    harness.sink("doubled", doubled)
    harness.sink("ruled", even.connect(rules).process(Rules()))
    with harness:
        harness.process_element("rules", 100)
        harness.run_sources()
        harness.end_inputs()
        assert harness.values("odd") == [1, 3]
        assert [tuple(record) for record in harness.output("doubled").records] == [(4, 2), (8, 4)]
        assert harness.values("ruled") == [102, 104]


def test_failures_of_the_program_reach_the_test():
    harness = PipelineTestHarness()
    harness.sink("inverses", harness.source("numbers").map(lambda v: 1 / v))
    with harness, pytest.raises(ZeroDivisionError):
        harness.process_element("numbers", 0)


def test_limits_of_a_harness_are_reported():
    harness = PipelineTestHarness()
    source = harness.source("numbers", Types.INT())
    with pytest.raises(InvalidProgramError, match="already has a source or sink 'numbers'"):
        harness.source("numbers")
    with pytest.raises(RuntimeError, match="the harness is not open"):
        harness.process_element("numbers", 1)
    loop = source.iterate()
    loop.close_with(loop.map(lambda v: v, Types.INT()))
    with pytest.raises(InvalidProgramError, match="cannot run iterations"):
        harness.open()
