"""Timestamps of window and timer results, and repeated firing, as in PyFlink 2.3.

Goal: a result has the time of its cause: the element that fired a window early or late, or the
timer.  Method: few jobs with several branches; every element is followed by its own watermark, so
that nothing depends on the speed of the machine.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.common import Configuration, Row, Time, Types, WatermarkStrategy
from penstock.common.watermark_generator import WatermarkGenerator, WatermarkOutput
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    DataStream,
    KeyedProcessFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    CountTumblingWindowAssigner,
    GlobalWindows,
    TumblingEventTimeWindows,
)

TEN_MS = TumblingEventTimeWindows.of(Time.milliseconds(10))


class ItsValue(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class Timestamp(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp()


class EveryElement(WatermarkGenerator):
    """Emits a watermark after each record."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(event_timestamp - 1)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def add(first: int, second: int) -> int:
    return first + second


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    made = StreamExecutionEnvironment.get_execution_environment(configuration)
    made.set_parallelism(1)
    return made


def timed(env: StreamExecutionEnvironment, values: list[int]) -> DataStream[Any]:
    strategy = WatermarkStrategy.for_generator(EveryElement).with_timestamp_assigner(ItsValue())
    source = env.from_collection(values, Types.LONG())
    return source.assign_timestamps_and_watermarks(strategy)


def tag(name: str, value: Any) -> tuple[str, Any]:
    return name, value


def collect(branches: Mapping[str, DataStream[Any]]) -> dict[str, list[Any]]:
    """Run one job for several streams; return the results of each, in order."""
    tagged = [stream.map(functools.partial(tag, name)) for name, stream in branches.items()]
    found: dict[str, list[Any]] = {name: [] for name in branches}
    with tagged[0].union(*tagged[1:]).execute_and_collect() as results:
        for name, value in results:
            found[name].append(value)
    return found


def test_results_carry_the_time_of_what_fired_the_window() -> None:
    stream = timed(environment(), [1, 12, 5, 25, 13, 3])
    keyed = stream.key_by(lambda _: 0, Types.INT())
    hundred_ms = TumblingEventTimeWindows.of(Time.milliseconds(100))
    found = collect(
        {
            "at the end": keyed.window(TEN_MS).reduce(add).process(Timestamp()),
            "early": keyed.window(TEN_MS)
            .trigger(CountTrigger.of(1))
            .reduce(add)
            .process(Timestamp()),
            "late": keyed.window(TEN_MS).allowed_lateness(100).reduce(add).process(Timestamp()),
            "counted": keyed.count_window(2).reduce(add).process(Timestamp()),
            "all": stream.window_all(CountTumblingWindowAssigner.of(2))
            .reduce(add)
            .process(Timestamp()),
            "global": keyed.window(GlobalWindows.create())
            .trigger(CountTrigger.of(2))
            .reduce(add)
            .process(Timestamp()),
            "continuous": keyed.window(hundred_ms)
            .trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(10)))
            .reduce(add)
            .process(Timestamp()),
        }
    )
    assert found == {
        "at the end": [(1, 9), (12, 19), (25, 29)],
        "early": [(1, 1), (12, 12), (25, 25)],
        "late": [(1, 9), (6, 5), (12, 19), (25, 13), (9, 3), (25, 29)],
        "counted": [(13, 12), (30, 25), (16, 3)],
        "all": [(13, 12), (30, 25), (16, 3)],
        "global": [(13, 12), (43, 25), (59, 3)],
        # The end of the window is due with the multiple before it: none in between fires.
        "continuous": [(13, 10), (43, 20), (59, 30), (59, 99)],
    }


class OnTimer(KeyedProcessFunction):
    """Emits the time of a processing-time timer; downstream sees it as the timestamp."""

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        del value
        ctx.timer_service().register_processing_time_timer(1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[int]:
        assert ctx.timestamp() == timestamp
        yield timestamp


def test_output_of_processing_time_timers_carries_their_time() -> None:
    keyed = environment().from_collection([7], Types.LONG()).key_by(lambda _: 0, Types.INT())
    assert collect({"timer": keyed.process(OnTimer()).process(Timestamp())}) == {"timer": [(1, 1)]}


class CurrentKey(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        key = ctx.get_current_key()
        yield key.as_dict(), value


def test_keys_of_a_row_type_have_its_field_names() -> None:
    stream = environment().from_collection([(1, "a"), (2, "b")])
    fields = [Types.INT(), Types.STRING()]
    found = collect(
        {
            "named": stream.key_by(
                lambda value: Row(*value), Types.ROW_NAMED(["p", "q"], fields)
            ).process(CurrentKey()),
            "unnamed": stream.key_by(lambda value: Row(*value), Types.ROW(fields)).process(
                CurrentKey()
            ),
        }
    )
    assert found == {
        "named": [({"p": 1, "q": "a"}, (1, "a")), ({"p": 2, "q": "b"}, (2, "b"))],
        "unnamed": [({"f0": 1, "f1": "a"}, (1, "a")), ({"f0": 2, "f1": "b"}, (2, "b"))],
    }
