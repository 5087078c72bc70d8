"""DataGeneratorSource: records by number, positions in checkpoints, rates by a virtual clock."""

from dataclasses import replace

import pytest
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_generator import (
    DataGeneratorSource,
    GeneratorFunction,
    RateLimiterStrategy,
)
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.errors import InvalidProgramError
from penstock.network import runtime
from penstock.taskexecutor.compiled import END_OF_DATA, NOTHING_AVAILABLE
from penstock.taskexecutor.state.state_handler import hears_of_completion
from penstock.testing import OneInputStreamOperatorTestHarness, redistribute

pytestmark = pytest.mark.usefixtures("unhurried_sources")
CHECKPOINTED = {"execution.checkpointing.interval": "10 s"}


class Halves(GeneratorFunction):
    """Computes nothing before it is opened."""

    def open(self, runtime_context):
        self.divisor = 2

    def map(self, value):
        return value / self.divisor


class Doubled(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 2


def descriptor(function=lambda number: number * 3, count=10, rate=None):
    return DataGeneratorSource(function, count, rate).source_operator()


def harness(described, **arguments):
    return OneInputStreamOperatorTestHarness(described, **arguments)


def read_all(test):
    while test.operator.emit_next(3) != END_OF_DATA:
        pass
    return test.values


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda number: number * 3, [0, 3, 6, 9]),
        (Halves(), [0, 0.5, 1, 1.5]),
        (lambda number: [str(number)] * number, [[], ["1"], ["2"] * 2, ["3"] * 3]),
    ],
    ids=["computed", "opened", "called"],
)
def test_a_function_makes_each_record_of_its_number(function, expected):
    with harness(descriptor(function, 4)) as test:
        assert read_all(test) == expected


def test_subtasks_share_the_numbers():
    found = []
    for subtask in range(3):
        with harness(descriptor(count=10), subtask=subtask, parallelism=3) as test:
            found.append(read_all(test))
    assert found == [[0, 3, 6, 9], [12, 15, 18], [21, 24, 27]]


def test_a_source_of_nothing_ends_at_once():
    for rate in (None, RateLimiterStrategy.per_second(1)):
        with harness(descriptor(count=0, rate=rate)) as test:
            assert read_all(test) == []


@pytest.mark.parametrize("rate", [None, RateLimiterStrategy.per_second(1e9)])
@pytest.mark.parametrize("count", range(11))
def test_a_restored_source_generates_the_rest_at_another_parallelism(rate, count):
    first = harness(descriptor(rate=rate))
    first.initialize_state()
    with first:
        first.set_processing_time(1000)
        while len(first.values) < count:
            first.operator.emit_next(1)
        snapshot = first.snapshot(1)
        values = first.values
    for subtask, part in enumerate(redistribute([snapshot], 2)):
        test = harness(descriptor(rate=rate), subtask=subtask, parallelism=2)
        test.initialize_state(part)
        with test:
            test.set_processing_time(1000)
            values = values + read_all(test)
    assert values == [number * 3 for number in range(10)]


def test_timestamps_and_watermarks_follow_what_the_function_made():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Doubled())
    described = replace(descriptor(lambda number: number + 5, 3), watermark_strategy=strategy)
    with harness(described) as test:
        read_all(test)
        test.operator.finish()
        made = [(each.value, each.timestamp) for each in test.records]
        assert made == [(5, 10), (6, 12), (7, 14)]
        assert test.output.watermarks[-1] == 13


def test_a_rate_per_second_fills_by_the_clock():
    """Four a second for two subtasks: two for this one, at most a second's worth at once."""
    described = descriptor(count=40, rate=RateLimiterStrategy.per_second(4))
    with harness(described, parallelism=2) as test:
        assert test.operator.emit_next(100) != NOTHING_AVAILABLE
        assert test.operator.emit_next(100) == NOTHING_AVAILABLE
        assert len(test.values) == 1
        for now, made in ((499, 1), (500, 2), (1000, 3), (60_000, 5), (60_100, 5), (61_000, 7)):
            test.set_processing_time(now)
            test.operator.emit_next(100)
            assert len(test.values) == made, now


@pytest.mark.parametrize(
    ("rate", "hears"),
    [
        (None, False),
        (RateLimiterStrategy.per_second(5), False),
        (RateLimiterStrategy.per_checkpoint(5), True),
    ],
    ids=["unlimited", "per second", "per checkpoint"],
)
@pytest.mark.parametrize("strategy", [None, WatermarkStrategy.for_monotonous_timestamps()])
def test_only_a_rate_per_checkpoint_has_the_source_hear_of_completions(rate, hears, strategy):
    described = replace(descriptor(rate=rate), watermark_strategy=strategy)
    with harness(described, configuration=CHECKPOINTED) as test:
        assert hears_of_completion(test.operator) == hears


def test_a_rate_per_checkpoint_continues_when_one_is_complete():
    described = descriptor(count=8, rate=RateLimiterStrategy.per_checkpoint(3))
    with harness(described, configuration=CHECKPOINTED) as test:
        for complete, made in ((1, 3), (2, 6), (3, 8)):
            for _ in range(5):
                status = test.operator.emit_next(2)
            assert len(test.values) == made
            if made < 8:
                assert status == NOTHING_AVAILABLE
                test.operator.notify_checkpoint_complete(complete)
        assert status == END_OF_DATA


def test_a_rate_per_checkpoint_continues_within_a_hybrid_source():
    parts = DataGeneratorSource(lambda n: n, 4, RateLimiterStrategy.per_checkpoint(3))
    both = HybridSource.builder(parts).add_source(DataGeneratorSource(lambda n: -n, 2)).build()
    with harness(both.source_operator(), configuration=CHECKPOINTED) as test:
        while test.operator.emit_next(1) != NOTHING_AVAILABLE:
            pass
        assert test.values == [0, 1, 2]
        test.operator.notify_checkpoint_complete(1)
        assert read_all(test) == [0, 1, 2, 3, 0, -1]


@pytest.mark.parametrize(
    ("options", "number", "expected"),
    [
        ({}, 3, "takes no checkpoints: call enable_checkpointing"),
        ({**CHECKPOINTED, "execution.runtime-mode": "BATCH"}, 3, "takes no checkpoints"),
        (CHECKPOINTED, 1, r"fewer than it has subtasks \(2\)"),
    ],
)
def test_a_rate_that_would_stop_for_ever_is_refused(options, number, expected):
    described = descriptor(rate=RateLimiterStrategy.per_checkpoint(number))
    test = harness(described, configuration=options, parallelism=2)
    try:
        with pytest.raises(InvalidProgramError, match=expected):
            test.open()
    finally:
        test.close()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: DataGeneratorSource(3, 10), "takes a GeneratorFunction or a callable, got 3"),
        (lambda: DataGeneratorSource(Halves, 10), r"pass an instance: Halves\(\)"),
        (lambda: DataGeneratorSource(abs, "10"), "takes a whole number of records, got '10'"),
        (lambda: DataGeneratorSource(abs, True), "takes a whole number"),
        (lambda: DataGeneratorSource(abs, -1), "cannot generate -1 records"),
        (lambda: DataGeneratorSource(abs, 1, Types.LONG()), "third argument .* RateLimiterStr"),
        (lambda: DataGeneratorSource(abs, 1, None, int), "fourth argument .* is a type"),
        (lambda: RateLimiterStrategy.per_second(0), "positive number, got 0"),
        (lambda: RateLimiterStrategy.per_second(float("inf")), "positive number, got inf"),
        (lambda: RateLimiterStrategy.per_checkpoint(1.5), "whole number, got 1.5"),
    ],
)
def test_wrong_arguments_are_refused(make, expected):
    with pytest.raises(InvalidProgramError, match=expected):
        make()


def test_the_source_of_a_job_fails_with_the_line_of_its_function():
    options = Configuration.from_dict({"execution.target": "in-process"})
    env = StreamExecutionEnvironment.get_execution_environment(options)
    source = DataGeneratorSource(lambda number: 1 // (2 - number), 5)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").print()
    with pytest.raises(ZeroDivisionError) as failure:
        env.execute()
    assert "numbers" in str(failure.value.__notes__)


def test_the_plan_says_that_the_function_is_evaluated():
    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda number: number * 2, 5)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").print()
    answer = "evaluated" if runtime() == "native" else "called"
    assert f"map: {answer}" in env.explain()
