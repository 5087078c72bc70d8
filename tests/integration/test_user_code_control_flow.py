"""Exceptions of user code that steer the interpreter fail the job, and do not harm the driver.

Method: each of them, raised at every kind of place, must reach the caller of ``execute()`` as a
`JobExecutionError` whose text has the user's line.  So must exceptions that are hard to report.
Most programs run in threads of this process, because the effects occur on the driver; some run on
workers, with either runtime.
"""

import asyncio
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from penstock.common import Configuration, Time, Types, WatermarkStrategy
from penstock.common.accumulators import IntCounter, ListAccumulator
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoMapFunction,
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors import Boundedness, PythonSource, SplitEnumerator
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import JobExecutionError
from support.patience import PATIENCE_S

CONTROL_FLOW = [
    SystemExit(0),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(),
    StopAsyncIteration(),
    asyncio.CancelledError(),
]


class Raising:
    """Every method named here raises; open and close only if requested."""

    def __init__(self, error: BaseException, *methods: str) -> None:
        self.error, self.methods = error, methods

    def fail(self, *_: Any) -> Any:
        raise self.error  # the user's line


class Map(Raising, MapFunction):
    def open(self, runtime_context):
        if "open" in self.methods:
            self.fail()

    def close(self):
        if "close" in self.methods:
            self.fail()

    def map(self, value):
        return value


class Source(Raising, SourceFunction):
    def run(self, ctx):
        ctx.collect(1)
        self.fail()

    def cancel(self):
        pass


class Sink(Raising, SinkFunction):
    def invoke(self, value, context=None):
        self.fail()


class Timers(Raising, KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp, ctx):
        return self.fail()


class Async(Raising, AsyncFunction):
    async def async_invoke(self, value):
        if isinstance(self.error, StopIteration):
            return [self.fail]  # a coroutine cannot raise it; the next operator does
        self.fail()

    def timeout(self, value):
        return []


class Background(Raising, AsyncFunction):
    """Raises in a task of the event loop that the function does not wait for."""

    async def async_invoke(self, value):
        async def raising():
            self.fail()

        self.task = asyncio.create_task(raising())
        self.task.add_done_callback(
            lambda task: task.exception()
        )  # else asyncio logs it at the end
        await asyncio.Event().wait()

    def timeout(self, value):
        return []


class Timestamps(Raising, TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        self.fail()


class Aggregate(Raising, AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return self.fail()

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a


class CoMap(Raising, CoMapFunction):
    def map1(self, value):
        return self.fail()

    def map2(self, value):
        return value


class Value(Raising):
    def __reduce__(self):
        if isinstance(self.error, Exception):
            return Value, (self.error,)  # these are part of a SerializationError
        return self.fail()


class Enumerator(Raising, SplitEnumerator):
    def start(self):
        self.fail()

    def add_reader(self, subtask_id):
        pass

    def handle_split_request(self, subtask_id, requester_hostname):
        pass

    def add_splits_back(self, splits, subtask_id):
        pass


HANDLED = threading.Event()
"""The enumerator's error is in the main thread; errors of readers follow it."""


class AsyncEnumerator(Enumerator):
    """Raises in a thread of `call_async`, which passes the error to the handler."""

    def __init__(self, error, context):
        super().__init__(error)
        self.context = context

    def start(self):
        def handle(result, error):
            HANDLED.set()
            raise error

        self.context.call_async(self.fail, handle)


class Splits(Raising, PythonSource):
    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context):
        if self.methods:
            HANDLED.clear()
            return AsyncEnumerator(self.error, enum_context)
        HANDLED.set()
        return Enumerator(self.error)

    def create_reader(self, reader_context):
        HANDLED.wait(PATIENCE_S)
        raise NotImplementedError


NO_WATERMARKS = WatermarkStrategy.no_watermarks()
Place = Callable[[DataStream, BaseException], object]

PLACES: dict[str, Place] = {
    "map": lambda ds, error: ds.map(Raising(error).fail),
    "later in a chain": lambda ds, error: ds.map(lambda n: n + 1).map(Raising(error).fail),
    "filter": lambda ds, error: ds.filter(Raising(error).fail),
    "flat_map": lambda ds, error: ds.flat_map(Raising(error).fail),
    "behind flat_map": lambda ds, error: ds.flat_map(lambda n: [n]).map(Raising(error).fail),
    "key selector": lambda ds, error: ds.key_by(Raising(error).fail).map(str),
    "reduce": lambda ds, error: ds.key_by(lambda n: 1).reduce(Raising(error).fail),
    "partitioner": lambda ds, error: ds.partition_custom(Raising(error).fail, abs).map(str),
    "open": lambda ds, error: ds.map(Map(error, "open")),
    "close": lambda ds, error: ds.map(Map(error, "close")),
    "source": lambda ds, error: environment_of(ds).add_source(Source(error)).print(),
    "sink": lambda ds, error: ds.add_sink(Sink(error)),
    "timer": lambda ds, error: ds.key_by(lambda n: 1).process(Timers(error)),
    "timestamps": lambda ds, error: ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Timestamps(error))
    ),
    "window": lambda ds, error: ds.key_by(lambda n: 1).count_window(2).aggregate(Aggregate(error)),
    "co_map": lambda ds, error: ds.connect(ds).map(CoMap(error)),
    "async": lambda ds, error: AsyncDataStream.unordered_wait(
        ds, Async(error), Time.minutes(1)
    ).map(lambda n: n()),
    "value": lambda ds, error: (
        ds.map(lambda n: Value(error)).rebalance().map(lambda v: v.fail()).set_parallelism(2)
    ),
    "enumerator": lambda ds, error: (
        environment_of(ds).from_source(Splits(error), NO_WATERMARKS, "splits").print()
    ),
    "call_async": lambda ds, error: (
        environment_of(ds).from_source(Splits(error, "async"), NO_WATERMARKS, "splits").print()
    ),
}


def environment_of(stream: DataStream) -> StreamExecutionEnvironment:
    return stream.get_execution_environment()


def failure(target: str, place: Place, error: BaseException) -> JobExecutionError:
    """Return the exception of `execute()`, which must be a JobExecutionError."""
    configuration = Configuration()
    configuration.set_string("execution.target", target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    place(env.from_collection([1, 2, 3], Types.LONG()), error)
    with pytest.raises(JobExecutionError) as raised:
        env.execute()
    return raised.value


@pytest.mark.parametrize("place", PLACES)
def test_it_is_a_failed_job_wherever_user_code_raises_it(place: str) -> None:
    """The in-process target: places differ in who calls the user's code."""
    for error in CONTROL_FLOW if place in ("map", "async") else (SystemExit(0), StopIteration()):
        failed = failure("in-process", PLACES[place], error)
        assert type(error).__name__ in str(failed)
        assert "the user's line" in "".join(traceback.format_exception(failed))


@pytest.mark.parametrize("runtime", ["native", "pure"])
@pytest.mark.parametrize("place", ["map", "source", "async", "value"])
def test_it_is_a_failed_job_on_workers(
    place: str, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception is sent to the driver, which does not raise it itself."""
    if runtime == "native":
        pytest.importorskip("penstock._core")
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    for error in (SystemExit(0), StopIteration()):
        failed = failure("local", PLACES[place], error)
        assert "the user's line" in "".join(traceback.format_exception(failed))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_exception_that_stops_the_event_loop_fails_the_task(error: BaseException) -> None:
    """If the event loop ended, its pending calls would wait for ever."""

    def place(stream: DataStream, raised: BaseException) -> object:
        return AsyncDataStream.unordered_wait(stream, Background(raised), Time.minutes(1))

    assert type(error).__name__ in str(failure("in-process", place, error))


def test_an_exception_class_of_the_users_stays_itself() -> None:
    """A class that derives directly from BaseException steers nothing: it is raised unchanged."""

    class Stop(BaseException):
        pass

    configuration = Configuration()
    configuration.set_string("execution.target", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).map(Raising(Stop("enough")).fail)
    with pytest.raises(Stop, match="enough"):
        env.execute()


HALF = "caf\udce9"


class Reporting(MapFunction):
    """Ends in a way that is hard to report."""

    def __init__(self, what: str) -> None:
        self.what = what

    def open(self, runtime_context):
        if self.what == "accumulator name":
            runtime_context.add_accumulator(HALF, IntCounter())
        elif self.what == "state name":
            ValueStateDescriptor(HALF, Types.LONG())
        elif self.what == "large accumulators":
            self.values = ListAccumulator()
            runtime_context.add_accumulator("values", self.values)

    def map(self, value):
        if self.what == "exception":
            raise ValueError("cannot parse " + HALF)
        if self.what == "large accumulators":
            self.values.add(bytes(11 * 1024 * 1024))
        return value


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("exception", "cannot parse"),
        ("accumulator name", r"accumulator, 'caf\\udce9', cannot be written in UTF-8"),
        ("state name", r"state, 'caf\\udce9', cannot be written in UTF-8"),
        ("large accumulators", "accumulators of this task have 115.* of which 'values' has"),
    ],
)
@pytest.mark.parametrize("target", ["in-process", "local"])
def test_exceptions_that_are_hard_to_report_fail_the_job(what: str, told: str, target: str) -> None:
    options = {"execution.target": target, "parallelism.default": "1"}
    configuration = Configuration.from_dict(options)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1], Types.LONG()).map(Reporting(what), Types.LONG()).print()
    with pytest.raises(ValueError, match=told):
        env.execute()
