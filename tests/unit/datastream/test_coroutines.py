"""Functions written with ``async def`` are rejected wherever a plain function is called.

A coroutine is true and is no result: a filter would pass everything, a sink would write nothing.
"""

import functools

import pytest
from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_generator import WatermarkGenerator
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoMapFunction,
    DataStream,
    FilterFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors import PythonSink, SinkWriter
from penstock.datastream.functions import AggregateFunction, KeySelector
from penstock.datastream.state import ReducingStateDescriptor
from penstock.datastream.window import (
    CountTrigger,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from penstock.errors import InvalidProgramError


async def coroutine(*_):
    return True


async def generator(value):
    yield value


class Callable:
    async def __call__(self, value):
        return value


class Keep(FilterFunction):
    async def filter(self, value):
        return False


class Opening(MapFunction):
    async def open(self, runtime_context):
        pass

    def map(self, value):
        return value


class Inherited(Keep):
    pass


class Timers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value

    async def on_timer(self, timestamp, ctx):
        yield timestamp


class Process(ProcessFunction):
    async def process_element(self, value, ctx):
        yield value


class Key(KeySelector):
    async def get_key(self, value):
        return value


class Sink(SinkFunction):
    async def invoke(self, value, context=None):
        pass


class Source(SourceFunction):
    async def run(self, ctx):
        ctx.collect(1)

    def cancel(self):
        pass


class CoMap(CoMapFunction):
    def map1(self, value):
        return value

    async def map2(self, value):
        return value


class Aggregate(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return 0

    async def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a


class Trigger(CountTrigger):
    async def on_element(self, element, timestamp, window, ctx):
        pass


class Gap(SessionWindowTimeGapExtractor):
    async def extract(self, element):
        return 1


class Timestamps(TimestampAssigner):
    async def extract_timestamp(self, value, record_timestamp):
        return 0


class Writing(PythonSink):
    async def create_writer(self, context):
        return SinkWriter()


class Slow(AsyncFunction):
    async def async_invoke(self, value):
        return [value]

    async def timeout(self, value):
        return []


class GeneratesInOpen(AsyncFunction):
    async def open(self, runtime_context):
        yield runtime_context

    async def async_invoke(self, value):
        return [value]


class Client(AsyncFunction):
    async def open(self, runtime_context):
        pass

    async def async_invoke(self, value):
        return [value]

    async def close(self):
        pass


def timestamps() -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1))


WRONG = {
    "map": lambda ds: ds.map(coroutine),
    "map, generator": lambda ds: ds.map(generator),
    "flat_map": lambda ds: ds.flat_map(generator),
    "filter": lambda ds: ds.filter(coroutine),
    "partial": lambda ds: ds.filter(functools.partial(coroutine, 1)),
    "partial of a callable": lambda ds: ds.map(functools.partial(Callable())),
    "callable": lambda ds: ds.map(Callable()),
    "bound method": lambda ds: ds.map(Callable().__call__),
    "FilterFunction": lambda ds: ds.filter(Keep()),
    "inherited": lambda ds: ds.filter(Inherited()),
    "open": lambda ds: ds.map(Opening()),
    "process": lambda ds: ds.process(Process()),
    "on_timer": lambda ds: ds.key_by(abs).process(Timers()),
    "key_by": lambda ds: ds.key_by(coroutine),
    "KeySelector": lambda ds: ds.key_by(Key()),
    "reduce": lambda ds: ds.key_by(abs).reduce(coroutine),
    "partitioner": lambda ds: ds.partition_custom(coroutine, abs),
    "split": lambda ds: ds.split(coroutine),
    "co_map": lambda ds: ds.connect(ds).map(CoMap()),
    "add_sink": lambda ds: ds.add_sink(Sink()),
    "sink_to": lambda ds: ds.sink_to(Writing()),
    "add_source": lambda ds: ds.get_execution_environment().add_source(Source()),
    "timestamps": lambda ds: timestamps().with_timestamp_assigner(Timestamps()),
    "generator": lambda ds: WatermarkStrategy.for_generator(coroutine),
    "window": lambda ds: (
        ds.key_by(abs).window(DynamicEventTimeSessionWindows(Gap())).reduce(lambda a, b: a)
    ),
    "trigger": lambda ds: ds.key_by(abs).count_window(2).trigger(Trigger(2)).reduce(lambda a, b: a),
    "delta": lambda ds: (
        ds.key_by(abs)
        .count_window(2)
        .trigger(DeltaTrigger.of(1.0, coroutine))
        .reduce(lambda a, b: a)
    ),
    "aggregate": lambda ds: ds.key_by(abs).count_window(2).aggregate(Aggregate()),
    "state": lambda ds: ReducingStateDescriptor("sum", coroutine, Types.LONG()),
    "async timeout": lambda ds: AsyncDataStream.ordered_wait(ds, Slow(), Time.seconds(1)),
    "async open, generator": lambda ds: AsyncDataStream.ordered_wait(
        ds, GeneratesInOpen(), Time.seconds(1)
    ),
}


def numbers() -> DataStream:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([1, 2])


@pytest.mark.parametrize("place", WRONG)
def test_async_def_is_refused_in_the_call(place: str) -> None:
    """The message says where, and names the alternative."""
    with pytest.raises(InvalidProgramError, match=r"async def.*AsyncDataStream"):
        WRONG[place](numbers())


def test_an_async_function_may_open_and_close_by_coroutines() -> None:
    AsyncDataStream.ordered_wait(numbers(), Client(), Time.seconds(1))


def test_the_error_of_an_async_function_in_map_names_the_right_method() -> None:
    """An async function is no MapFunction, and a newcomer may not know AsyncDataStream."""
    with pytest.raises(InvalidProgramError, match="AsyncDataStream"):
        numbers().map(Slow())


def test_a_generator_of_watermarks_with_coroutines_is_refused_when_it_is_made() -> None:
    """Only the subtask sees the generator."""

    class Generator(WatermarkGenerator):
        async def on_event(self, event, event_timestamp, output):
            pass

        def on_periodic_emit(self, output):
            pass

    with pytest.raises(InvalidProgramError, match="on_event is written with async def"):
        WatermarkStrategy.for_generator(Generator).create_watermark_generator()


def test_attributes_of_plain_functions_may_be_asynchronous() -> None:
    """A function may run an event loop of its own."""

    class Running(MapFunction):
        def __init__(self):
            self.call = coroutine

        def map(self, value):
            import asyncio

            return asyncio.run(self.call(value))

    numbers().map(Running())
