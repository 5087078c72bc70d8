"""Composed map and filter functions act as the functions do one after the other."""

import inspect
import traceback
from fractions import Fraction

import numpy as np
import pytest
from penstock.common import WatermarkStrategy
from penstock.connectors.writer_sink import PythonSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.expressions.evaluation import Evaluation
from penstock.taskexecutor.compiled import (
    MIN_TIMESTAMP,
    ChainingOutput,
    DiscardingOutput,
    FilterOperator,
    FunctionSink,
    FusedOperator,
    MapOperator,
)
from penstock.taskexecutor.sinks.writer import SinkWriterOperator
from penstock.taskexecutor.task.fusion import DROPPED, Composition, Fusion
from penstock.testing import PipelineTestHarness


def stage(kind, function):
    return kind(function, function)


def increment(x):
    return x + 1


def halve_of(x):
    return 100 // x


def is_odd(x):
    return x & 1 == 1


def test_stages_follow_each_other_and_filters_drop():
    calls = []

    def noted(x):
        calls.append(x)
        return x

    stages = [
        stage(MapOperator, increment),
        stage(FilterOperator, is_odd),
        stage(MapOperator, noted),
    ]
    composition = Composition(stages)
    assert [composition.function(x) for x in range(4)] == [1, DROPPED, 3, DROPPED]
    assert list(composition.function_of_all(range(4))) == [1, 3]
    assert calls == [1, 3, 1, 3]
    assert composition.function.__module__ == Composition.__module__, "flame graphs show it"


async def awaits(_x):
    return False


@pytest.mark.parametrize("alone", [True, False])
def test_a_filter_that_gives_coroutines_is_refused(alone):
    """A coroutine is true, so such a filter would pass everything."""
    calling = stage(FilterOperator, lambda x: awaits(x))
    calling.setup(None, DiscardingOutput())
    keeping = stage(FilterOperator, lambda x: "kept" if x else [])
    with pytest.raises(TypeError, match="coroutine, which nobody awaits"):
        if alone:
            calling.process(1, MIN_TIMESTAMP)
        else:
            Composition([keeping, calling]).function(1)


@pytest.mark.parametrize("answer", [True, 1, "text", [0], False, 0, "", None, np.True_, np.False_])
def test_a_filter_goes_by_the_truth_of_any_answer(answer):
    kept = []
    keeping = stage(FilterOperator, lambda _x: answer)
    sink = FunctionSink(None, kept.append)
    keeping.setup(None, ChainingOutput(sink))
    keeping.process(5, MIN_TIMESTAMP)
    assert kept == ([5] if answer else [])
    composition = Composition([keeping, keeping])
    assert list(composition.function_of_all([5])) == kept
    assert composition.function(5) == (5 if answer else DROPPED)


@pytest.mark.parametrize("of_all", [False, True])
def test_an_error_has_the_users_line_and_blames_the_stage(of_all):
    stages = [stage(MapOperator, increment), stage(MapOperator, halve_of)]
    composition = Composition(stages)
    with pytest.raises(ZeroDivisionError) as caught:
        if of_all:
            list(composition.function_of_all([0, -1]))
        else:
            composition.function(-1)
    assert composition.blame(caught.value) is caught.value
    assert [s.failed_with for s in stages] == [None, caught.value]
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "halve_of"
    assert caught.value.__context__ is None


def test_records_are_made_one_by_one():
    events = []

    def noted(x):
        events.append(("map", x))
        return x

    composition = Composition([stage(MapOperator, increment), stage(MapOperator, noted)])
    values = composition.function_of_all(range(2))
    events.extend(("seen", value) for value in values)
    assert events == [("map", 1), ("seen", 1), ("map", 2), ("seen", 2)]


def test_a_stop_iteration_of_a_function_stays_one():
    def stops(x):
        raise StopIteration(x)

    stages = [stage(MapOperator, stops), stage(MapOperator, increment)]
    composition = Composition(stages)
    operator = FusedOperator(
        composition.function, composition.function_of_all, DROPPED, composition.blame
    )
    operator.setup(None, DiscardingOutput())
    with pytest.raises(StopIteration) as caught:
        operator.process_all([1], MIN_TIMESTAMP)
    assert caught.value.value == 1
    assert stages[0].failed_with is caught.value


class Runs(PythonSink):
    """Records the frame that passes each record to its writer."""

    def __init__(self):
        super().__init__()
        self.callers = []

    def create_writer(self, context):
        del context
        return self

    def write(self, element, context):
        del context
        self.callers.append((element, inspect.currentframe().f_back.f_code.co_name))

    def flush(self, end_of_input):
        pass

    def close(self):
        pass


def test_a_writer_gets_what_a_single_function_makes_by_runs():
    """Record by record, the path from the source to a writer is slower."""
    sink = Runs()
    operator = SinkWriterOperator(sink)
    operator.setup(None, DiscardingOutput())
    operator.writer = sink
    first = stage(MapOperator, lambda x: str(x + HALF))
    first.setup(None, ChainingOutput(operator))
    entry = Fusion(Evaluation(enabled=False)).entry(first)
    entry.process_all([1, 2], MIN_TIMESTAMP)
    entry.process(3, MIN_TIMESTAMP)
    assert sink.callers == [("3/2", "process_all"), ("5/2", "process_all"), ("7/2", "process")]


HALF = Fraction(1, 2)


def test_functions_that_cannot_be_evaluated_are_called():
    """After some attempts the engine stops trying to evaluate them."""
    harness = PipelineTestHarness()
    numbers = harness.environment.from_source(
        NumberSequenceSource(0, 5_000), WatermarkStrategy.no_watermarks(), "numbers"
    )
    halves = numbers.map(lambda x: (x * HALF, x - 4_500)).filter(lambda v: v[0] * HALF > 2)
    harness.sink("results", halves.map(lambda v: v[0] / v[1]))
    with harness:
        with pytest.raises(ZeroDivisionError) as caught:
            harness.run_sources()
        found = harness.values("results")
    assert found == [Fraction(x, 2) / (x - 4_500) for x in range(9, 4_500)]
    assert "<lambda>" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
