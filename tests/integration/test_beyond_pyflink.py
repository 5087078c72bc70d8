"""Features of Flink's DataStream that PyFlink lacks, run on the local target.

Method: small programs whose results plain Python computes, too.
"""

import threading

import pytest
from penstock.common import Configuration, Time, Types, WatermarkStrategy
from penstock.common.watermark_generator import WatermarkGenerator
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    KeyedMultipleInputProcessFunction,
    MultipleConnectedStreams,
    MultipleInputProcessFunction,
    ProcessFunction,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from penstock.datastream.functions import FlatJoinFunction, ProcessJoinFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    GlobalWindows,
    TumblingEventTimeWindows,
)
from penstock.errors import InvalidProgramError

LEFT = [("k", 1), ("k", 5), ("j", 12), ("j", 21)]
RIGHT = [("k", 2), ("j", 13), ("j", 25), ("x", 26)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


@pytest.fixture
def env():
    configuration = Configuration.from_dict({"execution.target": "local"})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def timed(env, elements):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = env.from_collection(elements)
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


def results(stream):
    with stream.execute_and_collect() as found:
        return sorted(found, key=repr)


def same_window(left, right):
    return left[0] == right[0] and left[1] // 10 == right[1] // 10


def in_windows(pair):
    keyed = pair.where(lambda v: v[0], Types.STRING()).equal_to(lambda v: v[0])
    return keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))


def test_window_join_pairs_what_shares_key_and_window(env):
    joined = in_windows(timed(env, LEFT).join(timed(env, RIGHT))).apply(lambda a, b: (a, b))
    wanted = [(a, b) for a in LEFT for b in RIGHT if same_window(a, b)]
    assert results(joined) == sorted(wanted, key=repr)


def test_a_flat_join_may_drop_and_repeat(env):
    class Twice(FlatJoinFunction):
        def join(self, first, second):
            return [first[1] + second[1]] * 2 if first[0] == "k" else []

    joined = in_windows(timed(env, LEFT).join(timed(env, RIGHT))).apply(Twice(), Types.LONG())
    assert results(joined) == [3, 3, 7, 7]


def test_co_group_sees_windows_with_one_side(env):
    grouped = in_windows(timed(env, LEFT).co_group(timed(env, RIGHT)))
    counted = grouped.apply(lambda a, b: [(len(a), len(b))])
    assert results(counted) == [(0, 1), (1, 1), (1, 1), (2, 1)]


def test_interval_join_pairs_what_is_near(env):
    class Pair(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            yield left, right, ctx.get_timestamp()

    def keyed(elements):
        return timed(env, elements).key_by(lambda v: v[0], Types.STRING())

    near = keyed(LEFT).interval_join(keyed(RIGHT))
    joined = near.between(Time.milliseconds(-3), Time.milliseconds(4)).process(Pair())
    wanted = [
        (a, b, max(a[1], b[1]))
        for a in LEFT
        for b in RIGHT
        if a[0] == b[0] and -3 <= b[1] - a[1] <= 4
    ]
    assert results(joined) == sorted(wanted, key=repr)


def test_split_gives_elements_names(env):
    numbers = env.from_collection(list(range(6)), Types.INT())
    split = numbers.split(lambda v: ["even"] if v % 2 == 0 else ["odd", "all"])
    assert results(split.select("even")) == [0, 2, 4]
    assert results(split.select("even", "all")) == list(range(6))


def test_a_generator_of_the_users_own_emits_per_record(env):
    class EveryElement(WatermarkGenerator):
        def on_event(self, event, event_timestamp, output):
            output.emit_watermark(event_timestamp - 1)

        def on_periodic_emit(self, output):
            pass

    class Watermark(ProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.timer_service().current_watermark()

    strategy = WatermarkStrategy.for_generator(EveryElement).with_timestamp_assigner(SecondField())
    stream = env.from_collection([("a", 5), ("a", 9), ("a", 7)])
    watermarks = stream.assign_timestamps_and_watermarks(strategy).process(Watermark())
    assert results(watermarks) == [-(2**63), 4, 8]


def test_an_evictor_keeps_the_last_records(env):
    class Contents(WindowFunction):
        def apply(self, key, window, inputs):
            return [list(inputs)]

    keyed = env.from_collection([1, 2, 3, 4, 5], Types.INT()).key_by(lambda v: 0, Types.INT())
    windows = keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2))
    assert results(windows.evictor(CountEvictor.of(3)).apply(Contents())) == [[1, 2], [2, 3, 4]]


def test_source_and_sink_functions_in_python(env, tmp_path):
    class Count(SourceFunction):
        def run(self, ctx):
            for number in range(4):
                if not ctx.is_running():
                    return
                ctx.collect_with_timestamp(number, number * 10)

    class Append(SinkFunction):
        def __init__(self, path):
            self.path = path

        def open(self, runtime_context):
            self.file = open(self.path, "a")  # noqa: SIM115

        def invoke(self, value, context):
            self.file.write(f"{value}@{context.timestamp()}\n")

        def close(self):
            self.file.close()

    path = tmp_path / "written"
    env.add_source(Count(), type_info=Types.INT()).add_sink(Append(str(path)))
    env.execute("in Python")
    assert path.read_text().splitlines() == ["0@0", "1@10", "2@20", "3@30"]


def test_global_sends_everything_to_the_first_subtask(env):
    class Subtask(ProcessFunction):
        def open(self, runtime_context):
            self.index = runtime_context.get_index_of_this_subtask()

        def process_element(self, value, ctx):
            yield self.index

    env.set_parallelism(2)
    numbers = env.from_collection(list(range(10)), Types.INT())
    assert results(numbers.global_().process(Subtask())) == [0] * 10


def test_a_limit_ends_a_source_without_end(env):
    """The job does not wait for a record beyond the limit, which would never arrive."""

    class Five(SourceFunction):
        def open(self, runtime_context):
            self.stopped = threading.Event()

        def run(self, ctx):
            for number in range(5):
                ctx.collect(number)
            self.stopped.wait()

        def cancel(self):
            self.stopped.set()

    assert env.add_source(Five(), type_info=Types.INT()).execute_and_collect(limit=5) == [
        0,
        1,
        2,
        3,
        4,
    ]


class Numbered(MultipleInputProcessFunction):
    def process_element(self, input_number, value, ctx):
        yield input_number, value


class Latest(KeyedMultipleInputProcessFunction):
    """Emits a key's sum of all streams when event time ends."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.INT()))

    def process_element(self, input_number, value, ctx):
        self.sum.update((self.sum.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(1_000_000)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.sum.value()


def test_several_streams_in_the_hands_of_one_function(env):
    streams = [env.from_collection([number, number * 10]) for number in range(1, 4)]
    # The first input is a union: both of its streams have its number.
    joined = MultipleConnectedStreams(streams[0].union(env.from_collection([7])), *streams[1:])
    found = results(joined.process(Numbered()))
    assert found == [(0, 1), (0, 10), (0, 7), (1, 2), (1, 20), (2, 3), (2, 30)]


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_several_keyed_streams_share_their_keys(mode):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local", "execution.runtime-mode": mode})
    )
    env.set_parallelism(2)
    keyed = [
        env.from_collection([(f"k{i}", number) for i in range(5)]).key_by(
            lambda v: v[0], Types.STRING()
        )
        for number in (1, 10, 100)
    ]
    found = results(MultipleConnectedStreams(*keyed).process(Latest()))
    assert found == [(f"k{i}", 111) for i in range(5)]


def test_keyed_and_unkeyed_streams_do_not_mix(env):
    stream = env.from_collection([("a", 1)])
    with pytest.raises(InvalidProgramError, match="keyed streams or streams without keys"):
        MultipleConnectedStreams(stream, stream.key_by(lambda v: v[0]))
    with pytest.raises(InvalidProgramError, match=r"takes a KeyedMultipleInputProcessFunction"):
        MultipleConnectedStreams(stream.key_by(lambda v: v[0])).process(Numbered())
    with pytest.raises(InvalidProgramError, match="takes DataStreams, got"):
        MultipleConnectedStreams(stream, [1])
