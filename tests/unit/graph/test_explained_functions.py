"""`explain()` says for each function whether it is evaluated or called, and why."""

import pytest
from penstock.common import Row, Types
from penstock.common.configuration import Configuration
from penstock.common.time import Time
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from penstock.datastream.window import CountEvictor, TumblingEventTimeWindows
from penstock.network import runtime

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")

WINDOW = TumblingEventTimeWindows.of(Time.seconds(1))


class Scaled(MapFunction):
    factor = 3

    def map(self, value):
        return value * self.factor


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Passing(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Reminding(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        yield timestamp
        yield timestamp


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def facts(build, **options):
    """Return the explanation of the functions of a program."""
    configuration = Configuration.from_dict(
        {key.replace("__", "."): v for key, v in options.items()}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    build(env.from_collection([(1, 2)])).print()
    plan = env.explain().partition("Vertices")[0]
    return [
        line.strip() for line in plan.splitlines() if line.startswith("      ") and "<-" not in line
    ]


def looping(value):
    while value:
        value = value - 1
    return value


@pytest.mark.parametrize(
    ("function", "fact"),
    [
        (lambda x: x + 1, "evaluated"),
        (lambda x, k=2: x * k, "evaluated"),
        (lambda x: abs(x), "called, it calls 'abs'"),
        (lambda x: x.real, "called, it takes an attribute in line "),
        (lambda x: f"{x}", "called, it formats a string in line "),
        (lambda x: x[1:], "called, it "),
        (lambda *x: x, "called, it takes any number of arguments"),
        (lambda x, *, k=1: x, "called, it has parameters that only keywords set"),
        (lambda x: lambda: x, "called, it has variables that other functions use"),
        (looping, "called, it loops in line "),
        (abs, "called, it is not a Python function but a builtin_function_or_method"),
        (Scaled(), "called, it uses 'self', which the method is bound to"),
        (lambda x, *, y: x, "called, it has parameters that only keywords set"),
    ],
)
def test_a_map(function, fact):
    assert facts(lambda stream: stream.map(function))[0].startswith(f"map: {fact}")


def test_every_place():
    assert facts(lambda s: s.filter(lambda x: x).flat_map(lambda x: [x])) == [
        "filter: evaluated",
        "flat_map: evaluated",
    ]
    keyed = facts(lambda s: s.key_by(lambda x: x[0]).reduce(lambda a, b: (a[0], b[1])))
    assert keyed == ["reduce: evaluated", "key selector: field 0, taken without a call"]
    assert facts(lambda s: s.key_by(lambda x: (x, 1)).map(Scaled())) == [
        "map: called, because it may use the state of a key",
        "key selector: evaluated",
    ]
    assert facts(lambda s: s.partition_custom(lambda key, n: key % n, lambda x: x[0])) == [
        "key selector: evaluated",
        "partitioner: evaluated",
    ]
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(SecondField())
    assert facts(lambda s: s.assign_timestamps_and_watermarks(strategy)) == [
        "timestamp assigner: evaluated"
    ]
    assert facts(lambda s: s.process(Passing())) == [
        "Passing: called, because it also receives other arguments than records"
    ]
    row = Types.ROW_NAMED(["x"], [Types.LONG()])
    assert facts(lambda s: s.map(lambda x: Row(x[0]), row).map_batches(list, row))[1:] == [
        "type: called, once for each batch"
    ]
    assert facts(lambda s: s.key_by(lambda x: x[0]).process(Reminding())) == [
        "process_element: evaluated",
        "on_timer: called, it continues after it has emitted a record",
        "key selector: field 0, taken without a call",
    ]


def test_windows():
    def windows(stream):
        return stream.key_by(lambda x: x[0]).window(WINDOW)

    key = "key selector: field 0, taken without a call"
    assert facts(lambda s: windows(s).reduce(lambda a, b: b)) == ["reduce: evaluated", key]
    assert facts(lambda s: windows(s).aggregate(Count())) == ["add: evaluated", key]
    evicting = facts(lambda s: windows(s).evictor(CountEvictor.of(1)).reduce(lambda a, b: b))
    assert evicting[0].startswith("reduce: called when a window fires")


def test_an_option_turns_it_off():
    said = facts(lambda s: s.map(lambda x: x), **{"penstock.evaluate-functions": "false"})
    assert said == ["map: called, it is not analysed, as penstock.evaluate-functions is false"]
