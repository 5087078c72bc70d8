"""Accumulators: their results alone, merged, and after serialisation."""

import msgspec
import pytest
from penstock.common.accumulators import (
    AverageAccumulator,
    DoubleCounter,
    DoubleMaximum,
    DoubleMinimum,
    Histogram,
    IntCounter,
    IntMaximum,
    IntMinimum,
    ListAccumulator,
    LongCounter,
    LongMaximum,
    LongMinimum,
)
from penstock.errors import InvalidProgramError, JobExecutionError
from penstock.jobmaster.accumulators import merge_accumulators
from penstock.taskexecutor.task.accumulator_registry import AccumulatorRegistry


@pytest.mark.parametrize(
    ("kind", "ones", "others", "result"),
    [
        (IntCounter, [1, 2], [10], 13),
        (LongCounter, [], [2**40], 2**40),
        (DoubleCounter, [0.5], [0.25], 0.75),
        (IntMinimum, [3, 1, 2], [5], 1),
        (LongMinimum, [], [5, 4], 4),
        (DoubleMinimum, [0.5], [], 0.5),
        (IntMaximum, [3, 1], [5, 4], 5),
        (LongMaximum, [], [], None),
        (DoubleMaximum, [-1.0], [-2.0], -1.0),
        (AverageAccumulator, [1, 2], [6], 3.0),
        (Histogram, [3, 1, 3], [3, 2], {1: 1, 2: 1, 3: 3}),
        (ListAccumulator, ["a", "b"], ["c"], ["a", "b", "c"]),
    ],
)
def test_values_of_subtasks_are_merged_after_their_transfer(kind, ones, others, result):
    parts = []
    for values in (ones, others):
        registry = AccumulatorRegistry()
        accumulator = kind()
        registry.add("name", accumulator)
        for value in values:
            accumulator.add(value)
        parts.append(msgspec.msgpack.decode(msgspec.msgpack.encode(registry.encoded())))
    merged = merge_accumulators(parts)
    assert merged == {"name": result}
    assert list(merged["name"]) == list(result) if isinstance(result, dict) else True
    accumulator.reset_local()
    assert accumulator.get_local_value() == kind().get_local_value()


def test_a_name_means_one_accumulator():
    registry = AccumulatorRegistry()
    counter = registry.get_or_add("n", IntCounter)
    assert registry.get_or_add("n", IntCounter) is counter
    assert registry.get("n") is counter
    assert registry.get("other") is None
    with pytest.raises(InvalidProgramError, match="'n' exists already"):
        registry.add("n", IntCounter())
    with pytest.raises(InvalidProgramError, match="is a IntCounter, not a Histogram"):
        registry.get_or_add("n", Histogram)


def test_different_kinds_of_one_name_cannot_be_merged():
    parts = []
    for kind in (IntCounter, Histogram):
        registry = AccumulatorRegistry()
        registry.add("n", kind())
        parts.append(registry.encoded())
    with pytest.raises(JobExecutionError, match="'n' is a IntCounter in one subtask"):
        merge_accumulators(parts)
