"""Side outputs of functions of every kind, as in PyFlink 2.3.

Goal: a pair of a tag and a value goes to the side output whichever kind of function emits it.
Method: one job with a branch for each kind; the contents of the main output and the side output.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from penstock.common import Configuration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    DataStream,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from penstock.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from penstock.datastream.window import CountEvictor, TumblingEventTimeWindows

SIDE = OutputTag("side", Types.STRING())
ANY = Types.PICKLED_BYTE_ARRAY()
TEN_MS = TumblingEventTimeWindows.of(Time.milliseconds(10))


class ItsValue(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


def twice(value: Any) -> Iterator[Any]:
    yield SIDE, f"side {value}"
    yield value


def aside(value: Any) -> Any:
    return SIDE, f"side {value}"


def add(first: int, second: int) -> int:
    return first + second


class BothMap(CoMapFunction):
    def map1(self, value: int) -> Any:
        return value

    def map2(self, value: int) -> Any:
        return aside(value)


class BothFlatMap(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterator[Any]:
        return twice(value)

    def flat_map2(self, value: int) -> Iterator[Any]:
        return iter(())


class Apply(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        return twice(sum(inputs))


class Process(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        return twice(sum(elements))


class ApplyAll(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        return twice(sum(inputs))


class ProcessAll(ProcessAllWindowFunction[Any, Any, Any]):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        return twice(sum(elements))


class Nothing(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        return None


@pytest.fixture
def stream() -> DataStream[int]:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ItsValue())
    return env.from_collection([1, 2], Types.LONG()).assign_timestamps_and_watermarks(strategy)


def test_functions_of_every_kind_emit_to_side_outputs(stream: DataStream[int]) -> None:
    keyed = stream.key_by(lambda _: 0, Types.INT())
    window = keyed.window(TEN_MS)
    late = keyed.window(TEN_MS).allowed_lateness(5)
    each = [1, 2], ["side 1", "side 2"]
    folded = [3], ["side 3"]
    cases: list[tuple[DataStream[Any], tuple[list[Any], list[str]]]] = [
        (stream.map(aside, ANY), ([], ["side 1", "side 2"])),
        (stream.filter(lambda v: v > 0).map(aside, ANY), ([], ["side 1", "side 2"])),
        (stream.flat_map(twice, ANY), each),
        (keyed.map(aside, ANY), ([], ["side 1", "side 2"])),
        (keyed.flat_map(twice, ANY), each),
        (stream.connect(stream).map(BothMap(), ANY), each),
        (keyed.connect(keyed).map(BothMap(), ANY), each),
        (stream.connect(stream).flat_map(BothFlatMap(), ANY), each),
        (window.apply(Apply(), ANY), folded),
        (window.process(Process(), ANY), folded),
        (window.reduce(add, Process(), ANY), folded),
        (late.process(Process(), ANY), folded),
        (keyed.count_window(2).process(Process(), ANY), folded),
        (stream.window_all(TEN_MS).apply(ApplyAll(), ANY), folded),
        (stream.window_all(TEN_MS).process(ProcessAll(), ANY), folded),
    ]
    found: dict[tuple[int, str], list[Any]] = {}
    branches = []
    for number, (main, _) in enumerate(cases):
        side = main.get_side_output(SIDE)
        branches.append(main.map(lambda v, n=number: (n, "main", v)))
        branches.append(side.map(lambda v, n=number: (n, "side", v)))
    with branches[0].union(*branches[1:]).execute_and_collect() as results:
        for number, output, value in results:
            found.setdefault((number, output), []).append(value)
    for number, (main, expected) in enumerate(cases):
        outputs = [sorted(found.get((number, name), [])) for name in ("main", "side")]
        assert outputs == list(expected), main.get_name()


def test_windows_discard_what_nobody_asks_for(stream: DataStream[int]) -> None:
    """As with process functions: the pair is no record of the main output."""
    keyed = stream.key_by(lambda _: 0, Types.INT())
    window = keyed.window(TEN_MS)
    kinds = [
        window.apply(Apply(), Types.LONG()),
        window.reduce(add, Process(), Types.LONG()),
        window.allowed_lateness(5).process(Process(), Types.LONG()),
        keyed.window(TEN_MS).evictor(CountEvictor.of(5)).process(Process(), Types.LONG()),
        keyed.count_window(2).process(Process(), Types.LONG()),
        stream.window_all(TEN_MS).process(ProcessAll(), Types.LONG()),
    ]
    with kinds[0].union(*kinds[1:]).execute_and_collect() as results:
        assert list(results) == [3] * len(kinds)


def test_a_window_function_gives_an_iterable(stream: DataStream[int]) -> None:
    """A function without any ``yield`` is a mistake, as in flat_map."""
    for window in (
        stream.key_by(lambda _: 0, Types.INT()).window(TEN_MS),
        stream.key_by(lambda _: 0, Types.INT()).count_window(2),
    ):
        with pytest.raises(TypeError, match="NoneType"):
            list(window.process(Nothing()).execute_and_collect())
