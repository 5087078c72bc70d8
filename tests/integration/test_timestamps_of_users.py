"""Timestamps that users' functions may return, and errors that name the function.

Goal: a number beyond 64 bits is rejected with the same message in both runtimes, wherever a
timestamp comes from; a fraction is truncated, as in PyFlink.
"""

import datetime

import numpy
import pytest
from penstock.common import (
    Configuration,
    Duration,
    Instant,
    Row,
    Time,
    Types,
    WatermarkStrategy,
)
from penstock.common.watermark_generator import WatermarkGenerator
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.functions import SourceFunction
from penstock.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    SessionWindowTimeGapExtractor,
    TimeWindow,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from penstock.errors import InvalidProgramError
from penstock.expressions import field

WORDS = "expected milliseconds as a number of 64 bits, got "
TOO_LARGE = 2**63


@pytest.fixture(params=["native", "pure"])
def env(request, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", request.param)
    configuration = Configuration.from_dict({"execution.target": "local"})
    made = StreamExecutionEnvironment.get_execution_environment(configuration)
    made.set_parallelism(1)
    return made


class Give(TimestampAssigner):
    """Called: it does more than compute."""

    def __init__(self, given):
        self.given = [given]

    def extract_timestamp(self, value, record_timestamp):
        return self.given.pop() if self.given else value


class Double(TimestampAssigner):
    """Evaluated: it only computes."""

    def extract_timestamp(self, value, record_timestamp):
        return value * 2


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.timestamp()


class EmitTooFar(WatermarkGenerator):
    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(TOO_LARGE)

    def on_periodic_emit(self, output):
        pass


class Source(SourceFunction):
    def __init__(self, method, *arguments):
        self.method = method
        self.arguments = arguments

    def run(self, ctx):
        getattr(ctx, self.method)(*self.arguments)


class Gap(SessionWindowTimeGapExtractor):
    def __init__(self, gap):
        self.gap = gap

    def extract(self, element):
        return self.gap


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def timed(env, assigner, values=(1,)):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    source = env.from_collection(list(values), Types.LONG())
    return source.assign_timestamps_and_watermarks(strategy)


@pytest.mark.parametrize(
    ("assigner", "value", "name", "shown"),
    [
        (Give(TOO_LARGE), 1, "Give.extract_timestamp", str(TOO_LARGE)),
        (Give(float("nan")), 1, "Give.extract_timestamp", "nan"),
        (Double(), -(2**62) - 1, "Double.extract_timestamp", str(-(2**63) - 2)),
    ],
)
def test_an_assigner_that_gives_too_much_is_named(env, assigner, value, name, shown):
    with pytest.raises(OverflowError) as caught:
        collect(timed(env, assigner, [value]))
    assert f"{name}: {WORDS}{shown}" in str(caught.value)


def test_an_assigner_may_give_points_of_time(env):
    """A datetime of any zone, an Instant and a datetime64 of any unit become milliseconds."""
    given = [
        datetime.datetime(1980, 1, 1, tzinfo=datetime.UTC),
        Instant(10**9, 5_000_000),
        numpy.datetime64("2024-01-01T00:00:00.000000001"),
        datetime.datetime(2024, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-1))),
    ]

    class Given(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return given[value]

    stamped = timed(env, Given(), range(len(given))).process(Stamp())
    assert collect(stamped) == [315_532_800_000, 10**12 + 5, 1_704_067_200_000, 1_704_074_400_000]


def test_an_expression_may_give_points_of_time(env):
    moment = Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(field("at"))
    rows = env.from_collection([Row(datetime.datetime(2024, 1, 1))], moment)
    assert collect(rows.assign_timestamps_and_watermarks(strategy).process(Stamp())) == [
        1_704_067_200_000
    ]


@pytest.mark.parametrize(
    ("unit", "mode", "asks"),
    [(1, "STREAMING", True), (1, "BATCH", True), (1000, "STREAMING", False)],
)
def test_the_log_asks_once_about_event_times_that_look_like_seconds(env, caplog, unit, mode, asks):
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    seconds = range(1_700_000_000, 1_700_000_050)
    stamped = timed(env, Give(unit * seconds[0]), [unit * second for second in seconds])
    collect(stamped.process(Stamp()))
    questions = [text for text in caplog.messages if "are they seconds?" in text]
    assert len(questions) == asks
    assert all("1970-01-20 16:13:20" in text for text in questions)


def test_an_assigner_that_gives_no_number_is_named(env):
    with pytest.raises(TypeError, match=f"Give.extract_timestamp: {WORDS}None"):
        collect(timed(env, Give(None)))


def test_an_assigner_of_a_source_is_named(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Double())
    source = Source("collect", 2**62)
    stream = env.add_source(source, "numbers", Types.LONG())
    with pytest.raises(OverflowError, match=f"Double.extract_timestamp: {WORDS}{TOO_LARGE}"):
        collect(stream.assign_timestamps_and_watermarks(strategy))


def test_a_generator_that_emits_too_much_gets_an_error(env):
    strategy = WatermarkStrategy.for_generator(EmitTooFar).with_timestamp_assigner(Give(1))
    source = env.from_collection([1], Types.LONG())
    with pytest.raises(OverflowError, match=f"emit_watermark: {WORDS}{TOO_LARGE}"):
        collect(source.assign_timestamps_and_watermarks(strategy))


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("collect_with_timestamp", (1, TOO_LARGE)), ("emit_watermark", (TOO_LARGE,))],
)
def test_a_source_that_emits_too_much_gets_an_error(env, method, arguments):
    stream = env.add_source(Source(method, *arguments), "source", Types.LONG())
    with pytest.raises(OverflowError, match=f"{method}: {WORDS}{TOO_LARGE}"):
        collect(stream)


def test_timers_beyond_64_bits_are_refused_where_they_are_set(env):
    class Set(KeyedProcessFunction):
        def process_element(self, value, ctx):
            timers = ctx.timer_service()
            for verb in ("register", "delete"):
                for domain in ("event", "processing"):
                    name = f"{verb}_{domain}_time_timer"
                    for given in (TOO_LARGE, -TOO_LARGE - 1, float("inf"), None):
                        try:
                            getattr(timers, name)(given)
                        except (OverflowError, TypeError) as error:
                            yield str(error) == f"{name}: {WORDS}{given!r}"
            timers.register_event_time_timer(TOO_LARGE - 1)
            timers.register_event_time_timer(7.9)

        def on_timer(self, timestamp, ctx):
            yield timestamp

    keyed = env.from_collection([1], Types.LONG()).key_by(lambda value: value)
    assert collect(keyed.process(Set())) == [True] * 16 + [7, TOO_LARGE - 1]


@pytest.mark.parametrize(
    ("gap", "kind", "words"),
    [
        (10.5, TypeError, "Gap.extract: a gap must be a whole number of milliseconds, got 10.5"),
        (TOO_LARGE, OverflowError, f"Gap.extract: {WORDS}{TOO_LARGE}"),
    ],
)
def test_a_gap_that_is_no_whole_number_is_refused(env, gap, kind, words):
    """Sessions of a fractional gap would silently be lost."""
    windows = EventTimeSessionWindows.with_dynamic_gap(Gap(gap))
    keyed = timed(env, Give(1)).key_by(lambda value: value)
    with pytest.raises(kind, match=words):
        collect(keyed.window(windows).reduce(lambda a, b: a + b))


def test_windows_of_fractions_are_cut_to_milliseconds(env):
    """Otherwise they would silently be lost: the truncated timers would not match the windows."""

    class Fractions(WindowAssigner):
        def assign_windows(self, element, timestamp, context):
            return [TimeWindow(timestamp + 0.25, timestamp + 10.75)]

        def get_default_trigger(self, env):
            return EventTimeTrigger()

        def get_window_serializer(self):
            return TimeWindowSerializer()

        def is_event_time(self):
            return True

    class Tell(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield context.window().start, context.window().end, list(elements)

    keyed = timed(env, Give(1)).key_by(lambda value: value)
    assert collect(keyed.window(Fractions()).process(Tell())) == [(1, 11, [1])]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(Time.milliseconds(TOO_LARGE)),
        lambda: TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(TOO_LARGE)),
        lambda: EventTimeSessionWindows.with_gap(Time.milliseconds(TOO_LARGE)),
        lambda: WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(2**40)),
    ],
)
def test_spans_beyond_64_bits_are_refused_when_they_are_given(make):
    with pytest.raises(InvalidProgramError, match="64 bits"):
        make()


@pytest.mark.parametrize("lateness", [TOO_LARGE, None, "5"])
def test_a_lateness_that_is_no_number_of_64_bits_is_refused(env, lateness):
    windows = TumblingEventTimeWindows.of(Time.milliseconds(10))
    windowed = timed(env, Give(1)).key_by(lambda value: value).window(windows)
    with pytest.raises(InvalidProgramError, match=f"allowed_lateness: {WORDS}"):
        windowed.allowed_lateness(lateness)
